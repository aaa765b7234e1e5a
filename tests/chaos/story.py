"""What happened to one circuit, line by line, from the evidence that a broken run leaves behind.

    python -m tests.chaos.story FOLDER/evidence.pickle CIRCUIT [ALL]

Records of the circuits topic and the calls under a lease; with ALL every call. The circuit of a server is, for example, "mcp:one|family".
"""

from __future__ import annotations

import pickle
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.chaos.evidence import Event, Evidence
from tests.chaos.servers import circuits_of


def keep(evidence: Evidence, path: Path) -> None:
    """Save the evidence."""
    path.write_bytes(pickle.dumps(evidence))


def story(evidence: Evidence, circuit: str, *, calls: bool) -> list[str]:
    """Return one line per record and call, in the order of the broker's clock."""
    found = [
        (
            record.timestamp_s,
            f"version {record.version} generation {record.generation} {record.state} ({record.rule}) {list(record.leases)}",
        )
        for record in evidence.circuits
        if record.circuit == circuit
    ]
    for event in evidence.events:
        if circuit in circuits_of(event.tool):
            generation, lease_id = event.under(circuit)
            if calls or lease_id:
                found.append((event.timestamp_s, _call(event, generation, lease_id)))
    return [f"{datetime.fromtimestamp(at, UTC):%H:%M:%S.%f}"[:-3] + f" {line}" for at, line in sorted(found)]


def _call(event: Event, generation: int | None, lease_id: str | None) -> str:
    mark = " SENT AGAIN" if event.resent else ""
    how = f"{event.status} {event.error_class or ''}".strip()
    under = f"generation {generation} lease {lease_id}"
    return f"    {event.tool} {how} at {event.place} of {event.emitter_id} {under} {event.key}{mark}"


def main(path: str, circuit: str, everything: str = "") -> None:
    """Print the history of a circuit."""
    evidence = pickle.loads(Path(path).read_bytes())
    print("\n".join(story(evidence, circuit, calls=bool(everything))))


if __name__ == "__main__":
    main(*sys.argv[1:])
