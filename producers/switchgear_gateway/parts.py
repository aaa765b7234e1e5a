"""What a part of the gateway has. Each part is a class of a module of its own; :func:`switchgear_gateway.service.parts_of` lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from switchgear_http.routing import Route


class Part(Protocol):
    """Some routes of the gateway.

    A part may have more:

    * ``async run()``: work in the background, until cancelled. The service owns its task. If it ends by itself, the process ends.
    * ``stop()``: called when the process begins to end, before requests in progress have to finish. A stream ends its requests.
    """

    @property
    def routes(self) -> Sequence[Route]:
        """The routes."""
        ...


@runtime_checkable
class Runs(Protocol):
    """A part with work in the background."""

    async def run(self) -> None:
        """Work until cancelled."""
        ...


@runtime_checkable
class Stops(Protocol):
    """A part that has something to do when the process begins to end."""

    def stop(self) -> None:
        """End what would not end by itself."""
        ...
