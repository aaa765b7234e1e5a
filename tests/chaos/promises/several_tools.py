"""One tool opens no server: the circuit of a server opens by the failures of several of its tools."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.chaos.evidence import CircuitRecord, Evidence
from tests.chaos.promises.recount import is_late, outcome
from tests.chaos.promises.result import PromiseResult
from tests.chaos.servers import is_of_server, server_circuit, server_of

PROMISE = "one-tool-opens-no-server"
WINDOW_S = 4.0
"""The window of the servers' policies."""
FEWEST = 2
ROUNDING_S = 0.001
Failures = list[tuple[float, str]]
"""Time and tool, in the order of the time."""


def one_tool_opens_no_server(evidence: Evidence) -> PromiseResult:
    """Check that several tools failed within the window before each open of a server, and that the record says so."""
    failures = _failures(evidence)
    faults: list[str] = []
    of_servers = alone = 0
    for record in _opens(evidence):
        if is_of_server(record.circuit):
            of_servers += 1
            faults += _by_too_few(record, _failing(failures[record.circuit], record.changed_s))
        elif (server := server_of(record.circuit)) is not None:
            alone += _failing(failures[server_circuit(server)], record.changed_s) == {record.circuit}
    summary = f"servers opened {of_servers:,} times, and {alone:,} times a tool of theirs that failed alone"
    return PromiseResult(PROMISE, summary, of_servers, faults)


def _by_too_few(record: CircuitRecord, failing: set[str]) -> Iterator[str]:
    if len(failing) < FEWEST:
        yield f"{record.circuit} opened in version {record.version} by the failures of {sorted(failing) or 'no tool'}"
    if record.tools is None or record.tools < FEWEST:
        yield f"{record.circuit}: version {record.version} names {record.tools} failing tools"


def _opens(evidence: Evidence) -> Iterator[CircuitRecord]:
    """Yield the first record of each open state that followed a closed one. An owner publishes some records again."""
    seen: set[tuple[str, float]] = set()
    for record in evidence.circuits:
        opened = record.circuit, record.changed_s
        if record.state == "open" and record.previous == "closed" and opened not in seen:
            seen.add(opened)
            yield record


def _failures(evidence: Evidence) -> Mapping[str, Failures]:
    """Return the calls that a server left unanswered, by its circuit."""
    found: dict[str, Failures] = defaultdict(list)
    for event in evidence.events:
        server = server_of(event.tool)
        if server is None or event.status == "rejected" or is_late(event, evidence.late_after_s):
            continue
        circuit = server_circuit(server)
        if outcome(event, circuit) == "failed":
            found[circuit].append((event.timestamp_s, event.tool))
    for each in found.values():
        each.sort()
    return found


def _failing(failures: Failures, at: float) -> set[str]:
    """Return the tools that failed within the window that ends at ``at``."""
    first = bisect_left(failures, (at - WINDOW_S - ROUNDING_S,))
    last = bisect_right(failures, (at + ROUNDING_S,))
    return {tool for _, tool in failures[first:last]}
