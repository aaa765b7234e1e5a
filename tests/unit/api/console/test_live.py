from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import product
from types import SimpleNamespace
from typing import get_args

import pytest

from switchgear.follower.view import decode_view
from switchgear_api.console import live as live_module
from switchgear_api.console.figures import ToolFigures
from switchgear_api.console.live import KEPT, MOST_WAITING, Live
from switchgear_api.console.records import advice, circuit_part
from switchgear_schemas.circuit import Circuit
from switchgear_schemas.enums import CircuitState
from switchgear_sinks.health.verdict import judge
from tests.support.limits import ANSWER_S
from tests.support.sse import parsed
from tests.support.table import table


@pytest.fixture
def live():
    return Live(SimpleNamespace(fleet=SimpleNamespace(listen=lambda _: None)))


async def collect(live, count, after=None, visible=None):
    """The ids, kinds and contents of the first events of a stream."""
    found = []
    with live.following() as woken:
        for piece in live.events(after, visible):
            if piece is None:
                await woken.wait()
                woken.clear()
            else:
                found += parsed(piece)
            if len(found) >= count:
                break
    return found[:count]


async def test_console_that_comes_back_gets_exactly_what_it_has_missed(live):
    for number in range(5):
        live.send("circuit", {"tool": f"t{number}"})
    position = live.last_id
    for number in range(5, 8):
        live.send("circuit", {"tool": f"t{number}"})
    assert [each[2]["tool"] for each in await collect(live, 3, position)] == ["t5", "t6", "t7"]


@pytest.mark.parametrize("after", ["other-1", "nonsense", "-", "x-y"])
async def test_console_with_the_position_of_another_process_must_load_again(live, after):
    live.send("circuit", {"tool": "a"})
    ((number, kind, _),) = await collect(live, 1, after)
    assert (number, kind) == (live.last_id, "reset")


@pytest.mark.slow
async def test_console_that_was_away_too_long_must_load_again(live):
    position = live.last_id
    for number in range(KEPT + 1):
        live.send("circuit", {"tool": str(number)})
    assert [each[1] for each in await collect(live, 1, position)] == ["reset"]


async def test_position_from_the_future_is_not_believed(live):
    epoch = live.last_id.partition("-")[0]
    assert [each[1] for each in await collect(live, 1, f"{epoch}-99")] == ["reset"]


@pytest.mark.parametrize("number", ["²", "٣", "9" * 5000, "-1", "", "1 "])
async def test_position_without_a_plain_number_is_not_believed(live, number):
    epoch = live.last_id.partition("-")[0]
    assert [each[1] for each in await collect(live, 1, f"{epoch}-{number}")] == ["reset"]


async def test_slow_console_is_let_go_and_gets_what_it_has_missed_when_it_comes_back(live):
    events = live.events(None, None)
    assert [next(events), next(events)] == [b"retry: 1000\n\n", None]
    for number in range(MOST_WAITING - 1):
        live.send("circuit", {"tool": str(number)})
    first = parsed(next(events))
    for number in range(MOST_WAITING - 1, 2 * MOST_WAITING):
        live.send("circuit", {"tool": str(number)})
    assert list(events) == []
    missed = await collect(live, 2 * MOST_WAITING - len(first), first[-1][0])
    assert [int(each[2]["tool"]) for each in first + missed] == list(range(2 * MOST_WAITING))


async def test_console_for_some_tools_gets_no_event_about_others(live):
    position = live.last_id
    live.send("circuit", {"tool": "secret"})
    live.send("stats", {"fleet": {"calls": 9}, "tools": {"secret": 1, "mine": 2}})
    live.send("stats", {"fleet": {"calls": 9}, "tools": {"secret": 1}})
    live.send("circuit", {"tool": "mine"})
    found = await collect(live, 2, position, lambda name: name == "mine")
    assert [(each[1], each[2]) for each in found] == [("stats", {"tools": {"mine": 2}}), ("circuit", {"tool": "mine"})]


async def test_only_changed_tools_are_sent_and_nothing_while_nothing_changes(live):
    def snapshot(**calls):
        rows = [
            {"tool": name, "stats": {"calls": count}, "beat": {"calls": [count], "errors": [0]}, "last_call_at": None}
            for name, count in calls.items()
        ]
        return SimpleNamespace(content={"tools": rows, "fleet": {"calls": sum(calls.values())}})

    position = live.last_id
    for each in (snapshot(a=1, b=1), snapshot(a=1, b=1), snapshot(a=2, b=1)):
        await live._send_stats(each)
    found = await collect(live, 2, position)
    assert [sorted(each[2]["tools"]) for each in found] == [["a", "b"], ["a"]]
    assert found[1][2]["fleet"] == {"calls": 3}


@table(
    ("state", "counted"),
    product(
        get_args(CircuitState),
        (ToolFigures(), ToolFigures(calls=9, errors=9), ToolFigures(calls=9, caller_errors=9), None),
    ),
)
async def test_record_of_the_stream_has_the_advice_for_its_state(state, counted):
    live = Live(SimpleNamespace(fleet=SimpleNamespace(listen=lambda _: None)))
    record = decode_view(
        Circuit(
            circuit_id="web", tool_name="web", state=state, version=2, generation=1, changed_at=datetime.now(UTC)
        ).to_bytes()
    )
    if counted is not None:
        live._figures = SimpleNamespace(tools={"web": counted})
    position = live.last_id
    live.changed(record)
    ((_, _, sent),) = await collect(live, 1, position)
    kind = judge(counted or ToolFigures(), state).kind
    assert (sent["kind"], sent["action"]["text"]) == (kind, advice(circuit_part(record), kind))


async def test_circuit_that_changes_while_the_numbers_of_many_tools_are_sent_is_not_held_up(live):
    names = [f"t{number}" for number in range(250)]
    beat = {"calls": [1], "errors": [0]}
    rows = [{"tool": name, "stats": {"calls": 1}, "beat": beat, "last_call_at": None} for name in names]
    position = live.last_id
    sending = asyncio.create_task(live._send_stats(SimpleNamespace(content={"tools": rows, "fleet": {"calls": 250}})))
    await asyncio.sleep(0)
    live.send("circuit", {"tool": "t1"})
    await sending
    found = await collect(live, 4, position)
    assert [each[1] for each in found] == ["stats", "circuit", "stats", "stats"]
    assert [name for each in found if each[1] == "stats" for name in each[2]["tools"]] == names
    assert ["fleet" in each[2] for each in found] == [True, False, False, False]


async def test_stream_goes_on_with_heartbeats_while_the_store_does_not_answer(monkeypatch):
    monkeypatch.setattr(live_module, "REFRESH_S", 0.01)

    async def snapshot(*_args, **_options):
        raise OSError("ClickHouse is away")

    boards = SimpleNamespace(
        renewed=set(),
        fleet=SimpleNamespace(listen=lambda _: None),
        snapshot=snapshot,
        data=lambda _, **__: {"circuits_fresh": True, "problems": []},
    )
    live = Live(boards)
    running = asyncio.create_task(live.run())
    try:
        ((_, kind, data),) = await asyncio.wait_for(collect(live, 1), ANSWER_S)
    finally:
        running.cancel()
    assert (kind, data["circuits_fresh"]) == ("heartbeat", True)


PROBLEM = {"component": "worker", "level": "bad", "what": "worker-9 is not ready: box-7 refuses.", "since": None}


async def test_what_goes_wrong_is_told_at_once_also_while_the_numbers_wait_for_the_store(monkeypatch):
    monkeypatch.setattr(live_module, "REFRESH_S", 0.01)
    problems = []

    async def snapshot(*_args, **_options):
        await asyncio.Event().wait()

    boards = SimpleNamespace(
        renewed=set(),
        fleet=SimpleNamespace(listen=lambda _: None),
        snapshot=snapshot,
        data=lambda _, **__: {"problems": list(problems)},
    )
    live = Live(boards)
    running = asyncio.create_task(live.run())
    try:
        await asyncio.wait_for(collect(live, 1), ANSWER_S)
        problems.append(PROBLEM)
        ((_, kind, data),) = await asyncio.wait_for(collect(live, 1), live_module.HEARTBEAT_S - 1)
    finally:
        running.cancel()
    assert (kind, data["problems"]) == ("heartbeat", [PROBLEM])


async def test_console_for_some_tools_learns_what_is_wrong_without_names(live):
    position = live.last_id
    live.send("heartbeat", {"now": "2026-11-28T06:00:00Z", "problems": [PROBLEM]})
    ((_, _, data),) = await collect(live, 1, position, lambda _: False)
    assert [each["what"] for each in data["problems"]] == ["The workers do not do their work."]
