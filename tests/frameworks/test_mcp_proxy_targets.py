"""Dead links that agents ask a real server to fetch: the good page stays, and with ``target`` only the dead hosts are refused."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from switchgear.testing import FakeClock, InMemoryFleet
from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.policy import FLEET_DEFAULT
from tests.frameworks.forked import PATIENT
from tests.frameworks.proxies import over_stdio, text_of, until
from tests.frameworks.real_servers import install_python
from tests.support.gateway_contract import GatewayServer

pytestmark = pytest.mark.timeout(500)
FETCH = "mcp:fetch:fetch"
SPLIT = FLEET_DEFAULT.model_copy(
    update={"target": "url.host", "consecutive_failures": 3, "minimum_reporters": 2, "failure_rate_threshold": None}
)
DEAD = tuple(f"127.0.0.{number}" for number in range(11, 21))
"""Ten hosts of this machine on which nothing listens."""
BROKEN, GOOD = "127.0.0.30", "127.0.0.31"


async def _answer(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    broken = BROKEN.encode() in head.lower()
    status = b"503 Service Unavailable" if broken else b"200 OK"
    body = b"<html><body><article><h1>A page</h1><p>With a text.</p></article></body></html>"
    writer.write(
        b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
        % (status, len(body), body)
    )
    await writer.drain()
    writer.close()


@pytest.fixture(scope="module")
def server():
    folder = install_python()
    return (str(folder / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips")


@asynccontextmanager
async def agents(server, policies, count=2):
    """Two agents with a proxy each, which share a fleet. Yield the fleet's server, the sessions, and the port of the pages."""
    port = any_free_port()
    gateway = GatewayServer(InMemoryFleet(policies, clock=FakeClock(time.time())))
    async with AsyncExitStack() as stack:
        stack.callback(gateway.stop)
        for host in (BROKEN, GOOD):
            await stack.enter_async_context(await asyncio.start_server(_answer, host, port))
        env = {"SWITCHGEAR_GATEWAY_URL": gateway.url, "SWITCHGEAR_START_WAIT_S": "10"}
        command = (*PATIENT, "--name", "fetch", "--", *server)
        sessions = [await stack.enter_async_context(over_stdio(command, env=env)) for _ in range(count)]
        yield gateway, sessions, port


async def fetched(session, host, port):
    """Return the text of the answer."""
    return text_of(await session.call_tool("fetch", {"url": f"http://{host}:{port}/"}))


async def test_ten_dead_links_and_a_503_of_two_agents_leave_the_good_page_to_all(server):
    async with agents(server, {}) as (gateway, sessions, port):
        for session in sessions:
            for host in (*DEAD, BROKEN):
                await fetched(session, host, port)
        for session in sessions:
            answers = [await fetched(session, GOOD, port) for _ in range(2)]
            assert "With a text." in answers[1], answers  # a first one may be refused: "change the arguments"
        await until(lambda: len(gateway.taken) >= 2 * 11)
        gateway.follow_fleet()
        assert {circuit.state for circuit in gateway.fleet.circuits().values()} <= {"closed"}


async def test_with_a_target_only_the_dead_hosts_are_refused(server):
    async with agents(server, {FETCH: SPLIT}) as (gateway, sessions, port):
        for session in sessions:
            assert "With a text." in await fetched(session, GOOD, port)
        await until(lambda: _state(gateway, FETCH) == "closed")
        await asyncio.sleep(1)  # until the record of the tool is with both proxies
        for _ in range(2):
            for session in sessions:
                for host in (*DEAD, BROKEN):
                    await fetched(session, host, port)
        await until(lambda: all(_state(gateway, f"{FETCH}@{host}") == "open" for host in (*DEAD, BROKEN)))
        await asyncio.sleep(1)
        for session in sessions:
            for host in (*DEAD, BROKEN):
                assert f"unavailable for {host} (circuit open)" in await fetched(session, host, port)
            assert "With a text." in await fetched(session, GOOD, port)
            tools = await session.list_tools()
            assert [tool.name for tool in tools.tools] == ["fetch"]
        assert _state(gateway, FETCH) == "closed"
        assert _state(gateway, f"{FETCH}@{GOOD}") in {None, "closed"}
        assert _state(gateway, "mcp:fetch|family") in {None, "closed"}


def _state(gateway, circuit_id):
    gateway.follow_fleet()
    found = gateway.fleet.circuits().get(circuit_id)
    return None if found is None else found.state
