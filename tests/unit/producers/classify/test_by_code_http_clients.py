"""Errors of real HTTP clients are classified, against a real server."""

from __future__ import annotations

import email.utils
import http.client
import time
import urllib.error
import urllib.request

import aiohttp
import httpcore
import httpx
import httpx2
import pytest
import requests
import requests.adapters
import urllib3

from switchgear.classify import Classification, classify, outage_in_text
from tests.support.limits import ANSWER_S
from tests.support.table import table

pytestmark = pytest.mark.slow


def of_urllib(address, limit_s=ANSWER_S):
    try:
        with urllib.request.urlopen(address, timeout=limit_s) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.close()
        raise


def of_httpx(address, limit_s=ANSWER_S):
    with httpx.Client(timeout=limit_s, verify=False) as client:
        client.get(address).raise_for_status()


def of_httpx2(address, limit_s=ANSWER_S):
    with httpx2.Client(timeout=limit_s, verify=False) as client:
        client.get(address).raise_for_status()


def of_requests(address, limit_s=ANSWER_S):
    with requests.Session() as session:
        session.get(address, timeout=limit_s).raise_for_status()


def of_urllib3(address, limit_s=ANSWER_S):
    with urllib3.PoolManager(retries=False, timeout=limit_s) as pool:
        pool.request("GET", address)


async def of_aiohttp(address, limit_s=ANSWER_S):
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=limit_s), raise_for_status=True) as session,
        session.get(address) as answer,
    ):
        await answer.read()


async def of_httpx_async(address, limit_s=ANSWER_S):
    async with httpx.AsyncClient(timeout=limit_s, verify=False) as client:
        (await client.get(address)).raise_for_status()


async def raised(client, address, **limit):
    try:
        answer = client(address, **limit)
        if answer is not None:
            await answer
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("nothing was raised")


CLIENTS = [of_httpx, of_httpx_async, of_httpx2, of_requests, of_aiohttp, of_urllib]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "invalid_input"),
        (401, "auth"),
        (404, "invalid_input"),
        (429, "rate_limited"),
        (500, "server"),
        (504, "timeout"),
    ],
)
async def test_classifies_the_status_of_a_real_answer(url, client, status, expected):
    assert classify(await raised(client, f"{url}/status/{status}")) == Classification(expected)


@pytest.mark.parametrize("client", [of_httpx, of_httpx_async, of_httpx2, of_urllib])
@pytest.mark.parametrize("status", [302, 304])
async def test_redirect_that_is_raised_has_class_tool(url, client, status):
    """httpx raises for a redirect that it doesn't follow, urllib for one without a location and for a 304."""
    assert classify(await raised(client, f"{url}/status/{status}")) == Classification("tool")


def test_too_many_redirects_have_class_server(url):
    with requests.Session() as session:
        session.max_redirects = 2
        with pytest.raises(requests.TooManyRedirects) as found:
            session.get(f"{url}/status/302?Location=%23to-itself", timeout=ANSWER_S)
    assert found.value.response.status_code == 302
    assert classify(found.value) == Classification("server")


def test_request_that_is_not_json_has_class_invalid_input():
    with pytest.raises(requests.exceptions.InvalidJSONError) as found:
        requests.post("http://localhost", json={"x": float("nan")}, timeout=ANSWER_S)
    assert classify(found.value) == Classification("invalid_input")


@pytest.mark.parametrize("client", CLIENTS)
async def test_unreadable_wait_does_not_change_the_class(url, client):
    date = urllib.parse.quote("Fri, 31 Dec 99999999999999999999 23:59:59 GMT")
    error = await raised(client, f"{url}/status/429?Retry-After={date}")
    assert classify(error) == Classification("rate_limited")


@pytest.mark.parametrize("client", CLIENTS)
async def test_reads_a_wait_in_seconds(url, client):
    error = await raised(client, f"{url}/status/503?Retry-After=17")
    assert classify(error) == Classification("server", 17)


@pytest.mark.parametrize("client", CLIENTS)
async def test_403_that_asks_to_wait_is_a_rate_limit(url, client):
    """GitHub's primary limit has nothing left until its reset, the secondary one asks with Retry-After."""
    reset = int(time.time()) + 100
    primary = await raised(client, f"{url}/status/403?X-RateLimit-Remaining=0&X-RateLimit-Reset={reset}")
    found = classify(primary)
    assert found.error_class == "rate_limited"
    assert found.retry_after_s is not None
    assert 60 < found.retry_after_s <= 101
    assert classify(await raised(client, f"{url}/status/403?Retry-After=60")) == Classification("rate_limited", 60)


@pytest.mark.parametrize("client", CLIENTS)
async def test_403_within_its_limits_is_a_matter_of_rights(url, client):
    reset = int(time.time()) + 100
    error = await raised(client, f"{url}/status/403?X-RateLimit-Remaining=37&X-RateLimit-Reset={reset}")
    assert classify(error) == Classification("auth")


@pytest.mark.parametrize("client", CLIENTS)
async def test_reads_a_wait_until_a_date(url, client):
    date = urllib.parse.quote(email.utils.formatdate(time.time() + 100, usegmt=True))
    found = classify(await raised(client, f"{url}/status/429?Retry-After={date}"))
    assert found.error_class == "rate_limited"
    assert 60 < found.retry_after_s <= 100


@pytest.mark.parametrize("client", [*CLIENTS, of_urllib3])
async def test_refused_connection_has_class_transport(unreachable, client):
    assert classify(await raised(client, unreachable)) == Classification("transport")


@pytest.mark.parametrize("client", [*CLIENTS, of_urllib3])
async def test_closed_connection_has_class_transport(url, client):
    assert classify(await raised(client, f"{url}/close")) == Classification("transport")


@pytest.mark.parametrize("client", CLIENTS)
async def test_truncated_answer_has_class_transport(url, client):
    assert classify(await raised(client, f"{url}/cut")) == Classification("transport")


@pytest.mark.parametrize("client", [*CLIENTS, of_urllib3])
async def test_late_answer_has_class_timeout(url, client):
    assert classify(await raised(client, f"{url}/slow", limit_s=0.02)) == Classification("timeout")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("status/429", "rate_limited"),
        ("status/500", "server"),
        ("status/503", "server"),
        ("status/504", "timeout"),
        ("status/404", None),
        ("close", "transport"),
        ("cut", "transport"),
    ],
)
async def test_outage_in_text_knows_the_messages_of_real_clients(url, client, path, expected):
    """The text is as an MCP server passes it on."""
    assert outage_in_text(str(await raised(client, f"{url}/{path}"))) == expected


@pytest.mark.parametrize("client", [*CLIENTS, of_urllib3])
async def test_outage_in_text_knows_refused_connections_of_real_clients(unreachable, client):
    assert outage_in_text(str(await raised(client, unreachable))) == "transport"


@pytest.mark.parametrize("client", [of_httpx, of_requests, of_aiohttp])
async def test_unknown_host_has_class_transport(client):
    assert classify(await raised(client, "http://switchgear.invalid")).error_class == "transport"


@table("client", [of_httpx, of_requests, of_aiohttp, of_urllib])
@table("address", ["no-scheme", "ftpx://host", "http://"])
async def test_impossible_address_has_class_invalid_input(client, address):
    assert classify(await raised(client, address)).error_class in {"invalid_input", "transport"}


@table(
    "error",
    [
        httpx.UnsupportedProtocol("x"),
        httpx.InvalidURL("x"),
        requests.exceptions.MissingSchema("x"),
        requests.exceptions.InvalidHeader("x"),
        aiohttp.InvalidURL("x"),
        http.client.InvalidURL("x"),
        urllib3.exceptions.LocationParseError("x"),
    ],
)
def test_bad_url_or_header_has_class_invalid_input(error):
    assert classify(error).error_class == "invalid_input"


async def test_answer_of_aiohttp_that_is_not_json_has_class_server(url):
    async with aiohttp.ClientSession() as session, session.get(f"{url}/html") as answer:
        with pytest.raises(aiohttp.ContentTypeError) as found:
            await answer.json()
    assert classify(found.value).error_class == "server"


def test_answer_that_is_not_json_has_class_server(url):
    with pytest.raises(requests.JSONDecodeError) as of_requests_:
        requests.get(f"{url}/html", timeout=ANSWER_S).json()
    with pytest.raises(ValueError, match="Expecting value") as of_httpx_:
        httpx.get(f"{url}/html").json()
    for found in (of_requests_, of_httpx_):
        assert classify(found.value).error_class == "server"


def test_timed_out_connection_of_requests_has_class_timeout():
    """Its first base is ConnectionError."""
    assert classify(requests.ConnectTimeout()).error_class == "timeout"


def test_reason_inside_a_wrapper_decides(unreachable, url):
    with urllib3.PoolManager(retries=urllib3.Retry(1, backoff_factor=0), timeout=ANSWER_S) as pool:
        with pytest.raises(urllib3.exceptions.MaxRetryError) as refused:
            pool.request("GET", unreachable)
        with pytest.raises(urllib3.exceptions.MaxRetryError) as slow:
            pool.request("GET", f"{url}/slow", timeout=0.02)
    assert classify(refused.value).error_class == "transport"
    assert classify(slow.value).error_class == "timeout"
    assert classify(urllib.error.URLError(TimeoutError())).error_class == "timeout"
    assert classify(urllib.error.URLError("unknown url type")).error_class == "transport"


def test_exhausted_retries_of_requests_have_class_server(url):
    with requests.Session() as session:
        retry = urllib3.Retry(1, status_forcelist=[503], backoff_factor=0)
        session.mount("http://", requests.adapters.HTTPAdapter(max_retries=retry))
        with pytest.raises(requests.exceptions.RetryError) as found:
            session.get(f"{url}/status/503", timeout=ANSWER_S)
    assert classify(found.value).error_class == "server"


@table(
    ("error", "expected"),
    [
        (httpx.PoolTimeout("x"), "timeout"),
        (httpx.ProxyError("x"), "transport"),
        (httpx.TooManyRedirects("x"), "server"),
        (httpx.DecodingError("x"), "server"),
        (httpx.LocalProtocolError("x"), "invalid_input"),
        (httpcore.ConnectTimeout(), "timeout"),
        (httpcore.ConnectError(), "transport"),
        (httpcore.RemoteProtocolError(), "transport"),
        (requests.exceptions.SSLError(), "transport"),
        (requests.exceptions.TooManyRedirects(), "server"),
        (aiohttp.ServerDisconnectedError(), "transport"),
        (aiohttp.ConnectionTimeoutError(), "timeout"),
        (http.client.RemoteDisconnected(), "transport"),
        (http.client.IncompleteRead(b""), "transport"),
        (urllib3.exceptions.ProtocolError(), "transport"),
        (urllib3.exceptions.DecodeError(), "server"),
    ],
    ids=repr,
)
def test_classifies_other_types_of_http_clients(error, expected):
    assert classify(error).error_class == expected
