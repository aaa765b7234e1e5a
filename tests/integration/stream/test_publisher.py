"""What the worker writes, as the broker stores it."""

from __future__ import annotations

from switchgear.fleet import Changes, Published, Row
from switchgear_schemas.families import DEFAULT_PATTERN
from switchgear_schemas.partitioner import owner_partition
from switchgear_stream.app import build_app
from switchgear_stream.inspect import read_circuits, read_rows
from switchgear_stream.publisher import Publisher, by_partition
from switchgear_stream.takeover import TakeOver
from tests.support.fleet import World


async def _write(publisher: Publisher, changes: Changes) -> None:
    for partition, rows in by_partition(changes, 4, DEFAULT_PATTERN).items():
        await publisher.rows(partition, rows)
    await publisher.outputs(changes)


async def test_a_retired_circuit_is_gone_from_the_changelog_and_from_what_readers_see(settings, publisher):
    world = World()
    for _ in range(3):
        world.say("error")
    world.run_all()
    (record,) = world.records()
    kept = Row(circuit_id="other", tool_name="other").encode()
    there = Changes(rows={b"search": ("search", world.rows[b"search"]), b"other": ("other", kept)})
    there.circuits.append(Published("search", "search", "open", 1, record.to_bytes()))
    await _write(publisher, there)
    assert set(await read_rows(settings)) == {"search", "other"}

    retired = Changes(rows={b"search": ("search", None)})
    retired.circuits.append(Published("search", "search", "closed", 1, None))
    await _write(publisher, retired)
    assert set(await read_rows(settings)) == {"other"}
    assert len((await read_circuits(settings))["search"]) == 1
    _, table, _ = build_app(settings)
    known = await TakeOver(settings, publisher, table).read([owner_partition("search", 4)])
    assert known.fleet.published == {}
