"""Decide what ``switchgear up`` runs and where: ports, folders, and the environment of the child processes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from switchgear_cli.local.ports import HOST, choose_port, is_free
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import CONFIG_VARIABLE, PREFIX, Settings

KAFKA_PORT: Final = 9092
API_PORT: Final = 8620
WORKER_PORT: Final = 8621
GATEWAY_PORT: Final = 8622
OTLP_PORT: Final = 4317
ALERTS_PORT: Final = 8624
MAX_WORKERS: Final = 64


@dataclass(frozen=True, slots=True)
class UpPlan:
    """Everything that is decided before anything starts.

    Attributes:
        data_dir: Holds all that is kept: ``kafka/``, ``clickhouse/``, ``logs/``.
        kafka_port: Of the broker, on 127.0.0.1 as the others.
        api_port: Of the HTTP API.
        gateway_port: Of the gateway.
        otlp_port: Where the gateway takes OTLP over gRPC. None: the port 4317 is in use.
        worker_ports: Of each worker's ``/readyz`` and ``/metrics``.
        demo: Send demo traffic.
        alerts_port: Of the ``/readyz`` and ``/metrics`` of alerts; None without an alerts file.
        settings: As the user gave them; what this plan decides replaces some of them in the children.
    """

    data_dir: Path
    kafka_port: int
    api_port: int
    gateway_port: int
    otlp_port: int | None
    worker_ports: tuple[int, ...]
    demo: bool
    settings: Settings
    alerts_port: int | None = None

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return f"{HOST}:{self.kafka_port}"

    @property
    def api_url(self) -> str:
        """The API's address."""
        return f"http://{HOST}:{self.api_port}"

    @property
    def gateway_url(self) -> str:
        """The gateway's address."""
        return f"http://{HOST}:{self.gateway_port}"

    @property
    def token(self) -> str | None:
        """The token that this process sends to the API."""
        return None if self.settings.token is None else self.settings.token.get_secret_value()

    @property
    def logs(self) -> Path:
        """Folder of every log file."""
        return self.data_dir / "logs"

    def system_settings(self) -> Settings:
        """Return the settings of the system that runs: the user's, with what this plan decides."""
        return self.settings.model_copy(update=self._decided())

    def environment(self, base: Mapping[str, str], *, worker_port: int | None = None) -> dict[str, str]:
        """Return the environment of a child: ``base``, and every setting of the system as its ``SWITCHGEAR_*`` variable.

        Every setting is explicit, so a settings file or a variable for another cluster can't reach a child. Demo traffic must never
        reach a production broker.
        """
        settings = self.system_settings()
        found = {name: value for name, value in base.items() if not name.startswith(PREFIX)}
        if config := base.get(CONFIG_VARIABLE):
            found[CONFIG_VARIABLE] = config
        changed = settings.model_fields_set | set(self._decided())
        for name in sorted(changed):
            value = getattr(settings, name)
            if value is not None and not (isinstance(value, SecretStr) or name.startswith(("kafka_sasl", "kafka_ssl"))):
                found[f"{PREFIX}{name.upper()}"] = str(value)
        if settings.access_tokens is not None:  # without it the API would need no token
            found[f"{PREFIX}ACCESS_TOKENS"] = settings.access_tokens.get_secret_value()
        found |= {f"{PREFIX}TLS_CERTFILE": "", f"{PREFIX}TLS_KEYFILE": ""}  # only this machine reaches the API
        if worker_port is not None:
            found[f"{PREFIX}WORKER_HTTP"] = f"{HOST}:{worker_port}"
        return found | {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}

    def _decided(self) -> dict[str, object]:
        found: dict[str, object] = {
            "kafka_bootstrap_servers": self.bootstrap,
            "kafka_security_protocol": "PLAINTEXT",
            "topic_replication_factor": 1,
            "clickhouse_url": "chdb:",
            "api_http": f"{HOST}:{self.api_port}",
            "api_url": self.api_url,
            "gateway_http": f"{HOST}:{self.gateway_port}",
            "gateway_otlp_grpc": None if self.otlp_port is None else f"{HOST}:{self.otlp_port}",
            "data_dir": self.data_dir,
            "console_servers": ",".join(self._servers()),
        }
        if self.alerts_port is not None:
            found["alerts_http"] = f"{HOST}:{self.alerts_port}"
            found["alerts_file"] = self.settings.alerts_file
        if self.demo and self.settings.policy_file is None:
            found["policy_file"] = demo_policy_file()
        return found

    def _servers(self) -> list[str]:
        ports = [*self.worker_ports, self.gateway_port, *([] if self.alerts_port is None else [self.alerts_port])]
        return [f"http://{HOST}:{port}" for port in ports]


def demo_policy_file() -> Path:
    """Return the demo's breaker policies.

    Their waits are short, so that a viewer sees a circuit open, half-open and close.
    """
    return Path(str(resources.files("switchgear_cli.demo") / "policies.toml"))


def make_plan(
    settings: Settings,
    *,
    api_port: int | None = None,
    gateway_port: int | None = None,
    kafka_port: int | None = None,
    workers: int = 1,
    demo: bool = False,
) -> UpPlan:
    """Choose the ports: the requested one, or the default, or the next free one.

    Raises:
        SwitchgearError: A requested port is in use (the flag is named), ``workers`` is out of range, or the alerts file is wrong.
    """
    if settings.alerts_file is not None:
        from switchgear_alerts.service import load_rules  # noqa: PLC0415 - an extra

        load_rules(settings)
    if not 1 <= workers <= MAX_WORKERS:
        raise SwitchgearError(f"--workers {workers} is out of range.", hint=f"Give 1 to {MAX_WORKERS}.")
    flags = {"--kafka-port": kafka_port, "--api-port": api_port, "--gateway-port": gateway_port}
    for (flag, port), (other, same) in itertools.combinations(flags.items(), 2):
        if port is not None and port == same:
            raise SwitchgearError(f"{flag} and {other} are both {port}.", hint="Give two ports, or leave one out.")
    # A port that the user asked for is reserved for its component.
    given = {port for port in flags.values() if port is not None}

    def chosen(flag: str, default: int) -> int:
        port = choose_port(flags[flag], default, flag=flag, taken=given - {flags[flag]})
        given.add(port)
        return port

    kafka = chosen("--kafka-port", KAFKA_PORT)
    api = chosen("--api-port", API_PORT)
    worker_ports: list[int] = []
    for _ in range(workers):
        worker_ports.append(choose_port(None, WORKER_PORT, flag="--workers", taken={*given, *worker_ports}))
    given.update(worker_ports)
    gateway = chosen("--gateway-port", GATEWAY_PORT)
    alerts_port = None
    if settings.alerts_file is not None:
        alerts_port = choose_port(None, ALERTS_PORT, flag="--alerts", taken=given)
    return UpPlan(
        data_dir=settings.data_dir.expanduser().absolute(),
        kafka_port=kafka,
        api_port=api,
        gateway_port=gateway,
        otlp_port=OTLP_PORT if OTLP_PORT not in given and is_free(OTLP_PORT) else None,
        worker_ports=tuple(worker_ports),
        demo=demo,
        settings=settings,
        alerts_port=alerts_port,
    )
