"""Reports know the state of the tool's circuit."""

from datetime import UTC, datetime, timedelta

from switchgear_schemas.circuit import Cause, Circuit
from switchgear_schemas.health import HealthStatus
from switchgear_sinks.health import ToolHealthService
from tests.support.engine import call, store_calls, store_circuits


def circuit(state, tool="search", **fields):
    now = datetime.now(UTC)
    return Circuit(
        **(
            {
                "circuit_id": tool,
                "tool_name": tool,
                "state": state,
                "previous_state": "closed",
                "version": 1,
                "generation": 1,
                "changed_at": now,
                "open_until": now + timedelta(minutes=1) if state == "open" else None,
                "cause": Cause(rule="failure_rate", value=0.9, threshold=0.5, sample=10, window_s=60),
            }
            | fields
        )
    )


async def test_an_open_circuit_is_in_the_report_and_on_the_dashboard(store):
    await store_circuits(store, [circuit("open")])
    await store_calls(store, [call("search", "rejected")] * 9)
    service = ToolHealthService(store)
    report = await service.check_tool_health("search")
    assert (report.circuit_state, report.status, report.rejected_calls) == ("open", HealthStatus.UNHEALTHY, 9)
    assert "UTC: 9 of 10 calls within 60 s failed (90 %; the limit is 50 %)." in " ".join(report.issues)
    (attention,) = (await service.get_dashboard_summary())["tools_needing_attention"]
    assert (attention["tool_name"], attention["circuit_state"]) == ("search", "open")


async def test_a_tool_without_a_circuit_has_no_state(store):
    await store_calls(store, [call("search")] * 5)
    (report,) = (await ToolHealthService(store).check_all_tools_health()).tool_reports
    assert (report.circuit_state, report.status) == (None, HealthStatus.HEALTHY)


async def test_one_users_circuit_says_nothing_of_the_tool(store):
    await store_circuits(store, [circuit("open", circuit_id="search|user=7", scope="user")])
    await store_calls(store, [call("search")] * 5)
    assert (await ToolHealthService(store).check_tool_health("search")).circuit_state is None


async def test_percentiles_are_in_the_report(store):
    await store_calls(store, [call("search", execution_time_ms=each) for each in range(1, 101)])
    report = await ToolHealthService(store).check_tool_health("search")
    assert 49 <= report.p50_latency_ms <= 52
    assert 94 <= report.p95_latency_ms <= 97
    assert 98 <= report.p99_latency_ms <= 100
