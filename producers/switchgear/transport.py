"""Make a client's connection to Kafka, to a gateway, or to the in-memory fleet of ``switchgear.testing``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

from switchgear import arguments
from switchgear.arguments import OptionError
from switchgear_schemas.connection import KafkaConnection

if TYPE_CHECKING:
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.base import Follower
    from switchgear.runtime.background_thread import Background


class Wire(NamedTuple):
    """One client's connection and clocks. Without Kafka the first two and the background are None."""

    emitter: Emitter | None = None
    """Sends the events."""
    follower: Follower | None = None
    """Reads the fleet's circuits."""
    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds."""
    wall: Callable[[], float] = time.time
    """Seconds since 1970."""
    background: Background | None = None
    """The thread that does both."""


@runtime_checkable
class Clock(Protocol):
    """What shows a client the time in place of the machine: a :class:`switchgear.testing.FakeClock`."""

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        ...

    def wall(self) -> float:
        """Return seconds since 1970."""
        ...


@runtime_checkable
class Transport(Protocol):
    """Connects clients. Pass one to a client in place of the address of a broker."""

    def connect(self, client: Any, *, service: str, buffer_size: int) -> Wire:
        """Return the connection of ``client``.

        Args:
            client: It is still being constructed: keep a reference to it, but don't call it.
            service: The name on its events.
            buffer_size: The most events to hold.
        """
        ...


Servers = str | KafkaConnection | Transport | None
"""Addresses of brokers, the address of a gateway, a connection with its security, a transport, or None for neither."""
SCHEMES: Final = ("https://", "http://")
"""The address of a gateway begins with one of them."""
GATEWAY_LINGER_S: Final = 0.25
"""Shortest time between two requests with events. The first event after a pause and probes don't wait."""


def connect(
    client: object, servers: Servers, *, token: str | None = None, clock: Clock | None = None, **sending: Any
) -> Wire:
    """Return the connection of ``client``, on ``clock`` if there is one. Starts no thread and opens no socket.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """
    arguments.sending(**sending)
    wire = _connected(client, servers, token, **sending)
    if clock is None:
        return wire
    if isinstance(clock, type) or not isinstance(clock, Clock):
        arguments.impossible("clock", "an object with monotonic() and wall()", clock, "clock=FakeClock()")
    return wire._replace(clock=clock.monotonic, wall=clock.wall)


def _connected(client: object, servers: Servers, token: str | None, **sending: Any) -> Wire:
    if isinstance(servers, str) and servers.startswith(SCHEMES):
        return _over_http(servers, token, **sending)
    if token is not None:
        raise OptionError(
            "token is for a gateway, but bootstrap_servers is not the address of one.",
            hint='Switchgear("https://gateway:8622", token=…)',
        )
    if servers is None:
        return Wire()
    service = sending["service"]
    if isinstance(servers, Transport) and not isinstance(servers, type):
        return servers.connect(client, service=service, buffer_size=sending["buffer_size"])
    connection = arguments.connection("bootstrap_servers", servers)
    # Imported here: asyncio costs 40 ms that `import switchgear` and Switchgear.local() need not pay.
    from switchgear.emitter.emitter import Emitter  # noqa: PLC0415
    from switchgear.follower.follower import CircuitFollower  # noqa: PLC0415
    from switchgear.runtime.background_thread import Background  # noqa: PLC0415

    background = Background(f"switchgear-{service}" if service else "switchgear")
    follower = CircuitFollower(connection, topic_prefix=sending["topic_prefix"], background=background)
    return Wire(Emitter(connection, background=background, **sending), follower, background=background)


def _over_http(url: str, token: str | None, **sending: Any) -> Wire:
    if sending["compression"] not in {None, "gzip"}:
        arguments.impossible("compression", "gzip or None with a gateway", sending["compression"])
    from switchgear.emitter.emitter import Emitter  # noqa: PLC0415 - see connect
    from switchgear.over_http.follower import GatewayFollower  # noqa: PLC0415 - see connect
    from switchgear.over_http.gateway import Gateway  # noqa: PLC0415 - see connect
    from switchgear.over_http.sender import GatewayDestination  # noqa: PLC0415 - see connect
    from switchgear.runtime.background_thread import Background  # noqa: PLC0415 - see connect

    gateway = Gateway(url.rstrip("/"), token)
    service = sending["service"]
    background = Background(f"switchgear-{service}" if service else "switchgear")
    follower = GatewayFollower(gateway, background=background)
    destination = GatewayDestination(gateway)
    emitter = Emitter(background=background, destination=destination, linger_s=GATEWAY_LINGER_S, **sending)
    follower.emitter_id = lambda: emitter.emitter_id
    return Wire(emitter, follower, background=background)
