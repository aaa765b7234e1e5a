"""Requests go to public addresses only, whatever a name resolves to."""

import asyncio
import socket

import httpx
import pytest

from switchgear_alerts.errors import DeliveryError
from switchgear_alerts.outbound import Outbound, check_url
from tests.support.table import table


@table(
    "url",
    [
        "https://example.com/hook", "http://localhost:9093", "http://[::1]:9093", "https://93.184.215.14/",
        "https://[2606:4700::6810:84e5]/", "https://[2a00:1450:400a:801::200e]/", "https://[64:ff9b::5db8:d70e]/",
        "https://[::ffff:93.184.215.14]/",
    ],
)  # fmt: skip
def test_public_and_local_urls_are_allowed(url):
    check_url(url, allow_private=False)


@table(
    "url",
    [
        "http://example.com", "ftp://example.com", "https://?x", "nonsense", "https://10.0.0.1", "https://192.168.1.1",
        "https://169.254.169.254/latest", "https://[fd00::1]/", "https://[::ffff:10.0.0.1]/", "https://0.0.0.0/",
        "https://user:pw@example.com", "https://100.64.0.1", "https://[64:ff9b::a9fe:a9fe]/", "https://[2002:a00:1::1]/",
        "https://[fec0::1]/", "https://[::a00:1]/", "https://[64:ff9b:1::a00:1]/", "https://[2001:db8::1]/",
    ],
)  # fmt: skip
def test_plain_http_and_private_addresses_are_refused_without_showing_the_url(url):
    with pytest.raises(ValueError, match=r"must|private") as caught:
        check_url(url, allow_private=False)
    assert url not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.7", "127.0.0.1", "169.254.169.254", "::1", "64:ff9b::a9fe:a9fe", "64:ff9b::a00:1", "2002:a00:1::1",
        "fec0::1", "::a00:1", "::ffff:10.0.0.1", "fe80::1%1",
    ],
)  # fmt: skip
async def test_a_public_name_that_resolves_to_a_private_address_is_refused_for_good(monkeypatch, address):
    def resolve(host, port, *_args, **_named):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    outbound = Outbound()
    with pytest.raises(DeliveryError, match="private address") as caught:
        await outbound.post("https://rebound.example.com/hook", b"{}", {})
    assert caught.value.permanent
    await outbound.close()


@pytest.mark.slow
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


async def answer_ok(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    writer.close()


def resolving(*addresses):
    return lambda _host, port, *_args, **_named: [
        (socket.AF_INET6 if ":" in each else socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
        for each in addresses
    ]


@pytest.mark.parametrize("addresses", [("93.184.215.14", "10.0.0.7"), ("10.0.0.7", "93.184.215.14")])
async def test_a_name_with_one_private_address_among_public_ones_is_refused_unasked(monkeypatch, addresses):
    asked = []

    async def send(request, *, stream):
        asked.append(request.url.host)
        raise httpx.ConnectError("refused")

    outbound = Outbound()
    monkeypatch.setattr(outbound._client, "send", send)
    monkeypatch.setattr(socket, "getaddrinfo", resolving(*addresses))
    with pytest.raises(DeliveryError, match="private address") as caught:
        await outbound.post("https://both.example.com/hook", b"{}", {})
    await outbound.close()
    assert caught.value.permanent
    assert asked == []


@pytest.mark.slow
async def test_a_server_on_127_0_0_1_is_reached_as_localhost_although_the_name_gives_ipv6_first(monkeypatch):
    server = await asyncio.start_server(answer_ok, "127.0.0.1", 0)
    outbound = Outbound()
    async with server:
        monkeypatch.setattr(socket, "getaddrinfo", resolving("::1", "127.0.0.1"))
        reply = await outbound.post(f"http://localhost:{server.sockets[0].getsockname()[1]}/", b"{}", {})
        await outbound.close()
    assert reply.text == "ok"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "asked"),
    [
        (httpx.ConnectError("refused"), ["93.184.215.14", "93.184.215.15"]),
        (httpx.ConnectTimeout("silent"), ["93.184.215.14", "93.184.215.15"]),
        (httpx.ReadTimeout("it may have the message"), ["93.184.215.14"]),
    ],
)
async def test_the_next_address_of_a_name_is_asked_only_if_there_was_no_connection(monkeypatch, failure, asked):
    seen = []

    async def send(request, *, stream):
        seen.append(request.url.host)
        assert request.extensions["timeout"]["connect"] == 7.5
        raise failure

    outbound = Outbound()
    monkeypatch.setattr(outbound._client, "send", send)
    monkeypatch.setattr(socket, "getaddrinfo", resolving("93.184.215.14", "93.184.215.15", "93.184.215.14"))
    with pytest.raises(DeliveryError, match=type(failure).__name__):
        await outbound.post("https://example.com/", b"{}", {})
    await outbound.close()
    assert seen == asked


@pytest.mark.slow
@table("secret", ["s3cr3t\nsecond-line", "s3cr3t-tokén", "s3cr3t\x00\\token", "it's s3cr3t", "s3cr3t\udcff"])
async def test_an_error_does_not_show_a_secret_as_python_quotes_it(secret):
    outbound = Outbound([secret])
    for quoted in (repr(f"Bearer {secret}"), repr(f"Bearer {secret}".encode("utf-8", "surrogatepass"))):
        assert "s3cr3t" not in outbound.without_secrets(f"LocalProtocolError: Illegal header value {quoted}")
    await outbound.close()


@pytest.mark.slow
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


@table(
    ("url", "said"),
    [
        ("http://alertmanager..monitoring:9093", "host name"), (f"https://{'a' * 64}.example.com", "host name"),
        ("https://ex ample.com", "host name"), ("https://.", "host name"), ("https://example.com:99999", "port from 1"),
        ("https://example.com:0", "port from 1"),
    ],
)  # fmt: skip
def test_a_host_or_a_port_that_can_not_be_is_refused_before_anything_is_sent(url, said):
    with pytest.raises(ValueError, match=said):
        check_url(url, allow_private=True)


@pytest.mark.parametrize(
    "url", ["https://a_b.example.com.:8443/", "https://büro.example/", "https://[2606:4700::1]:1/"]
)
def test_unusual_hosts_that_can_be_are_taken(url):
    check_url(url, allow_private=False)


@pytest.mark.slow
@table(
    ("url", "headers"),
    [
        ("http://alertmanager..monitoring:9093", {}),
        (f"http://{'a' * 64}.example:9093", {}),
        ("http://127.0.0.1:99999", {}),
        ("http://127.0.0.1:port", {}),
        ("http://127.0.0.1:9", {"authorization": "Bearer tökén"}),
    ],
)
async def test_a_request_that_can_not_be_made_is_a_failed_delivery_without_the_secret(url, headers):
    outbound = Outbound(["tökén"], allow_private=True)
    with pytest.raises(DeliveryError, match="request can't be made") as caught:
        await outbound.post(url, b"{}", headers)
    await outbound.close()
    assert not caught.value.permanent
    assert "ö" not in caught.value.message
