"""A broker with three listeners: plain for the test itself, SASL over TLS, and TLS that asks for a client certificate.

It has an authorizer. The plain listener, :data:`USER` and a certificate for ``client`` may do everything, :data:`OTHERS` nothing until a
test gives them permissions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from switchgear_cli.local import kafka
from switchgear_cli.local.ports import any_free_ports
from tests.support.certificates import Authority

USER, PASSWORD = "planner", "hunter2-hunter2"
OTHERS = ("forecasts", "worker", "sink", "operator", "reader", "writer")
"""The users. They have the same password."""
_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class SecuredKafka:
    """The addresses of the broker, and the authority of its certificate."""

    plain: str
    sasl_ssl: str
    mutual_tls: str
    authority: Authority
    log: Path
    """Return the broker's log, which names what it denied."""


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """Start the broker in ``folder``, and stop it at the end."""
    authority = Authority(folder / "certificates")
    certfile, keyfile = authority.sign("broker")
    both = folder / "certificates" / "broker-both.pem"
    both.write_bytes(keyfile.read_bytes() + certfile.read_bytes())
    plain, sasl, mutual = any_free_ports(3)
    users = "".join(f' user_{name}="{PASSWORD}"' for name in (USER, *OTHERS))
    more = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": both,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.cafile,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{_LOGIN}.plain.PlainLoginModule required{users};",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "listener.name.ssl.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{USER};User:CN=client",
    }

    def properties(log_dir: Path, port: int, controller_port: int) -> str:
        own = dict(line.split("=", 1) for line in _own_properties(log_dir, port, controller_port).splitlines())
        listeners = f",SASL_SSL://localhost:{sasl},SSL://localhost:{mutual}"
        own["listeners"] += listeners
        own["advertised.listeners"] += listeners
        own["listener.security.protocol.map"] += ",SASL_SSL:SASL_SSL,SSL:SSL"
        return "".join(f"{key}={value}\n" for key, value in (own | more).items())

    broker = kafka.LocalKafka(folder / "kafka", plain)
    with mock.patch.object(kafka, "server_properties", properties):  # for this broker's start alone
        broker.start()
    try:
        yield SecuredKafka(broker.bootstrap, f"localhost:{sasl}", f"localhost:{mutual}", authority, broker.log_file)
    finally:
        broker.stop()


_own_properties = kafka.server_properties
