"""Count a tool call once that several spans describe: of a framework, an MCP client and an MCP server.

Spans belong to one call if they are in one trace, are of the same tool, and one is an ancestor of the other; or if they have the same
call id and overlap in time. A retried call has the same call id too, but begins after the first one ended.

The first span of a call that arrives counts, and later ones of the same call are dropped. Two kinds of spans wait for a better one:

* A server's span with a parent, because the caller's span has the outcome that the caller saw.
* A span of the MCP SDK's client without an error, because the SDK does not record there that the tool failed.

Limits: a span waits six seconds, a little more than the five for which exporters collect spans. At most 10,000 spans wait; further ones
count at once. The window knows the last 50,000 spans, and of the calls under one span 64 tools. It is in the memory of one gateway, so all
spans of a trace have to arrive there. Of one trace 256 spans wait.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear_gateway.otlp.executions import plain_name
from switchgear_gateway.otlp.records import CLIENT, SERVER, Span, text
from switchgear_gateway.otlp.submission import Sender
from switchgear_schemas import ToolExecution

WAIT_S: Final = 6.0
MOST_WAITING: Final = 10_000
MOST_REMEMBERED: Final = 50_000
_MOST_OF_TRACE: Final = 256
"""Spans of one trace that wait. Each new span of the trace looks at them all."""
_MOST_TOOLS: Final = 64
"""Tools that are noted for one span. Its own is one; the others are of calls under it."""
_DEEPEST: Final = 16
"""How many ancestors to look at."""
_OUTAGES: Final = frozenset({"transport", "timeout", "server", "rate_limited"})
_OF_FAILURE: Final = ("status", "error_class", "error_type", "error_message", "evidence")
_WEAK_SCOPE: Final = "mcp-python-sdk"
_Times = tuple[int, int]
_CallId = tuple[bytes, str, str]
"""A trace, a tool and a call id."""


@dataclass(frozen=True, slots=True)
class SeenCall:
    """What is kept of a span that is a tool call. Its attributes are not, because thousands of spans may wait."""

    execution: ToolExecution
    sender: Sender
    key: bytes
    """The span, within its tenant."""
    trace: bytes
    """The trace, within its tenant."""
    tool: str
    """The tool's own name: a framework does not know the server's."""
    of_server: bool
    waits: bool
    """Whether a better span of the same call may follow."""
    start_ns: int
    end_ns: int

    @classmethod
    def of(cls, span: Span, execution: ToolExecution, sender: Sender) -> Self:
        """Return the call that a span is."""
        weak = span.kind == CLIENT and span.scope == _WEAK_SCOPE and execution.status == "success"
        of_server = span.kind == SERVER
        return cls(
            execution,
            sender,
            span_key(sender.tenant, span.trace_id, span.span_id),
            span_key(sender.tenant, span.trace_id, b""),
            plain_name(execution.tool_name),
            of_server,
            bool(span.parent_id) if of_server else weak and text(span.attributes, "error.type") is None,
            span.start_ns,
            span.end_ns,
        )

    @property
    def call_id(self) -> str:
        """What the model named the call. Empty if that isn't known."""
        return str(self.execution.metadata.get("call_id", ""))

    @property
    def identity(self) -> _CallId:
        """What spans of one call in different libraries have in common, if they have a call id."""
        return self.trace, self.tool, self.call_id

    @property
    def times(self) -> _Times:
        """Its start and its end."""
        return self.start_ns, self.end_ns


class CountedCall(NamedTuple):
    """One call, ready to be sent."""

    execution: ToolExecution
    sender: Sender
    spans: tuple[SeenCall, ...]
    """The spans that describe it."""


class _Waiting(NamedTuple):
    """A span that waits for a better one, and until when."""

    due: float
    call: SeenCall


class _Recent(BoundedDict[bytes, frozenset[str]]):
    """The last keys with the tools noted for each."""

    def note(self, key: bytes, tools: frozenset[str]) -> None:
        known = self.get(key, frozenset())
        self[key] = known | tools if len(known) < _MOST_TOOLS else known

    def has(self, key: bytes, tool: str) -> bool:
        return tool in self.get(key, ())

    def forget(self, key: bytes, tool: str) -> None:
        left = self.get(key, frozenset()) - {tool}
        if left:
            self[key] = left
        else:
            self.pop(key, None)


class CallWindow:
    """The calls that were counted lately, and those that wait. It has no clock: callers say what time it is.

    Args:
        wait_s: How long a span waits for a better one of the same call, in seconds.
        most_waiting: How many spans may wait.
        remembered: How many counted spans, and how many other spans, to remember.
    """

    def __init__(
        self, *, wait_s: float = WAIT_S, most_waiting: int = MOST_WAITING, remembered: int = MOST_REMEMBERED
    ) -> None:
        self._wait_s = wait_s
        self._most_waiting = most_waiting
        self._counted = _Recent(remembered)  # spans of counted calls
        self._covered = _Recent(remembered)  # ancestors of counted calls, which may arrive later
        self._parents = BoundedDict[bytes, bytes](remembered)
        self._times = BoundedDict[_CallId, _Times](remembered)  # of the last counted call with each id
        self._waiting: dict[bytes, list[_Waiting]] = {}
        self._number_waiting = 0
        self.copies = 0
        """How many spans were dropped because their call was counted."""

    @property
    def waiting(self) -> int:
        """How many spans wait."""
        return self._number_waiting

    @property
    def waiting_since(self) -> float | None:
        """When the span that waits longest arrived, None if none waits."""
        if not self._waiting:
            return None
        return min(each.due for held in self._waiting.values() for each in held) - self._wait_s

    def note(self, tenant: str, spans: Iterable[Span]) -> None:
        """Note spans, so that ancestors between two tool calls are known.

        Args:
            tenant: The tenant that sent them.
            spans: All spans of a request, also those that are no tool calls.
        """
        for span in spans:
            if (len(span.trace_id), len(span.span_id), len(span.parent_id)) == (16, 8, 8):
                self._note_parent(
                    span_key(tenant, span.trace_id, span.span_id), span_key(tenant, span.trace_id, span.parent_id)
                )

    def add(self, calls: Iterable[SeenCall], now: float) -> Iterator[list[CountedCall]]:
        """Take the tool calls of one request, whose spans were noted. Yield those that count now, trace by trace.

        Args:
            calls: The tool calls.
            now: Monotonic time in seconds.
        """
        by_trace: dict[bytes, list[SeenCall]] = defaultdict(list)
        for call in calls:
            by_trace[call.trace].append(call)
        for trace, members in by_trace.items():
            yield self._decide(trace, members, now)

    def due(self, now: float) -> Iterator[list[CountedCall]]:
        """Yield the calls whose wait is over, trace by trace."""
        for trace in [trace for trace, held in self._waiting.items() if any(each.due <= now for each in held)]:
            yield self._decide(trace, [], now)

    def forget(self, call: CountedCall) -> None:
        """Take back that a call was counted, because it could not be sent. Its spans count when they arrive again."""
        for each in call.spans:
            self._times.pop(each.identity, None)
            self._counted.forget(each.key, each.tool)
            for ancestor in self.ancestors(each.key):
                self._covered.forget(ancestor, each.tool)

    def _decide(self, trace: bytes, new: Sequence[SeenCall], now: float) -> list[CountedCall]:
        held = self._waiting.pop(trace, [])
        self._number_waiting -= len(held)
        due = {each.call.key: each.due for each in held}
        ready: list[CountedCall] = []
        for members in self._grouped([*(each.call for each in held), *new]):
            waits_until = min(due.get(each.key, now + self._wait_s) for each in members)
            room = self._number_waiting + len(members) <= self._most_waiting
            room = room and len(self._waiting.get(trace, ())) + len(members) <= _MOST_OF_TRACE
            if any(self._is_copy(each) for each in members):
                self.copies += len(members)
            elif waits_until > now and room and all(each.waits for each in members):
                self._waiting.setdefault(trace, []).extend(_Waiting(waits_until, each) for each in members)
                self._number_waiting += len(members)
            else:
                ready.append(self._count(members))
        return ready

    def _grouped(self, calls: Sequence[SeenCall]) -> list[list[SeenCall]]:
        """Return the spans of each call, from the outermost to the innermost."""
        by_key = {call.key: call for call in calls}  # an export that was sent twice has each span once here
        groups: dict[bytes, list[tuple[int, SeenCall]]] = defaultdict(list)
        for key, call in by_key.items():
            relatives = [
                (depth, ancestor)
                for depth, ancestor in enumerate(self.ancestors(key), 1)
                if ancestor in by_key and by_key[ancestor].tool == call.tool
            ]
            depth, outermost = relatives[-1] if relatives else (0, key)
            groups[outermost].append((depth, call))
        ordered = [[call for _, call in sorted(each, key=lambda one: one[0])] for each in groups.values()]
        return _joined_by_call_id(ordered)

    def ancestors(self, key: bytes) -> list[bytes]:
        """Return the known ancestors of a span, from its parent up."""
        found: list[bytes] = []
        while len(found) < _DEEPEST and (parent := self._parents.get(key)) is not None:
            found.append(parent)
            key = parent
        return found

    def _is_copy(self, call: SeenCall) -> bool:
        if self._counted.has(call.key, call.tool) or self._covered.has(call.key, call.tool):
            return True
        times = self._times.get(call.identity)
        if times is not None and _overlap(times, call.times):
            return True
        return any(self._counted.has(ancestor, call.tool) for ancestor in self.ancestors(call.key))

    def _count(self, members: Sequence[SeenCall]) -> CountedCall:
        for each in members:
            if each.call_id:
                self._times[each.identity] = each.times
            self._counted.note(each.key, frozenset({each.tool}))
            for ancestor in self.ancestors(each.key):
                self._covered.note(ancestor, frozenset({each.tool}))
        self.copies += len(members) - 1
        return CountedCall(merged(members), members[0].sender, tuple(members))

    def _note_parent(self, key: bytes, parent: bytes) -> None:
        self._parents[key] = parent
        tools = self._covered.get(key)
        if tools:  # a span between a counted call and an ancestor that is still to come
            for ancestor in self.ancestors(key):
                self._covered.note(ancestor, tools)


def _says_less(failed: ToolExecution) -> int:
    """Return 0 for an outage, 1 for another failure whose kind is known, and 2 or 3 for those of sources that hide the kind."""
    return 2 * (failed.evidence != "full") + (failed.error_class not in _OUTAGES)


def merged(members: Sequence[SeenCall]) -> ToolExecution:
    """Return the execution of a call that several spans describe, from the outermost to the innermost.

    The outermost span that isn't a server's decides. If any span failed, the call failed, because frameworks and clients may hide it.
    Among failures an outage says most, but not one that its source only guessed. The name with a server is the most exact.
    """
    callers = [each.execution for each in members if not each.of_server]
    executions = callers + [each.execution for each in members if each.of_server]
    chosen, failed = executions[0], [each for each in executions if each.status != "success"]
    changes: dict[str, object] = {}
    if failed:
        reason = min(failed, key=_says_less)
        changes = {name: getattr(reason, name) for name in _OF_FAILURE}
    exact = next((each for each in executions if each.tool_name.startswith("mcp:")), None)
    if exact is not None:
        changes["tool_name"] = exact.tool_name
    return chosen.model_copy(update=changes)


def _joined_by_call_id(groups: Sequence[list[SeenCall]]) -> list[list[SeenCall]]:
    """Join groups with the same tool and call id that overlap in time: two libraries that instrument the same framework."""
    found: list[list[SeenCall]] = []
    by_call: dict[tuple[str, str], list[SeenCall]] = {}
    for group in groups:
        first = group[0]
        call_id = next((each.call_id for each in group if each.call_id), "")
        same = by_call.get((first.tool, call_id)) if call_id else None
        if same is not None and _overlap(same[0].times, first.times):
            same += group
            continue
        found.append(group)
        by_call[first.tool, call_id] = group
    return found


def _overlap(one: _Times, other: _Times) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def span_key(tenant: str, trace_id: bytes, span_id: bytes) -> bytes:
    """Return the key of a span, or of a trace if ``span_id`` is empty."""
    return tenant.encode() + b"\0" + trace_id + span_id
