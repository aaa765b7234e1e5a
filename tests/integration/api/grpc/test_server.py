"""switchgear.v1.ToolHealth and grpc.health.v1.Health on a real port, asked by a real client."""

import asyncio
from datetime import UTC, datetime

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from switchgear_api.grpc import generate, server
from switchgear_api.grpc import tool_health_pb2 as pb
from switchgear_api.grpc.server import SERVICE, ServerLimits, serving_grpc
from switchgear_schemas.errors import SwitchgearError
from tests.support.engine import call, store_calls
from tests.support.limits import ANSWER_S
from tests.support.raw_http import asked, crowd, everything


@pytest.fixture
async def channel(store):
    async with (
        serving_grpc(store, "127.0.0.1:0", registered_tools=["never"]) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as opened,
    ):
        yield opened


async def ask(channel, method, request, answer):
    stub = channel.unary_unary(
        f"/{SERVICE}/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString,
    )
    return await stub(request, timeout=ANSWER_S)


async def health_of(channel, name="") -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=ANSWER_S)).status


async def test_the_summary_names_every_tool_with_its_figures(channel, store):
    await store_calls(store, [*[call("good", execution_time_ms=100)] * 5, *[call("bad", "error")] * 5])
    summary = await ask(channel, "GetHealthSummary", pb.GetHealthSummaryRequest(), pb.HealthSummary)
    assert summary.overall_status == pb.HEALTH_STATUS_UNHEALTHY
    assert (summary.total_tools, summary.healthy, summary.unhealthy, summary.unknown) == (3, 1, 1, 1)
    assert [(tool.tool_name, tool.status) for tool in summary.tools] == [
        ("bad", pb.HEALTH_STATUS_UNHEALTHY),
        ("good", pb.HEALTH_STATUS_HEALTHY),
        ("never", pb.HEALTH_STATUS_UNKNOWN),
    ]
    good = summary.tools[1]
    assert (good.success_rate, good.avg_latency_ms, good.total_calls, good.recent_errors) == (1.0, 100.0, 5, 0)
    assert abs((datetime.now(UTC) - summary.checked_at.ToDatetime(UTC)).total_seconds()) < 30


async def test_health_of_one_tool_has_the_documented_fields(channel, store):
    now = datetime.now(UTC)
    await store_calls(
        store,
        [
            *[call("t", at=now, execution_time_ms=100)] * 9,
            call("t", "error", now, error_message="no", execution_time_ms=100),
        ],
    )
    health = await ask(channel, "GetToolHealth", pb.GetToolHealthRequest(tool_name="t"), pb.ToolHealthInfo)
    assert health.status == pb.HEALTH_STATUS_DEGRADED
    assert (health.total_calls, health.successful_calls, health.failed_calls) == (10, 9, 1)
    assert (health.success_rate, health.avg_latency_ms, health.last_error) == (0.9, 100.0, "no")
    assert health.last_success.ToDatetime(UTC) == health.last_failure.ToDatetime(UTC) == now


async def test_caller_errors_and_cancelled_calls_are_counted_apart(channel, store):
    wrong = [call("t", "error", error_class="invalid_input", error_message="no such city")] * 3
    await store_calls(store, [*[call("t")] * 6, *wrong, *[call("t", "cancelled")] * 2])
    health = await ask(channel, "GetToolHealth", pb.GetToolHealthRequest(tool_name="t"), pb.ToolHealthInfo)
    assert (health.status, health.success_rate) == (pb.HEALTH_STATUS_HEALTHY, 1.0)
    assert (health.total_calls, health.successful_calls, health.failed_calls) == (11, 6, 0)
    assert (health.caller_errors, health.cancelled_calls) == (3, 2)
    assert not health.HasField("last_failure")
    summary = await ask(channel, "GetHealthSummary", pb.GetHealthSummaryRequest(), pb.HealthSummary)
    (tool,) = (each for each in summary.tools if each.tool_name == "t")
    assert (tool.recent_errors, tool.caller_errors, tool.cancelled_calls) == (0, 3, 2)


async def test_missing_values_are_absent_in_the_message(channel):
    health = await ask(channel, "GetToolHealth", pb.GetToolHealthRequest(tool_name="never"), pb.ToolHealthInfo)
    assert health.status == pb.HEALTH_STATUS_UNKNOWN
    assert not any(health.HasField(name) for name in ("last_success", "last_failure", "last_error"))


async def test_a_tenant_sees_its_own_calls_only(channel, store):
    await store_calls(store, [*[call("t", tenant="a")] * 5, *[call("t", "error", tenant="b")] * 5])
    for tenant, status in (("a", pb.HEALTH_STATUS_HEALTHY), ("b", pb.HEALTH_STATUS_UNHEALTHY)):
        request = pb.GetToolHealthRequest(tool_name="t", tenant=tenant)
        assert (await ask(channel, "GetToolHealth", request, pb.ToolHealthInfo)).status == status


@pytest.mark.parametrize(
    ("name", "code"), [("nobody", grpc.StatusCode.NOT_FOUND), ("", grpc.StatusCode.INVALID_ARGUMENT)]
)
async def test_unknown_tool_or_empty_name_is_answered_with_its_own_status_code(channel, name, code):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(channel, "GetToolHealth", pb.GetToolHealthRequest(tool_name=name), pb.ToolHealthInfo)
    assert caught.value.code() is code
    assert caught.value.details()


async def test_the_standard_health_service_answers_for_the_server_and_the_service(channel):
    assert await health_of(channel) == health_pb2.HealthCheckResponse.SERVING
    assert await health_of(channel, SERVICE) == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.aio.AioRpcError, match="NOT_FOUND"):
        await health_of(channel, "nobody")


async def test_a_store_that_is_gone_is_not_serving_and_unavailable(store, monkeypatch):
    monkeypatch.setattr(server, "PING_EVERY_S", 0.05)
    await store.command("RENAME TABLE tool_counts_1m TO tool_counts_away")
    try:
        async with (
            serving_grpc(store, "127.0.0.1:0") as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(channel, "GetHealthSummary", pb.GetHealthSummaryRequest(), pb.HealthSummary)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "tool_counts_1m" in (caught.value.details() or "")

            async def silent() -> bool:
                return False

            monkeypatch.setattr(store, "ping", silent)
            async with asyncio.timeout(ANSWER_S):
                while await health_of(channel) == health_pb2.HealthCheckResponse.SERVING:  # noqa: ASYNC110 - it is asked over the network
                    await asyncio.sleep(0.02)
    finally:
        await store.command("RENAME TABLE tool_counts_away TO tool_counts_1m")


async def test_an_address_that_is_taken_is_one_sentence(store):
    async with serving_grpc(store, "127.0.0.1:0") as port:
        with pytest.raises(SwitchgearError, match="cannot be listened on"):
            async with serving_grpc(store, f"127.0.0.1:{port}"):
                pass


def test_the_generated_module_is_that_of_the_proto_file(tmp_path):
    fresh = {path.name: path.read_text() for path in generate.generate(tmp_path)}
    checked_in = {name: (tmp_path.__class__(generate.__file__).parent / name).read_text() for name in fresh}
    assert fresh == checked_in


@pytest.mark.parametrize("sent", [b"", b"PRI * HTTP/2.0\r\n", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01"])
async def test_a_connection_that_never_speaks_http_2_is_closed_when_its_time_is_over(store, sent):
    async with serving_grpc(store, "127.0.0.1:0", limits=ServerLimits(handshake_s=0.5)) as port:
        await asyncio.to_thread(asked, port, sent)  # returns when the server closes


async def test_a_crowd_of_silent_connections_is_bounded_and_gone_when_its_time_is_over(store):
    async with serving_grpc(store, "127.0.0.1:0", limits=ServerLimits(connections=8, handshake_s=1.0)) as port:

        def all_closed() -> None:
            with crowd(port, 40, b"") as connections:
                for each in connections:
                    everything(each)

        await asyncio.to_thread(all_closed)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert await health_of(channel) == health_pb2.HealthCheckResponse.SERVING


async def test_connections_beyond_the_limit_are_closed_at_once(store):
    async with serving_grpc(store, "127.0.0.1:0", limits=ServerLimits(connections=4, handshake_s=3600)) as port:

        def closed() -> None:
            with crowd(port, 5, b"") as connections:
                everything(connections[4])

        await asyncio.to_thread(closed)


async def test_a_request_larger_than_a_name_is_refused(channel):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(channel, "GetToolHealth", pb.GetToolHealthRequest(tool_name="x" * 100_000), pb.ToolHealthInfo)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
