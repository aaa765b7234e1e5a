"""Slow, silent and ambiguous clients at a server: raw sockets, small limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from switchgear_http.connections import Connections
from switchgear_http.server import make_server
from switchgear_http.sockets import listen
from tests.support.limits import ANSWER_S
from tests.support.raw_http import FRAMINGS, GET, answers, asked, connected, crowd, everything
from tests.support.waiting import until

pytestmark = pytest.mark.slow

SLOW = b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE_BYTES = 20_000_000


class App:
    """Answers at once, after its ``gate``, or much. It counts the requests."""

    def __init__(self) -> None:
        self.requests = 0
        self.gate = threading.Event()

    async def __call__(self, scope, receive, send) -> None:
        self.requests += 1
        if scope["path"] == "/slow":
            while not self.gate.is_set():  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.01)
        more = scope["method"] == "POST"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            more = message["more_body"]
        body = b"x" * (LARGE_BYTES if scope["path"] == "/large" else 2)
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def running(app: App, connections: Connections) -> Iterator[int]:
    """The server in a thread of its own; its port."""
    with listen("127.0.0.1:0", "X") as listening:
        server = make_server(app, connections)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
        thread.start()
        until(lambda: server.started)
        try:
            yield listening.getsockname()[1]
        finally:
            app.gate.set()
            server.stop()
            thread.join(ANSWER_S)
            assert not thread.is_alive()


@pytest.fixture
def app():
    return App()


@pytest.fixture
def port(app):
    with running(app, Connections(max_open=16, request_s=60, answer_s=60)) as port:
        yield port


@pytest.fixture
def hastiest(app):
    """The port of a server that may end a connection before it has read a request."""
    with running(app, Connections(max_open=16, request_s=0.05)) as port:
        yield port


@pytest.fixture
def hasty(app):
    with running(app, Connections(max_open=16, request_s=0.5, answer_s=0.5)) as port:
        yield port


@pytest.mark.parametrize("sent", FRAMINGS.values(), ids=FRAMINGS)
def test_ambiguous_request_is_answered_once_with_400_and_what_follows_it_is_not_answered(sent, app, port):
    assert answers(asked(port, sent)) == [400]
    assert app.requests == 0


@pytest.mark.parametrize("sent", FRAMINGS.values(), ids=FRAMINGS)
def test_ambiguous_request_after_a_valid_one_is_answered_once_with_400(sent, app, port):
    assert answers(asked(port, GET + sent)) == [200, 400]
    assert app.requests == 1


@pytest.mark.parametrize(
    "body", [b"zz\r\nab\r\n", b"2\r\nabXX\r\n0\r\n\r\n", b"2 \r\nab\r\n0\r\n\r\n" + b"-1\r\n", b"2;" + b"a" * 70_000]
)
def test_a_body_whose_chunks_are_damaged_is_answered_at_most_once(body, port):
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    received = answers(asked(port, head + body + GET))
    assert received in ([400], [200, 400])


def test_requests_one_after_the_other_on_one_connection_are_each_answered(app, port):
    chunked = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    last = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab"
    assert answers(asked(port, GET + chunked + last)) == [200, 200, 200]
    assert app.requests == 3


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
    ],
    ids=["nothing", "a line", "a header", "a body", "chunks"],
)
def test_a_request_that_does_not_end_is_closed_when_its_time_is_over(sent, hastiest):
    assert answers(asked(hastiest, sent)) == []


def test_a_second_request_that_does_not_end_is_closed_when_its_time_is_over(hasty):
    assert answers(asked(hasty, GET + b"GET /")) == [200]


def test_client_that_sends_a_byte_now_and_then_is_closed_when_its_time_is_over(hastiest):
    with connected(hastiest, b"GET / HTTP/1.1\r\nX: ") as connection:
        connection.setblocking(False)

        def ended() -> bool:
            try:
                connection.send(b"a")
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            return False

        until(ended)


def test_crowd_of_one_address_closes_its_own_connections_and_not_those_of_others(port):
    with connected(port, GET, source="127.0.0.2") as other:
        assert answers(other.recv(65_536)) == [200]
        with crowd(port, 100, b"GET /"):
            other.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert answers(everything(other)) == [200]


def test_request_in_progress_is_not_closed_however_long_it_takes(app, hasty):
    with connected(hasty, SLOW.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")) as connection:
        assert answers(asked(hasty, b"GET /")) == []  # its time was over
        assert answers(asked(hasty, b"GET /")) == []
        app.gate.set()
        assert answers(everything(connection)) == [200]


def test_a_client_that_does_not_read_its_answer_is_closed_when_its_time_is_over(app, hasty):
    with connected(hasty, LARGE, buffer=4096) as connection:
        until(lambda: app.requests == 1)
        assert answers(asked(hasty, b"")) == []  # as long as a client's time lasts
        assert answers(asked(hasty, b"")) == []
        assert len(everything(connection)) < LARGE_BYTES


def test_a_client_that_reads_slowly_but_reads_gets_all_of_its_answer(app):
    with running(app, Connections(request_s=60, answer_s=5)) as port, connected(port, LARGE) as connection:
        received = b""
        while len(received) < LARGE_BYTES:
            part = connection.recv(400_000)
            assert part
            received += part
        assert answers(received[:100]) == [200]


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", GET]
)
def test_probe_is_answered_while_other_clients_hold_every_connection(sent, port):
    with crowd(port, 200, sent):
        for _ in range(3):
            assert answers(asked(port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))) == [200]


def test_no_more_connections_stay_open_than_the_limit(port):
    with crowd(port, 200, b"GET / HTTP/1.1\r\n") as connections:

        def held() -> int:
            return sum(1 for each in connections if not _ended(each))

        until(lambda: held() <= 16)


def test_probe_is_answered_while_the_limit_of_requests_is_in_progress(app, port):
    with crowd(port, 8, SLOW):
        until(lambda: app.requests == 8)
        closing = b"\r\nConnection: close\r\n\r\n"
        assert answers(asked(port, SLOW.replace(b"\r\n\r\n", closing))) == [503]
        assert answers(asked(port, GET.replace(b"\r\n\r\n", closing))) == [200]
        app.gate.set()
        until(lambda: answers(asked(port, SLOW.replace(b"\r\n\r\n", closing))) == [200])


def test_request_over_the_limit_is_answered_with_a_problem_and_the_security_headers(app, port):
    with crowd(port, 8, SLOW):
        until(lambda: app.requests == 8)
        head, _, body = asked(port, SLOW).partition(b"\r\n\r\n")
        problem = json.loads(body)
        assert (problem["status"], problem["title"]) == (503, "Service Unavailable")
        for line in (
            b"content-type: application/problem+json",
            b"retry-after: 1",
            b"x-frame-options: DENY",
            b"x-content-type-options: nosniff",
        ):
            assert line in head
        assert b"content-security-policy: default-src 'none'" in head
        app.gate.set()


def test_probe_is_answered_while_other_clients_do_not_read_their_answers(app, port):
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connected(port, LARGE, buffer=4096))
        assert answers(asked(port, GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))) == [200]


def _ended(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
