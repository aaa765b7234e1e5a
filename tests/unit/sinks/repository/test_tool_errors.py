"""What fails, how often, since when."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from switchgear_sinks.repository import ToolErrorsRepository
from tests.support.deep import some
from tests.support.engine import call, store_calls

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


@pytest.fixture
def errors_of(store) -> ToolErrorsRepository:
    return ToolErrorsRepository(store)


async def test_messages_that_differ_in_ids_and_numbers_are_one_template(errors_of, store):
    messages = [
        f"order {n * 7919} of user-{n}x failed: 0x{n:08x} {'0123abcd' * 4}"[:-1]
        + f" 6ba7b810-9dad-11d1-80b4-00c04fd4{n:04x}  after 1{n}.5 s"
        for n in range(30)
    ]
    errors = [call("t", "error", NOW + timedelta(seconds=n), error_message=each) for n, each in enumerate(messages)]
    await store_calls(store, [*errors, call("t", "error", error_message="no such city"), call("u", "timeout")])
    first, *others = await errors_of.templates("t")
    assert first == {
        "tool_name": "t",
        "error_type": "unknown",
        "template": "order <n> of <id> failed: <hex> <hex> <uuid> after <n> s",
        "example": messages[-1],
        "count": 30,
        "first_seen": NOW,
        "last_seen": NOW + timedelta(seconds=29),
    }
    assert [each["template"] for each in others] == ["no such city"]
    everywhere = await errors_of.templates(limit=1)
    assert {(each["tool_name"], each["count"]) for each in everywhere} == {("t", 30), ("u", 1)}


async def test_an_error_without_a_type_goes_by_its_status_or_class(errors_of, store):
    await store_calls(
        store,
        [
            call("t", "error", error_type="KeyError", error_class="tool"),
            call("t", "error", error_class="auth"),
            call("t", "timeout", error_class="timeout"),
            call("t", "error"),
        ],
    )
    assert {each["error_type"] for each in await errors_of.types("t")} == {
        "KeyError",
        "auth",
        "timeout",
        "unknown",
    }


async def test_types_are_counted_by_tool_with_the_newest_message(errors_of, store):
    await store_calls(
        store,
        [
            *[call("a", "error", NOW + timedelta(seconds=n), error_type="E", error_message=str(n)) for n in range(3)],
            call("b", "timeout", NOW),
            call("b", "success", NOW),
            call("b", "rejected", NOW),
        ],
    )
    assert await errors_of.types() == [
        {
            "tool_name": "a",
            "error_type": "E",
            "caller_error": None,
            "count": 3,
            "example": "2",
            "first_seen": NOW,
            "last_seen": NOW + timedelta(seconds=2),
        },
        {
            "tool_name": "b",
            "error_type": "timeout",
            "caller_error": None,
            "count": 1,
            "example": "",
            "first_seen": NOW,
            "last_seen": NOW,
        },
    ]
    assert [each["count"] for each in await errors_of.types("a", NOW + timedelta(seconds=1))] == [2]
    assert await errors_of.count("a", NOW + timedelta(seconds=1)) == 2
    assert await errors_of.count("nobody", NOW) == 0


async def test_repository_of_a_tenant_reads_only_its_errors(store):
    await store_calls(store, [call("t", "error", NOW, tenant="a"), call("t", "error", NOW, tenant="b")])
    assert await ToolErrorsRepository(store, tenant="a").count("t", NOW) == 1
    assert await ToolErrorsRepository(store).count("t", NOW) == 2
    with pytest.raises(ValueError, match="limit"):
        await ToolErrorsRepository(store).templates(limit=-1)


@pytest.mark.parametrize("minutes", some([0.5, 14.9, 15, 16, 45, 200, 1000], 3))
@pytest.mark.parametrize("tenant", [None, "acme"])
async def test_types_since_a_time_are_exact_wherever_it_cuts_a_quarter(store, minutes, tenant):
    chance = random.Random(5)
    errors = [
        call(
            chance.choice("ab"),
            chance.choice(("error", "timeout")),
            NOW - timedelta(minutes=chance.uniform(0, 300)),
            tenant=chance.choice(("", "acme")),
            error_message=str(n),
            **chance.choice(
                (
                    {},
                    {"error_type": "E"},
                    {"error_class": "server"},
                    {"error_type": "E", "error_class": "auth"},
                    {"error_class": "invalid_input"},
                )
            ),
        )
        for n in range(500)
    ]
    await store_calls(store, errors)
    since = NOW - timedelta(minutes=minutes)
    found = await ToolErrorsRepository(store, tenant=tenant).types(None, since)
    chosen = [
        each
        for each in errors
        if datetime.fromisoformat(each["recorded_at"]) >= since and (tenant is None or each["tenant"] == tenant)
    ]
    assert sum(each["count"] for each in found) == len(chosen)
    for each in found:
        same = sorted(
            (datetime.fromisoformat(one["recorded_at"]), one["error_message"]) for one in chosen
            if one["tool_name"] == each["tool_name"] and _type(one) == each["error_type"]
            and each["caller_error"] == (one.get("error_class") if one.get("error_class") != "server" else None)
        )  # fmt: skip
        assert each["count"] == len(same)
        assert (each["first_seen"], each["last_seen"], each["example"]) == (same[0][0], *same[-1])


def _type(one) -> str:
    return one.get("error_type") or ("timeout" if one["status"] == "timeout" else one.get("error_class") or "unknown")
