"""Requests go to public addresses only, whatever a name resolves to."""

import asyncio
import socket

import pytest

from switchgear_alerts.errors import DeliveryError
from switchgear_alerts.outbound import Outbound, check_url


@pytest.mark.parametrize(
    "url", ["https://example.com/hook", "http://localhost:9093", "http://[::1]:9093", "https://93.184.215.14/"]
)
def test_public_and_local_urls_are_allowed(url):
    check_url(url, allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com", "ftp://example.com", "https://?x", "nonsense", "https://10.0.0.1", "https://192.168.1.1",
        "https://169.254.169.254/latest", "https://[fd00::1]/", "https://[::ffff:10.0.0.1]/", "https://0.0.0.0/",
        "https://user:pw@example.com", "https://100.64.0.1",
    ],
)  # fmt: skip
def test_plain_http_and_private_addresses_are_refused_without_showing_the_url(url):
    with pytest.raises(ValueError, match=r"must|private") as caught:
        check_url(url, allow_private=False)
    assert url not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "allowed"), [("10.0.0.7", False), ("127.0.0.1", False), ("169.254.169.254", False), ("::1", False)]
)
async def test_a_public_name_that_resolves_to_a_private_address_is_refused_for_good(monkeypatch, address, allowed):
    def resolve(host, port, *_args, **_named):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    outbound = Outbound()
    with pytest.raises(DeliveryError, match="private address") as caught:
        await outbound.post("https://rebound.example.com/hook", b"{}", {})
    assert caught.value.permanent
    await outbound.close()


async def test_the_checked_address_is_the_one_that_is_asked_under_the_name_of_the_url(monkeypatch):
    asked = []

    async def answer(reader, writer):
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    resolved = []

    def resolve(host, port, *_args, **_named):
        resolved.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    outbound = Outbound(allow_private=True)
    async with server:
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        await outbound.post(f"http://inner.example.com:{port}/hook", b"{}", {})
    await outbound.close()
    assert resolved[0] == "inner.example.com"
    assert f"host: inner.example.com:{port}".encode() in asked[0].lower()


async def test_a_receiver_that_does_not_answer_in_time_is_tried_again(monkeypatch):
    monkeypatch.setattr("switchgear_alerts.outbound.TIMEOUT_S", 0.2)
    given_up = asyncio.Event()

    async def silent(_reader, writer):
        await given_up.wait()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    outbound = Outbound()
    async with server:
        with pytest.raises(DeliveryError, match="no answer within") as caught:
            await outbound.post(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", b"", {})
        given_up.set()
        await outbound.close()
        await asyncio.sleep(0.05)
    assert not caught.value.permanent
