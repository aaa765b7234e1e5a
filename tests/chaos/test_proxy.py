"""Links between two processes, made bad and mended."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from tests.chaos.proxy import Network, steady_ports
from tests.support.limits import ANSWER_S

pytestmark = pytest.mark.deep


@asynccontextmanager
async def echo():
    """A server that sends back what it gets, behind a link."""
    inner, outer = steady_ports(2)

    async def answer(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async with Network() as network, await asyncio.start_server(answer, "127.0.0.1", inner):
        yield await network.add("client/echo", outer, inner)


@asynccontextmanager
async def connected(link):
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ask(reader, writer, data=b"hello"):
    writer.write(data)
    await writer.drain()
    return await reader.readexactly(len(data))


async def test_an_open_link_carries_both_ways():
    async with echo() as link, connected(link) as (reader, writer):
        large = bytes(range(256)) * 4_000
        writer.write(large)
        assert await reader.readexactly(len(large)) == large
        assert link.carried == 2 * len(large)
        assert link.state == "open"


async def test_a_slow_link_delays_each_direction():
    async with echo() as link, connected(link) as (reader, writer):
        link.slow(0.15)
        assert link.state == "slow"
        began = time.monotonic()
        assert await ask(reader, writer) == b"hello"
        assert time.monotonic() - began >= 0.3
        link.mend()
        assert link.state == "open"


async def test_a_cut_link_is_silent_and_delivers_when_it_is_mended():
    async with echo() as link, connected(link) as (reader, writer):
        await ask(reader, writer)
        link.cut()
        answer = asyncio.ensure_future(ask(reader, writer, b"later"))
        done, _ = await asyncio.wait({answer}, timeout=0.3)
        assert not done
        link.mend()
        assert await asyncio.wait_for(answer, ANSWER_S) == b"later"


async def test_a_connection_made_during_a_cut_waits_for_its_end():
    async with echo() as link:
        link.cut()
        async with connected(link) as (reader, writer):
            answer = asyncio.ensure_future(ask(reader, writer))
            done, _ = await asyncio.wait({answer}, timeout=0.3)
            assert not done
            link.mend()
            assert await asyncio.wait_for(answer, ANSWER_S) == b"hello"


async def test_a_closed_link_breaks_connections_and_refuses_new_ones():
    async with echo() as link:
        async with connected(link) as (reader, writer):
            await ask(reader, writer)
            link.close()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(1), ANSWER_S)
        async with connected(link) as (reader, writer):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(ask(reader, writer), ANSWER_S)
        link.mend()
        async with connected(link) as (reader, writer):
            assert await ask(reader, writer) == b"hello"


async def test_a_server_that_is_down_breaks_the_connection():
    (port, unused) = steady_ports(2)
    async with Network() as network:
        link = await network.add("client/unused", port, unused)
        async with connected(link) as (reader, writer):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(ask(reader, writer), ANSWER_S)


async def test_a_peer_that_hangs_up_is_passed_on():
    async with echo() as link, connected(link) as (reader, writer):
        await ask(reader, writer)
        writer.write_eof()
        assert await asyncio.wait_for(reader.read(), ANSWER_S) == b""


async def test_links_are_found_by_name_and_mended_together():
    ports = steady_ports(3)
    async with Network() as network:
        for number, port in enumerate(ports[:2]):
            await network.add(f"sink/broker-{number}", port, ports[2])
        await network.add("worker/broker-0", steady_ports(1)[0], ports[2])
        assert [link.name for link in network.named("sink/")] == ["sink/broker-0", "sink/broker-1"]
        for link in network.links.values():
            link.cut()
        network.mend(network.named("sink/"))
        assert [link.state for link in network.links.values()] == ["open", "open", "cut"]
        network.mend()
        assert network.links["worker/broker-0"].state == "open"


def test_ports_lie_below_those_that_clients_are_given():
    found = steady_ports(20)
    assert len(set(found)) == 20
    assert max(found) < 32_768
