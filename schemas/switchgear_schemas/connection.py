"""How to reach Kafka: what every client of ours passes to aiokafka."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

METADATA_MAX_AGE_MS: Final = 10_000
"""For consumers: aiokafka asks a partition's former leader for an offset until its metadata are this old (5 minutes by default), and
fetches nothing else from that broker meanwhile. A sink stood still so after all brokers had been killed."""


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Brokers and credentials. ``bootstrap_servers`` is ``host:port``, comma-separated."""

    bootstrap_servers: str = "localhost:9092"
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None

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
