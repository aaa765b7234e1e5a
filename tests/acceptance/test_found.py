"""Small inputs from public reports and real libraries that once had a wrong answer. The file says what is right."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from switchgear.breaker.values import ResultKind, family_result_kind, result_kind
from switchgear.classify.by_code import class_of_status
from switchgear.classify.result import classify_result
from switchgear.fleet import Row
from switchgear.testing import InMemoryFleet
from switchgear_gateway.emitter_clocks import EmitterClocks
from switchgear_gateway.otlp.failures import failure
from switchgear_http.principal import LOCAL
from switchgear_schemas import BreakerPolicy
from switchgear_schemas.enums import ErrorClass, status_of
from switchgear_schemas.errors import InvalidExecutionError
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT
from switchgear_schemas.wire import decode_execution
from switchgear_sinks.repository.queries import window_end
from switchgear_sinks.writer.rows import ExecutionRows, Rows
from tests.support.fleet import OnePolicy, World
from tests.support.hostile import skeleton
from tests.support.records import HandMadeRecord
from tests.support.shared import REPOSITORY, shared_folder
from tests.unit.producers.gateway.otlp.support import calls_in, span_request

Case = dict[str, Any]
NOON: Final = datetime(2026, 11, 28, 12, tzinfo=UTC)
"""When the broker has the executions."""


def cases() -> list[Case]:
    path = REPOSITORY.parent / "shared" / "acceptance" / "found_2026_11.json"
    return list(json.loads(path.read_text())["cases"]) if path.exists() else []


CASES = cases()


# -- results and headers


def counted(error_class: ErrorClass) -> dict[str, Any]:
    """How an error of this class counts for its tool and for its server, by default."""
    status = status_of(error_class)
    for_tool = result_kind(status, error_class, FLEET_DEFAULT)
    for_server = family_result_kind(status, error_class, FAMILY_DEFAULT)
    return {
        "error_class": error_class,
        "counts_for_tool": for_tool is ResultKind.FAILURE,
        "counts_for_server": for_server.name.lower(),
    }


def mcp_result(case: Case) -> dict[str, Any]:
    found = classify_result(case["input"])
    assert found is not None
    return counted(found.error_class)


def adk_result(case: Case) -> dict[str, Any]:
    from switchgear.classify.by_text import caught_error  # noqa: PLC0415 - the other kinds don't need it

    found = caught_error(case["input"]["error"])
    assert found is not None
    return counted(found)


def http_429(case: Case) -> dict[str, Any]:
    from switchgear.classify.waits import from_headers  # noqa: PLC0415 - as above

    now = datetime.fromisoformat(case["at"]).timestamp()
    wait = from_headers(case["input"]["headers"], now=lambda: now)
    return {"error_class": class_of_status(429), "retry_after_s": wait}


# -- traces


def span(case: Case) -> dict[str, Any]:
    (call,) = calls_in(span_request({"id": 1, "error": "", "attributes": case["input"]["attributes"]}))
    return {"error_class": call.error_class}


def span_status(case: Case) -> dict[str, Any]:
    found = failure(None, case["input"]["message"])
    return {"error_class": found.error_class, "evidence": getattr(found, "evidence", "full").replace("_", " ")}


def span_name(case: Case) -> dict[str, Any]:
    given = {"id": 1, "name": case["input"]["name"], "attributes": {"openinference.span.kind": "TOOL"}}
    (call,) = calls_in(span_request(given))
    return {"tool_name": call.tool_name}


# -- texts of strangers


def hostile_text(case: Case) -> dict[str, Any]:
    """Whether a process that never called the tool shows its model the text, as the tool's error or its name, unless it is quoted."""
    text, fleet = case["input"]["text"], InMemoryFleet(BreakerPolicy(consecutive_failures=1))
    caller, other = fleet.gear("caller"), fleet.gear("other")
    read = []
    for tool, error in (("search", text), (text, "no route")):
        permit = caller.try_acquire(tool)
        assert permit
        permit.failure(ConnectionError(error))
        refused = other.try_acquire(tool)
        assert not refused
        read += [refused.text, str(refused.error()), other.notice(tools=[tool])]
    return {"another_process_shows_it_to_its_model": any(text in skeleton(each) for each in read)}


# -- executions: what is expected is said in words


def stored(event: Case) -> Rows:
    """What the sink makes of an event that the broker has at noon."""
    stamp = int(NOON.timestamp() * 1000)
    return ExecutionRows().rows([HandMadeRecord(timestamp=stamp, value=json.dumps(event).encode())])


def is_dead_letter_of(field: str) -> Callable[[Case], None]:
    """The sink and the worker refuse the event, and say which field and why."""

    def check(event: Case) -> None:
        (letter,) = stored(event).dead
        assert (letter.field, bool(letter.reason)) == (field, True)
        with pytest.raises(InvalidExecutionError) as refused:
            decode_execution(json.dumps(event).encode())
        assert (refused.value.field, refused.value.reason) == (letter.field, letter.reason)

    return check


def is_stored_with_the_brokers_time(event: Case) -> None:
    (row,) = map(json.loads, stored(event).values)
    assert (datetime.fromisoformat(row["recorded_at"]), row["recorded_as"]) == (NOON, event["recorded_at"])
    assert datetime.fromisoformat(event["recorded_at"]) > window_end(NOON), (
        "a row of an older release is in no window either"
    )


def is_utc_and_its_emitter_is_told_once(event: Case) -> None:
    (row,) = map(json.loads, stored(event).values)
    assert (row["recorded_at"], row["recorded_as"]) == (f"{event['recorded_at']}Z", event["recorded_at"])
    clocks, execution = EmitterClocks(300), decode_execution(json.dumps(event).encode())
    told = [clocks.warning(execution, LOCAL, NOON) for _ in range(3)]
    assert "no time zone and are 5 h behind UTC" in (told[0] or "")
    assert told[1:] == [None, None]


def has_a_circuit_of_its_own(event: Case) -> None:
    tool, _, user = event["tool_name"].partition("|user=")
    policy = BreakerPolicy(scope="user", consecutive_failures=3)
    world = World(partitions=1, policies=OnePolicy(policy))
    world.say("error", tool_name=tool, user_id=user)
    world.append(json.dumps(event).encode(), tool_name=event["tool_name"])
    world.run_all()
    names = {row.circuit_id: row.tool_name for row in map(Row.decode, world.rows.values())}
    assert sorted(names.values()) == sorted([tool, tool, event["tool_name"]]), (
        "the tool's, its user's, and the other tool's"
    )


IN_WORDS: Final[dict[str, Callable[[Case], None]]] = {
    "dead letter or clamped, said": is_dead_letter_of("execution_time_ms"),
    "sums never wrap": is_dead_letter_of("input_tokens"),
    "not in the last hour": is_stored_with_the_brokers_time,
    "read as UTC, said once to its emitter": is_utc_and_its_emitter_is_told_once,
    "a circuit of its own": has_a_circuit_of_its_own,
}


def execution(case: Case) -> str:
    IN_WORDS[case["expect"]](case["input"])
    return str(case["expect"])


# -- configurations of clients

LOGIN: Final = "an HTTP server that asks for a login"
LEFT: Final = {LOGIN: ["notes"], "one missing binary among three": ["b"]}
"""The servers that would not work behind the proxy."""


def client_configuration(case: Case) -> str:
    """Wrap a file with these servers, and look at each one."""
    from switchgear_mcp.examine import examined  # noqa: PLC0415 - as above
    from switchgear_mcp.names import is_plain  # noqa: PLC0415
    from switchgear_mcp.wrap import Finding, is_wrapped, unwrap_file, wrap_file  # noqa: PLC0415

    async def trial(_server: object) -> Finding:
        return Finding(works=case["name"] != LOGIN, text="It was tried.")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mcp.json"
        path.write_text(json.dumps(case["input"]))
        report = wrap_file(path, examine=lambda entries: examined(entries, trial))
        before, after = case["input"]["mcpServers"], json.loads(path.read_text())["mcpServers"]
        left = LEFT.get(case["name"], [])
        assert [each.name for each in report.left] == left
        assert list(report.changed) == [name for name in before if name not in left]
        for name, reason in report.left:
            assert after[name] == before[name]
            assert reason.endswith("."), "a sentence"
        for name in report.changed:
            args = after[name]["args"]
            assert is_wrapped(after[name])
            assert is_plain(args[args.index("--name") + 1]), "the proxy would not start"
        unwrap_file(path)
        assert json.loads(path.read_text()) == case["input"]
    return str(case["expect"])


RUNNERS: Final[dict[str, Callable[[Case], Any]]] = {
    "adk_result": adk_result,
    "client_configuration": client_configuration,
    "execution": execution,
    "hostile_text": hostile_text,
    "http_429": http_429,
    "mcp_result": mcp_result,
    "span": span,
    "span_name": span_name,
    "span_status": span_status,
}


@pytest.mark.shared
def test_the_inputs_were_found_and_each_kind_has_its_test() -> None:
    if not CASES:
        shared_folder()
    assert len(CASES) == 34
    assert {each["kind"] for each in CASES} == RUNNERS.keys()
    assert {each["expect"] for each in CASES if each["kind"] == "execution"} == IN_WORDS.keys()


@pytest.mark.parametrize("case", CASES, ids=[each["name"] for each in CASES])
def test_what_was_found_is_right_now(case: Case) -> None:
    expected = case["expect"]
    found = RUNNERS[case["kind"]](case)
    if isinstance(expected, dict):
        found = {name: found[name] for name in expected}
    assert found == expected
