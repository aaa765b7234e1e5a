"""The ports of ``switchgear up``. It holds them as long as it runs, so two systems never use one port."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from switchgear_cli.local.ports import STEP, Hold, hold_listening, hold_port, hold_reserved, port_of
from switchgear_schemas.errors import SwitchgearError

DEFAULTS: Final[Mapping[str, int]] = {
    "--kafka-port": 9092,
    "--api-port": 8620,
    "--worker-port": 8621,
    "--gateway-port": 8622,
    "--alerts-port": 8624,
    "--otlp-port": 4317,
}
"""Each flag's port. No component falls back to the default of another."""


@dataclass(frozen=True, slots=True)
class HeldPorts:
    """A socket for each port.

    Attributes:
        kafka: Reserves the broker's port.
        api: Listens for the sink, with the HTTP API.
        gateway: Listens for the gateway.
        workers: Listen for each worker's ``/readyz`` and ``/metrics``.
        otlp: Reserves the port where the gateway takes OTLP over gRPC.
        alerts: Listens for the ``/readyz`` and ``/metrics`` of alerts; None without an alerts file.
    """

    kafka: socket.socket
    api: socket.socket
    gateway: socket.socket
    workers: tuple[socket.socket, ...]
    otlp: socket.socket
    alerts: socket.socket | None


def check_ports(named: Mapping[str, int]) -> None:
    """Check that each port is named once.

    Args:
        named: The ports that the user named, by flag.

    Raises:
        SwitchgearError: Two flags have one port.
    """
    for (flag, port), (other, same) in itertools.combinations(named.items(), 2):
        if port == same:
            raise SwitchgearError(f"{flag} and {other} are both {port}.", hint="Give two ports, or leave one out.")


@contextmanager
def held_ports(named: Mapping[str, int], *, workers: int = 1, alerts: bool = False) -> Iterator[HeldPorts]:
    """Hold every port while the block runs: the one that the user named, or the default, or the next free one.

    Args:
        named: The ports that the user named, by flag.
        workers: How many workers there are. The flag names the port of the first.
        alerts: Whether alerts run.

    Raises:
        SwitchgearError: A named port is in use. The message has its flag.
    """
    with ExitStack() as stack:

        def held(flag: str, hold: Hold, default: int | None = None) -> socket.socket:
            others = {ports[each] for ports in (DEFAULTS, named) for each in ports if each != flag}
            requested = named.get(flag) if default is None else None
            return stack.enter_context(
                hold_port(requested, default or DEFAULTS[flag], flag=flag, hold=hold, taken=others)
            )

        of_workers = [held("--worker-port", hold_listening)]
        while len(of_workers) < workers:
            of_workers.append(held("--worker-port", hold_listening, port_of(of_workers[-1]) + STEP))
        yield HeldPorts(
            kafka=held("--kafka-port", hold_reserved),
            api=held("--api-port", hold_listening),
            gateway=held("--gateway-port", hold_listening),
            workers=tuple(of_workers),
            otlp=held("--otlp-port", hold_reserved),
            alerts=held("--alerts-port", hold_listening) if alerts else None,
        )
