"""How to reach Kafka: the options that every client passes to aiokafka."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.files import check_file

if TYPE_CHECKING:
    import ssl

METADATA_MAX_AGE_MS: Final = 10_000
"""For consumers. aiokafka asks a partition's former leader for an offset until its metadata is this old (5 minutes by default).
Meanwhile it fetches nothing else from that broker, so a reader can stand still after a restart of the brokers."""
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
_PROTOCOLS: Final[tuple[str, ...]] = get_args(SecurityProtocol)
_MECHANISMS: Final[tuple[str, ...]] = get_args(SaslMechanism)


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """The brokers, credentials and certificates.

    The certificate files are checked here. Each new Kafka client reads them again.

    Args:
        bootstrap_servers: ``host:port``, comma-separated. The default port is 9092.
        security_protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        sasl_mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
        sasl_username: Required with a SASL protocol.
        sasl_password: Required with a SASL protocol.
        ssl_cafile: PEM file of the CA certificates to trust; None for the system's.
        ssl_certfile: PEM file of the client's certificate and those that sign it, for brokers that ask for one (mTLS).
        ssl_keyfile: PEM file of the certificate's private key; None if ``ssl_certfile`` contains the key.
        ssl_key_password: Password of an encrypted private key.

    Raises:
        SwitchgearError: A value is wrong, so no broker could be reached. The message names it.
    """

    bootstrap_servers: str = "localhost:9092"
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ssl_cafile: str | os.PathLike[str] | None = None
    ssl_certfile: str | os.PathLike[str] | None = None
    ssl_keyfile: str | os.PathLike[str] | None = None
    ssl_key_password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        servers = self.bootstrap_servers
        if not isinstance(servers, str) or not all(is_address(each.strip()) for each in servers.split(",")):
            raise SwitchgearError(
                f"bootstrap_servers is host:port, comma-separated, not {servers!r}.", hint='Such as "a:9092,b:9092".'
            )
        if self.security_protocol not in _PROTOCOLS:
            raise SwitchgearError(
                f"security_protocol is one of {', '.join(_PROTOCOLS)}, not {self.security_protocol!r}."
            )
        if self.security_protocol.startswith("SASL"):
            self._check_sasl()
        if self.security_protocol.endswith("SSL") and (self.ssl_cafile or self.ssl_certfile or self.ssl_keyfile):
            self._ssl_context()

    def options(self) -> dict[str, Any]:
        """Return keyword arguments for ``AIOKafkaProducer``, ``AIOKafkaConsumer`` and ``AIOKafkaAdminClient``.

        Raises:
            SwitchgearError: A certificate file can't be read any more.
        """
        found: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.security_protocol,
        }
        if self.security_protocol.startswith("SASL"):
            found["sasl_mechanism"] = self.sasl_mechanism
            found["sasl_plain_username"] = self.sasl_username
            found["sasl_plain_password"] = self.sasl_password
        if self.security_protocol.endswith("SSL"):
            found["ssl_context"] = self._ssl_context()
        return found

    def missing_permission(self, error: BaseException, operation: str, topic: str) -> SwitchgearError | None:
        """Explain an error by which Kafka denies ``operation`` (Write or Read) on ``topic``. Return None for another error."""
        kind = type(error).__name__  # by name, because importing aiokafka is slow
        if kind not in {"TopicAuthorizationFailedError", "ClusterAuthorizationFailedError"}:
            return None
        user = f"Kafka user {self.sasl_username!r}" if self.sasl_username else "Kafka user of this process"
        verb = "write to" if operation == "Write" else operation.lower()
        older = ", and on brokers before 2.8 IdempotentWrite on the cluster" if kind.startswith("Cluster") else ""
        return SwitchgearError(
            f"The {user} may not {verb} the topic {topic}.", hint=f"Allow it the operation {operation} there{older}."
        )

    def _check_sasl(self) -> None:
        if self.sasl_mechanism not in _MECHANISMS:
            raise SwitchgearError(f"sasl_mechanism is one of {', '.join(_MECHANISMS)}, not {self.sasl_mechanism!r}.")
        missing = [name for name in ("sasl_username", "sasl_password") if not getattr(self, name)]
        if missing:
            raise SwitchgearError(
                f"security_protocol {self.security_protocol} needs a user name and a password.",
                hint=f"Give {' and '.join(map(_with_setting, missing))}.",
            )

    def _ssl_context(self) -> ssl.SSLContext:
        """Return a context that verifies the brokers' certificates and host names, with the client's certificate if there is one."""
        import ssl  # noqa: PLC0415 - slow, and a plain connection does not need it

        if self.ssl_keyfile and not self.ssl_certfile:
            raise SwitchgearError(
                "ssl_keyfile is given without a certificate.", hint=f"Give {_with_setting('ssl_certfile')}, or neither."
            )
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
            _check_readable(name, getattr(self, name))
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile or None)
        except (ssl.SSLError, ValueError) as error:
            raise SwitchgearError(
                f"{_with_setting('ssl_cafile')} names {self.ssl_cafile}, which holds no certificate in PEM format.",
                hint="Such a file has lines -----BEGIN CERTIFICATE-----.",
            ) from error
        if self.ssl_certfile:
            self._add_certificate(context)
        return context

    def _add_certificate(self, context: ssl.SSLContext) -> None:
        assert self.ssl_certfile
        encrypted: list[bool] = []

        def password() -> str:  # without it OpenSSL asks for one at the terminal
            encrypted.append(True)
            return self.ssl_key_password or ""

        try:
            context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile or None, password)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            key = self.ssl_keyfile or self.ssl_certfile
            if encrypted and not self.ssl_key_password:
                wrong, hint = f"The private key in {key} is encrypted", f"Give {_with_setting('ssl_key_password')}"
            elif encrypted:
                wrong, hint = (
                    f"The private key in {key} can't be decrypted",
                    f"Correct {_with_setting('ssl_key_password')}",
                )
            elif not self.ssl_keyfile:
                wrong, hint = f"{key} holds no certificate with its private key", f"Give {_with_setting('ssl_keyfile')}"
            else:
                wrong = f"{self.ssl_certfile} and {key} are not a certificate and its private key in PEM format"
                hint = f"Correct {_with_setting('ssl_certfile')} or {_with_setting('ssl_keyfile')}"
            raise SwitchgearError(f"{wrong}.", hint=f"{hint}.") from error


def _with_setting(name: str) -> str:
    """Return the name of an argument with the name of its setting: the reader may have set either."""
    return f"{name} (setting kafka_{name})"


def _check_readable(name: str, path: str | os.PathLike[str] | None) -> None:
    if not path:
        return
    try:
        check_file(path)
    except (OSError, TypeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SwitchgearError(
            f"{_with_setting(name)} names {path!s}, which can't be read: {why}.", hint="Correct the path."
        ) from error


def is_address(address: str) -> bool:
    """Return whether aiokafka can read ``address``: a host with or without a port. An IPv6 address with a port is in brackets."""
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
    import socket  # noqa: PLC0415 - slow, and such addresses are rare

    try:
        socket.inet_pton(socket.AF_INET6, address)
    except (OSError, ValueError):
        return False
    return True
