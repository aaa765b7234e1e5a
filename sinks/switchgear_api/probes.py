"""Whether a sink or the API is ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry

from switchgear_http.probes import Probes, State, checked
from switchgear_sinks.store import Store

_PING_LIMIT_S: Final = 5.0


def probes_of(
    store: Store, registry: CollectorRegistry, readiness: Callable[[], Mapping[str, bool]] | None = None
) -> Probes:
    """Return the probes of a process that has the store open.

    Args:
        store: Readiness needs its answer.
        registry: The metrics to show.
        readiness: More checks by name. While one is False, ``/readyz`` answers 503.
    """

    async def ready() -> State:
        try:
            async with asyncio.timeout(_PING_LIMIT_S):
                answered = await store.ping()
        except TimeoutError:
            answered = False
        return checked({"store": answered, **({} if readiness is None else readiness())})

    return Probes(registry, ready)
