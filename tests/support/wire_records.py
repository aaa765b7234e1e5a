"""One record of each kind that goes over the wire, as this version writes it.

``python -m tests.support.wire_records 0.2.0`` stores them as the golden files of a version, with what this version's models read in them.
Files that exist stay as they are: they hold what a released version has written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from switchgear.emitter.encode import encode_event, encode_fields, encode_successes
from switchgear.emitter.event import Event
from switchgear.testing import InMemoryFleet
from switchgear.testing.fleet import START
from switchgear_schemas import BreakerPolicy, Circuit, Command, Cusum, ToolExecution
from switchgear_schemas.execution_record import Execution
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT, LOCAL_DEFAULT, LOCAL_FAMILY_DEFAULT
from tests.support.field_values import values_of

GOLDEN: Final = Path(__file__).parents[1] / "unit" / "golden"
ID: Final = "018f6b3e-0000-7000-8000-000000000001"
NOON: Final = datetime.fromtimestamp(START, UTC)
WHO: Final = {"emitter_id": "planner@host-1", "service": "planner"}
FULL: Final[dict[str, Any]] = {name: valid for name, (valid, *_) in values_of(Execution).items()} | {
    "metric_id": ID,
    "tenant": "acme",
    "tool_name": "mcp:weather:get_forecast",
    "target": "example.org",
    "user_id": "ana",
    "session_id": "s-17",
    "request_id": "r-3",
    "credential": "e01b5aef0fceebbd",
    "status": "error",
    "execution_time_ms": 1250.5,
    "overdue_ms": 1000.0,
    "error_type": "HTTPStatusError",
    "error_message": "429 Too Many Requests",
    "error_class": "rate_limited",
    "evidence": "status_only",
    "retry_after_s": 30.0,
    "parameters_hash": "9f86d081884c7d65",
    "input_size": 165,
    "output_size": 720,
    "input_tokens": 11,
    "output_tokens": 12,
    "cache_creation_tokens": 13,
    "cost_usd": 0.25,
    "served_by": "fallback",
    "fallback_tool": "search",
    "reporter": "token acme",
    "generation": 4,
    "lease_id": "4.1",
    "family_generation": 2,
    "family_lease_id": "2.1",
    "probe_requested": True,
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "metadata": {"attempt": 2, "region": "eu"},
    "recorded_at": "2027-01-15T08:00:00.250000Z",
    **WHO,
}
"""An execution with every field."""


def records() -> dict[str, bytes]:
    """Return a record of each kind by name. The name begins with what it is: execution, circuit, command or policy."""
    return {f"{kind}_{name}": value for kind, found in _KINDS.items() for name, value in found()}


def as_read(name: str, value: bytes) -> dict[str, Any]:
    """Return the fields that the model of a record reads in it, defaults included. Of a command's policy, what it names."""
    kind = name.partition("_")[0]
    if kind == "execution":
        execution = ToolExecution.model_validate_json(value)
        made = {"metric_id", "recorded_at"} - execution.model_fields_set  # by the reader, each time anew
        return execution.model_dump(mode="json", exclude=made)
    if kind == "circuit":
        return Circuit.from_bytes(value).to_dict()
    if kind == "command":
        found: dict[str, Any] = json.loads(Command.from_bytes(value).to_bytes())
        return found
    return BreakerPolicy.model_validate_json(value).model_dump(mode="json")


def _executions() -> Iterator[tuple[str, bytes]]:
    yield "least", b'{"tool_name":"search","status":"success"}'
    yield "with_unknown_fields", b'{"tool_name":"search","status":"timeout","region":"eu","nested":{"a":[1]}}'
    yield "full", encode_fields(FULL, START, **WHO)[1]
    yield "plain_success", encode_successes([("search", 1.0, 1.25, 3, 2)], clock_offset=START, **WHO)[0].values[0]
    for name, event in {
        "failed": Event(
            "search", "error", 12.5, 3, error_type="ConnectError", error_message="refused", error_class="transport"
        ),
        "cancelled": Event("search", "cancelled", 900.0, error_class="cancelled"),
        "overdue": Event("search", "overdue", 5_000.0, 3),
        "rejected": Event(
            "search",
            "rejected",
            user_id="ana",
            served_by="none",
            metadata={"refused": 7, "refused_by": "local", "state": "open", "scope": "tool", "retry_after_s": 41.5},
        ),
    }.items():
        event.metric_id = ID
        yield name, encode_event(event, START + 0.5, **WHO)


def _circuits() -> Iterator[tuple[str, bytes]]:
    probed = BreakerPolicy(consecutive_failures=2, recovery_ramp=(0.25, 0.5), fallback=("other",))
    policies = {
        "mcp:weather:now": probed,
        "fetch": BreakerPolicy(failure_count=2, target="url.host"),
        "slow": BreakerPolicy(slow_call_rate_threshold=0.5, slow_call_duration_threshold_ms=100, minimum_number_of_calls=2),
        "paced": BreakerPolicy(pace="enforce", pace_limit="100/min", failure_count=1),
    }  # fmt: skip
    fleet = InMemoryFleet(policies)

    def newest(circuit_id: str) -> bytes:
        value = fleet.log.compacted(fleet.names.circuits)[circuit_id.encode()].value
        assert value is not None
        return value

    failed = {"error_class": "transport", "error_type": "ConnectError", "error_message": "refused"}
    fleet.report("mcp:weather:now", times=2, **failed)
    yield "open", newest("mcp:weather:now")
    fleet.advance(60)
    fleet.report("mcp:weather:now", "rejected", probe_requested=True)
    yield "half_open", newest("mcp:weather:now")
    fleet.report("mcp:weather:now", "success", generation=2, lease_id="2.1")
    yield "recovering", newest("mcp:weather:now")
    fleet.report("fetch", times=2, target="example.org", **failed)
    yield "of_a_target", newest("fetch@example.org")
    fleet.report("slow", "success", times=2, execution_time_ms=150)
    yield "slow", newest("slow")
    for process in ("a", "b"):
        fleet.report("mcp:maps:find", times=10, process=process, **failed)
        fleet.report("mcp:maps:route", times=10, process=process, **failed)
    yield "of_a_family", newest("mcp:maps|family")
    yield "by_cusum", newest("mcp:maps:find")
    fleet.open_circuit("search", reason="vendor maintenance")
    yield "forced_open", newest("search")
    fleet.command("search", "disable", actor="ada", until=datetime.fromtimestamp(START + 3600, UTC))
    yield "disabled_for_a_time", newest("search")
    fleet.report("paced", "success", process="a", metadata={"asked": 3, "waited_ms": 250})
    fleet.report("paced", "error", process="b", error_class="rate_limited", retry_after_s=30)
    fleet.advance(2)
    fleet.report("paced", process="a", **failed)
    yield "paced", newest("paced")


def _commands() -> Iterator[tuple[str, bytes]]:
    policy = BreakerPolicy(minimum_reporters=3, cusum=Cusum(broken_failure_rate=0.4), failure_rate_threshold=None)
    for name, fields in {
        "force_open": {"tool_name": "search", "verb": "force_open", "reason": "maintenance", "until": NOON},
        "auto": {"tool_name": "search", "verb": "auto"},
        "of_a_family": {"tool_name": "mcp:maps", "verb": "reset", "circuit_id": "mcp:maps|family"},
        "set_policy": {"tool_name": "mcp:*", "verb": "set_policy", "policy": policy},
        "clear_policy": {"tool_name": "mcp:*", "verb": "set_policy", "policy": {}},
    }.items():
        yield name, Command.from_dict({"command_id": ID, "actor": "ada@ops-1", **fields}).to_bytes()


def _policies() -> Iterator[tuple[str, bytes]]:
    for name, policy in {
        "fleet_default": FLEET_DEFAULT,
        "family_default": FAMILY_DEFAULT,
        "local_default": LOCAL_DEFAULT,
        "local_family_default": LOCAL_FAMILY_DEFAULT,
    }.items():
        yield name, policy.model_dump_json().encode()
    yield "empty", b"{}"
    yield (
        "count_window",
        b'{"sliding_window_type":"count","sliding_window_size":50,"failure_count":10,"mode":"metrics_only"}',
    )


_KINDS: Final[dict[str, Callable[[], Iterator[tuple[str, bytes]]]]] = {
    "execution": _executions,
    "circuit": _circuits,
    "command": _commands,
    "policy": _policies,
}


def main(version: str) -> None:
    """Store the golden files of ``version`` that aren't there."""
    folder = GOLDEN / version
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in records().items():
        path = folder / f"{name}.json"
        if not path.exists():
            path.write_bytes(value)
            read = json.dumps(as_read(name, value), indent=2, sort_keys=True)
            path.with_suffix(".read.json").write_text(f"{read}\n")


if __name__ == "__main__":
    main(sys.argv[1])
