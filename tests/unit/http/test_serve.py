"""How a process serves and ends: on a signal, when a task dies, and in which order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from types import SimpleNamespace

import pytest

from switchgear_http.serve import Work, serve, stop_on_signals

LATE_S = 0.01


class StandingServer:
    """Serves until it is stopped, and then notes it."""

    def __init__(self, ends: list[str]) -> None:
        self.started, self.config = True, SimpleNamespace(is_ssl=False)
        self._stopped, self._ends = asyncio.Event(), ends

    async def serve(self, sockets) -> None:
        await self._stopped.wait()
        self._ends.append("http")

    def stop(self) -> None:
        self._stopped.set()


class Place:
    """A server, and what runs beside it."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.stopping = asyncio.Event()
        self.asked = asyncio.Event()

    async def serve(self, *works: Work, **options) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = StandingServer(self.ends)
            await serve(server, listening, self.stopping, works, **options)

    async def until_cancelled(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ends.append("cancelled")

    async def until_asked(self) -> None:
        await self.asked.wait()
        self.ends.append("asked")

    async def fail(self) -> None:
        raise LookupError("dead")


@pytest.fixture
async def place():
    return Place()


async def test_streams_end_first_then_requests_and_works_that_are_asked_and_then_the_others(place):
    place.stopping.set()
    works = [Work("writer", place.until_asked, place.asked.set), Work("reader", place.until_cancelled)]
    await place.serve(*works, end_streams=lambda: place.ends.append("streams"))
    assert place.ends[0] == "streams"
    assert sorted(place.ends[1:3]) == ["asked", "http"]
    assert place.ends[3:] == ["cancelled"]


@pytest.mark.parametrize("watched", [True, False])
async def test_a_task_that_fails_ends_the_server_and_its_error_is_raised(place, watched):
    given = {"watched": [asyncio.create_task(place.fail())]} if watched else {}
    with pytest.raises(LookupError, match="dead"):
        await place.serve(*([] if watched else [Work("reader", place.fail)]), **given)
    assert place.ends == ["http"]


async def test_a_task_that_ends_by_itself_is_an_error_that_names_it(place):
    place.asked.set()
    with pytest.raises(RuntimeError, match="The task reader ended by itself"):
        await place.serve(Work("reader", place.until_asked))


async def test_what_a_work_fails_with_after_it_was_asked_to_stop_is_raised(place):
    async def flush() -> None:
        await place.asked.wait()
        raise LookupError("not flushed")

    place.stopping.set()
    with pytest.raises(LookupError, match="not flushed"):
        await place.serve(Work("writer", flush, place.asked.set))


async def test_a_work_that_does_not_stop_in_time_is_cancelled(place):
    place.stopping.set()
    await place.serve(Work("writer", place.until_cancelled, lambda: None), limit_s=LATE_S)
    assert place.ends == ["http", "cancelled"]


async def test_a_task_of_the_caller_goes_on_after_the_end(place):
    own = asyncio.create_task(place.until_cancelled())
    place.stopping.set()
    await place.serve(watched=[own])
    assert not own.done()
    own.cancel()
    await asyncio.gather(own, return_exceptions=True)


async def test_sigterm_and_sigint_stop_a_server(place):
    for number in (signal.SIGTERM, signal.SIGINT):
        place.stopping = stop_on_signals()
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), number)
        await place.serve()
        asyncio.get_running_loop().remove_signal_handler(number)
    assert place.ends == ["http", "http"]
