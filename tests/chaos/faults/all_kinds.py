"""Every kind of fault by name."""

from __future__ import annotations

from tests.chaos.faults import brokers, clickhouse, clock, foreign_input, network, poison, processes, storm
from tests.chaos.faults.kind import Kind

KINDS: dict[str, Kind] = {
    **processes.kinds(),
    **brokers.kinds(),
    **network.kinds(),
    **clickhouse.kinds(),
    **storm.kinds(),
    **foreign_input.kinds(),
    **poison.kinds(),
    **clock.kinds(),
}
