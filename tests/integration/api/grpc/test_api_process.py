"""`switchgear api` against a ClickHouse server: HTTP, and gRPC where it is asked for, in one process."""

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from switchgear_cli.local.ports import any_free_port, any_free_ports
from tests.support.clickhouse_http import clickhouse_server
from tests.support.limits import ANSWER_S
from tests.support.processes import run, switchgear


def answers(url):
    try:
        return httpx.get(url, timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def test_api_process_serves_health_by_http_and_grpc_until_sigterm(tmp_path):
    database, *ours = any_free_ports(3)
    http, rpc = (f"127.0.0.1:{port}" for port in ours)
    with clickhouse_server(tmp_path / "server", database) as server:
        url = f"{server.url}/switchgear"
        assert run("migrate", "--clickhouse", url).returncode == 0
        with switchgear("api", "--clickhouse", url, "--http", http, "--grpc", rpc, log=tmp_path / "api.log") as api:
            api.wait_until(lambda: answers(f"http://{http}/readyz"))
            with grpc.insecure_channel(rpc) as channel:
                stub = health_pb2_grpc.HealthStub(channel)
                found = stub.Check(health_pb2.HealthCheckRequest(), timeout=ANSWER_S, wait_for_ready=True)
            assert found.status == health_pb2.HealthCheckResponse.SERVING
            assert api.terminate() == 0, api.output()


def test_an_address_that_is_taken_is_one_sentence(tmp_path):
    http = f"127.0.0.1:{any_free_port()}"
    with clickhouse_server(tmp_path / "server", any_free_port()) as server:
        busy = server.url.removeprefix("http://")
        done = run("api", "--clickhouse", f"{server.url}/switchgear", "--http", http, "--grpc", busy)
        assert done.returncode == 1
        assert busy in done.stderr.splitlines()[-1]
