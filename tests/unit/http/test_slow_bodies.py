"""Clients without a login that send half a body keep nobody out: not from their own address, and not from many."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from switchgear_http.limits import AwaitedBodies, Limits
from switchgear_http.principal import Role
from switchgear_http.server import ConcurrencyLimit
from switchgear_http.tokens import new_token
from tests.support.virtual_time import in_virtual_time
from tests.unit.http.test_middleware import made

SLOTS = 128
"""Requests in progress that the API has."""


class Login:
    """Reads the body, as ``/v1/session`` does, and answers 200."""

    async def __call__(self, scope, receive, send):
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
def app():
    """The server's limit around the access control, as the API has them. Nobody has to log in for /v1/session."""
    token, _ = new_token("planner", [Role.READ])
    return ConcurrencyLimit(made(tokens=[token], app=Login(), role_of=lambda _scope: None), SLOTS)


async def post(app, address, *, complete):
    """Send a login, or half of one, and return its status."""
    parts = [{"type": "http.request", "body": b"{", "more_body": not complete}]
    statuses = []

    async def receive():
        if not parts:
            await asyncio.Event().wait()
        return parts.pop()

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/session",
        "headers": [(b"host", b"localhost")],
        "client": (address, 1),
    }
    await app(scope, receive, send)
    return statuses[0]


@asynccontextmanager
async def crowd(app, addresses):
    """Half a login from each address."""
    tasks = []
    try:
        for address in addresses:
            tasks.append(asyncio.create_task(post(app, address, complete=False)))
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@in_virtual_time
@pytest.mark.parametrize(
    "addresses",
    [["10.0.0.1"] * 140, [f"10.0.1.{number}" for number in range(140)], [f"2001:db8::{n}" for n in range(140)]],
    ids=["one address", "many addresses", "one host's addresses"],
)
async def test_logins_go_on_while_a_crowd_sends_half_a_login_each(app, addresses):
    async with crowd(app, addresses) as tasks:
        for address in ("10.0.9.9", addresses[0]):
            assert await post(app, address, complete=True) == 200
        assert app._running <= Limits().awaited
        assert not any(task.done() and task.result() == 503 for task in tasks)


@in_virtual_time
async def test_the_login_that_was_awaited_longest_is_told_that_it_was_too_slow(app):
    async with crowd(app, ["10.0.0.1"] * (Limits().awaited_per_address + 1)) as tasks:
        assert [task.done() for task in tasks] == [True] + [False] * Limits().awaited_per_address
        assert tasks[0].result() == 408


@in_virtual_time
async def test_a_crowd_does_not_end_the_half_login_of_an_address_that_has_few(app):
    async with crowd(app, ["10.0.9.9", *(f"10.0.0.{number % 9}" for number in range(300))]) as tasks:
        assert not tasks[0].done()


class Body:
    given_up = False

    def give_up(self):
        self.given_up = True


def test_a_body_that_has_arrived_leaves_its_place():
    bodies = AwaitedBodies(1, 2)
    first, second = Body(), Body()
    with bodies.waiting(first, "10.0.0.1"):
        assert len(bodies) == 1
    with bodies.waiting(second, "10.0.0.1"):
        assert len(bodies) == 1
    assert len(bodies) == 0
    assert not first.given_up
    assert not second.given_up
