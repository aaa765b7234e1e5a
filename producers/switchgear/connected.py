"""Connected: a client's ties to Kafka, made from the constructor's arguments."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from switchgear import arguments
from switchgear.transport import Transport
from switchgear_schemas.connection import KafkaConnection

if TYPE_CHECKING:
    from switchgear.client import Switchgear
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.follower import CircuitFollower
    from switchgear.runtime.background_thread import Background

Servers = str | KafkaConnection | Transport | None
"""Addresses of brokers, a connection with its security, a fleet in memory, or nobody."""


@dataclass(frozen=True, slots=True)
class Connected:
    """Where events go, where circuits come from, the thread that does both, and the clocks; all None without Kafka."""

    emitter: Emitter | None = None
    follower: CircuitFollower | None = None
    background: Background | None = None
    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds."""
    wall: Callable[[], float] = time.time
    """Seconds since 1970."""


def connect(
    gear: Switchgear,
    servers: Servers,
    **sending: Unpack[arguments.Sending],
) -> Connected:
    """Make the parts of ``gear``; nothing is started, no connection is opened.

    Raises:
        SwitchgearError: an argument is impossible; the message names it.
    """
    arguments.sending(**sending)
    service = sending["service"]
    if servers is None:
        return Connected()
    if isinstance(servers, Transport) and not isinstance(servers, type):
        wire = servers.connect(gear, service=service, buffer_size=sending["buffer_size"])
        return Connected(wire.emitter, wire.follower, None, wire.clock, wire.wall)
    connection = arguments.connection("bootstrap_servers", servers)
    # Imported here: asyncio costs 40 ms that `import switchgear` and Switchgear.local() need not pay.
    from switchgear.emitter.emitter import Emitter  # noqa: PLC0415
    from switchgear.follower.follower import CircuitFollower  # noqa: PLC0415
    from switchgear.runtime.background_thread import Background  # noqa: PLC0415

    background = Background(f"switchgear-{service}" if service else "switchgear")
    follower = CircuitFollower(connection, topic_prefix=sending["topic_prefix"], background=background)
    return Connected(Emitter(connection, background=background, **sending), follower, background)
