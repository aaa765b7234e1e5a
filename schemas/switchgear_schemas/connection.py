"""How to reach Kafka: what every client of ours passes to aiokafka."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from switchgear_schemas.errors import SwitchgearError

METADATA_MAX_AGE_MS: Final = 10_000
"""For consumers: aiokafka asks a partition's former leader for an offset until its metadata are this old (5 minutes by default), and
fetches nothing else from that broker meanwhile. A sink stood still so after all brokers had been killed."""
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Brokers and credentials. ``bootstrap_servers`` is ``host:port``, comma-separated; without a port it is 9092.

    Raises:
        SwitchgearError: an address is none, or there is no such protocol: nothing could ever be reached.
    """

    bootstrap_servers: str = "localhost:9092"
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None

    def __post_init__(self) -> None:
        servers = self.bootstrap_servers
        if not isinstance(servers, str) or not all(_is_address(each.strip()) for each in servers.split(",")):
            raise SwitchgearError(
                f"bootstrap_servers is host:port, comma-separated, not {servers!r}.", hint='Such as "a:9092,b:9092".'
            )
        if self.security_protocol not in _PROTOCOLS:
            raise SwitchgearError(
                f"security_protocol is one of {', '.join(_PROTOCOLS)}, not {self.security_protocol!r}."
            )

    def options(self) -> dict[str, Any]:
        """Keyword arguments of ``AIOKafkaProducer``, ``AIOKafkaConsumer`` and ``AIOKafkaAdminClient``."""
        found: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.security_protocol,
        }
        if self.security_protocol.startswith("SASL"):
            found["sasl_mechanism"] = self.sasl_mechanism
            found["sasl_plain_username"] = self.sasl_username
            found["sasl_plain_password"] = self.sasl_password
        if self.security_protocol.endswith("SSL"):
            from aiokafka.helpers import create_ssl_context  # noqa: PLC0415 - costs 30 ms where it is not needed

            found["ssl_context"] = create_ssl_context(cafile=self.ssl_cafile)
        return found


def _is_address(address: str) -> bool:
    """As aiokafka reads it: a host, with or without a port; an IPv6 address with a port is in brackets."""
    if address.startswith("["):
        host, closed, rest = address[1:].partition("]")
        port = rest.removeprefix(":") if rest else "9092"
        if not closed or rest == port:
            return False
    elif address.count(":") > 1:
        return _is_ipv6(address)
    else:
        host, colon, port = address.partition(":")
        port = port if colon else "9092"
    if not host or not host.isprintable() or any(character in " /@\\\"'" for character in host):
        return False
    return port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535


def _is_ipv6(address: str) -> bool:
    import socket  # noqa: PLC0415 - costs time, and hardly anybody has such an address

    try:
        socket.inet_pton(socket.AF_INET6, address)
    except (OSError, ValueError):
        return False
    return True
