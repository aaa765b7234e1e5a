"""A health service for one tenant says nothing of another's calls."""

from datetime import UTC, datetime

import pytest

from switchgear_sinks.health import ToolHealthService
from switchgear_sinks.repository import ToolMetricsRepository
from tests.support.engine import call, store_calls


@pytest.fixture
async def services(store) -> dict[str, ToolHealthService]:
    """Tenant a's search works; tenant b's fails, and is slow."""
    await store_calls(
        store,
        [
            *[call("search", tenant="a", execution_time_ms=10)] * 10,
            *[call("search", "error", tenant="b", error_message="secret of b", execution_time_ms=9000)] * 10,
            *[call("only-b", tenant="b")] * 5,
        ],
    )
    return {name: ToolHealthService(store, ToolMetricsRepository(store, tenant=name)) for name in ("a", "b", "nobody")}


async def test_status_of_a_tenant_follows_from_its_own_calls(services):
    assert (await services["a"].check_tool_health("search")).status.value == "healthy"
    assert (await services["b"].check_tool_health("search")).status.value == "unhealthy"
    assert (await services["nobody"].check_tool_health("search")).status.value == "unknown"


@pytest.mark.parametrize("hours", [1, 24])
async def test_reports_list_the_tenants_own_tools(services, hours):
    reports = {name: await service.check_all_tools_health(hours) for name, service in services.items()}
    listed = {name: {each.tool_name: each.total_calls for each in one.tool_reports} for name, one in reports.items()}
    assert listed == {"a": {"search": 10}, "b": {"search": 10, "only-b": 5}, "nobody": {}}


async def test_reports_of_a_tenant_have_nothing_of_another_tenant(services):
    ours = services["a"]
    said = [
        await ours.get_dashboard_summary(),
        await ours.get_health_summary(),
        await ours.get_tool_health("search"),
        await ours.get_error_patterns("search"),
        (await ours.check_tool_health("search", 24)).to_dict(),
    ]
    assert "secret" not in str(said)
    assert "only-b" not in str(said)
    assert (await ours.get_dashboard_summary())["slow_executions"] == []
    assert await ours.get_tool_health("only-b") is None
    assert await ours.should_circuit_break("search") is False
    assert await services["b"].should_circuit_break("search") is True


async def test_the_repository_reads_one_tenant_in_every_method(store, services):
    repository = ToolMetricsRepository(store, tenant="a")
    since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    assert (await repository.get_tool_stats("search"))["error_count"] == 0
    assert set(await repository.get_all_tool_stats()) == {"search"}
    assert set(await repository.get_all_tool_stats(since)) <= {"search"}
    assert await repository.get_recent_errors() == []
    assert await repository.get_all_tool_names() == ["search"]
    assert await repository.get_known_tool_names() == ["search"]
    assert await repository.get_slow_executions() == []
    assert len(await repository.get_recent_executions("search")) == 10
    assert (await repository.get_last_calls("search"))["last_failure"] is None
