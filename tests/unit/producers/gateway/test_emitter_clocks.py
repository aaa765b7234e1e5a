"""Which executions show a wrong clock, and whom the gateway has told."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from switchgear_gateway import emitter_clocks
from switchgear_gateway.checking import MOST_WARNINGS, check_executions
from switchgear_gateway.emitter_clocks import EmitterClocks
from switchgear_http.principal import LOCAL, Principal, Role
from switchgear_schemas.wire import decode_execution
from tests.support.table import table

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def execution(recorded_at: str | None, emitter: str | None = "host:7:a"):
    given = {"tool_name": "t", "status": "success", "recorded_at": recorded_at, "emitter_id": emitter}
    return decode_execution(json.dumps(given).encode())


@table(
    ("sent", "said"),
    [
        (None, None),
        ("2026-11-28T12:00:00Z", None),
        ("2026-11-28T12:01:00Z", None),
        ("2026-11-28T11:59:30", None),  # a machine in UTC that sends no zone
        ("2026-11-28T12:00:59", None),
        ("2026-11-28T07:00:00Z", None),  # from a spool
        ("2026-11-28T07:00:00-05:00", None),
        ("2026-11-28T12:02:00Z", "its clock is 120 s ahead of the broker's"),
        ("2026-11-28T14:00:00+01:00", "its times are 1 h ahead of UTC, as local times are"),
        ("2026-11-28T07:00:00", "its times have no time zone and are 5 h behind UTC, so no circuit counts its calls"),
        ("2026-11-28T13:00:00", "its times have no time zone and are 1 h ahead of UTC"),
        ("2099-01-01T00:00:00Z", "its clock is 26,332 days ahead of the broker's"),
    ],
)
def test_a_wrong_time_is_told_and_a_late_one_is_not(sent, said):
    found = EmitterClocks(300).warning(execution(sent), LOCAL, NOON)
    assert (found is None) == (said is None)
    if said is not None:
        assert found.startswith(f"host:7:a: {said}")


def test_each_emitter_of_each_token_is_told_once():
    clocks, acme = EmitterClocks(300), Principal("acme", frozenset({Role.EMIT}))
    wrong = execution("2026-11-28T07:00:00")
    assert [clocks.warning(wrong, who, NOON) is None for who in (LOCAL, LOCAL, acme, acme)] == [
        False,
        True,
        False,
        True,
    ]
    unnamed = clocks.warning(execution("2026-11-28T07:00:00", None), acme, NOON)
    assert unnamed.startswith("acme: "), "the gateway gives it the token's name"


def test_the_memory_of_whom_was_told_is_bounded(monkeypatch):
    monkeypatch.setattr(emitter_clocks, "MOST_TOLD", 100)
    clocks = EmitterClocks(300)
    for number in range(1_000):
        assert clocks.warning(execution("2026-11-28T07:00:00", f"{number:04}" + "x" * 200), LOCAL, NOON)
    assert len(clocks) == 100
    assert all(len(emitter) <= 128 for _, emitter, _ in clocks._told)


def test_one_answer_has_few_warnings_and_a_later_one_the_others():
    clocks = EmitterClocks(300)
    ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    items = [
        json.dumps({"tool_name": "t", "status": "success", "recorded_at": ahead, "emitter_id": f"p{number}"}).encode()
        for number in range(15)
    ]
    told = [check_executions(items, LOCAL, clocks).warnings for _ in range(3)]
    assert [len(each) for each in told] == [MOST_WARNINGS, 5, 0]
    assert len({each for some in told for each in some}) == 15


def test_a_rejected_execution_tells_nothing():
    item = b'{"tool_name":"t","status":"nonsense","recorded_at":"2026-11-28T07:00:00"}'
    found = check_executions([item], LOCAL, EmitterClocks(300))
    assert (len(found.rejected), found.warnings) == (1, [])
