"""All kinds of faults by name."""

from __future__ import annotations

from tests.chaos.faults import brokers, clickhouse, foreign_input, network, poison, processes
from tests.chaos.faults.kind import Kind

KINDS: dict[str, Kind] = {
    **processes.kinds(),
    **brokers.kinds(),
    **network.kinds(),
    **clickhouse.kinds(),
    **foreign_input.kinds(),
    **poison.kinds(),
}
