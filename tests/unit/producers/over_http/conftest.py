"""A gateway's contract over a real socket, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from switchgear import Switchgear
from tests.support.gateway_contract import GatewayServer, gateway_server


@pytest.fixture
def server() -> Iterator[GatewayServer]:
    with gateway_server() as running:
        yield running


@pytest.fixture
def make(server: GatewayServer) -> Iterator[Callable[..., Switchgear]]:
    """Return a function that makes a client of the server."""
    made: list[Switchgear] = []

    def client(**options: Any) -> Switchgear:
        made.append(Switchgear(options.pop("url", server.url), **options))
        return made[-1]

    yield client
    for gear in made:
        gear.close(0)
