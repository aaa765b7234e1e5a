"""Decide what ``switchgear up`` runs and where: ports, folders, and the environment of the child processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from switchgear_cli.local.ports import HOST, port_of
from switchgear_cli.up.ports import HeldPorts, check_ports
from switchgear_http.authenticator import Authenticator
from switchgear_http.principal import Role
from switchgear_http.tokens import new_token, with_token
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import CONFIG_VARIABLE, PREFIX, Settings

MAX_WORKERS: Final = 64


@dataclass(frozen=True, slots=True)
class UpRequest:
    """What the user asks ``switchgear up`` for.

    Attributes:
        settings: As the user gave them.
        ports: The ports that the user named, by flag.
        workers: How many workers to run.
        demo: Send demo traffic.
        rewind: Let the sink read again what the store lacks.
    """

    settings: Settings
    ports: Mapping[str, int] = field(default_factory=dict)
    workers: int = 1
    demo: bool = False
    rewind: bool = False

    @property
    def data_dir(self) -> Path:
        """The folder of the data, as an absolute path."""
        return self.settings.data_dir.expanduser().absolute()

    def check(self) -> None:
        """Check what can be checked before anything is touched.

        Raises:
            SwitchgearError: ``workers`` is out of range, a port is named twice or for nothing, or the alerts file is wrong.
        """
        if self.settings.alerts_file is not None:
            from switchgear_alerts.service import load_rules  # noqa: PLC0415 - an extra

            load_rules(self.settings)
        elif "--alerts-port" in self.ports:
            raise SwitchgearError(
                f"--alerts-port {self.ports['--alerts-port']} has no effect without alerts.", hint="Give --alerts too."
            )
        if not 1 <= self.workers <= MAX_WORKERS:
            raise SwitchgearError(f"--workers {self.workers} is out of range.", hint=f"Give 1 to {MAX_WORKERS}.")
        check_ports(self.ports)


@dataclass(frozen=True, slots=True)
class UpPlan:
    """Everything that is decided before anything starts.

    Attributes:
        data_dir: Holds all that is kept: ``kafka/``, ``clickhouse/``, ``logs/``.
        kafka_port: Of the broker, on 127.0.0.1 as the others.
        api_port: Of the HTTP API.
        gateway_port: Of the gateway.
        otlp_port: Where the gateway takes OTLP over gRPC.
        worker_ports: Of each worker's ``/readyz`` and ``/metrics``.
        demo: Send demo traffic.
        alerts_port: Of the ``/readyz`` and ``/metrics`` of alerts; None without an alerts file.
        settings: As the user gave them; what this plan decides replaces some of them in the children.
        token: The token that this process sends to the API; None if the API needs none.
        access_tokens: The tokens that the API accepts: the user's and the one of this process.
    """

    data_dir: Path
    kafka_port: int
    api_port: int
    gateway_port: int
    otlp_port: int
    worker_ports: tuple[int, ...]
    demo: bool
    settings: Settings
    alerts_port: int | None = None
    rewind: bool = False
    token: str | None = None
    access_tokens: str | None = None

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
    def otlp_grpc(self) -> str:
        """Where the gateway takes OTLP over gRPC."""
        return f"{HOST}:{self.otlp_port}"

    @property
    def worker_urls(self) -> tuple[str, ...]:
        """The workers' addresses."""
        return tuple(f"http://{HOST}:{port}" for port in self.worker_ports)

    @property
    def alerts_url(self) -> str | None:
        """The address of alerts; None without an alerts file."""
        return None if self.alerts_port is None else f"http://{HOST}:{self.alerts_port}"

    @property
    def sink_arguments(self) -> list[str]:
        """The command line of the sink."""
        return ["sink", "--instance-id", "up", *(["--rewind"] if self.rewind else [])]

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

    def _servers(self) -> list[tuple[str, str]]:
        """Return the names and addresses of what the console asks: all but the process that serves it."""
        workers = [(f"worker-{number}", url) for number, url in enumerate(self.worker_urls, 1)]
        alerts = [] if self.alerts_url is None else [("alerts", self.alerts_url)]
        return [*workers, ("gateway", self.gateway_url), *alerts]

    def _decided(self) -> dict[str, object]:
        found: dict[str, object] = {
            "kafka_bootstrap_servers": self.bootstrap,
            "kafka_security_protocol": "PLAINTEXT",
            "topic_replication_factor": 1,
            "clickhouse_url": "chdb:",
            "api_http": f"{HOST}:{self.api_port}",
            "api_url": self.api_url,
            "gateway_http": f"{HOST}:{self.gateway_port}",
            "gateway_otlp_grpc": self.otlp_grpc,
            "data_dir": self.data_dir,
            "console_servers": ",".join(f"{name}={url}" for name, url in self._servers()),
        }
        if self.access_tokens is not None:
            found["access_tokens"] = SecretStr(self.access_tokens)
        if self.alerts_port is not None:
            found["alerts_http"] = f"{HOST}:{self.alerts_port}"
            found["alerts_file"] = self.settings.alerts_file
        if self.demo and self.settings.policy_file is None:
            found["policy_file"] = demo_policy_file()
        return found


def demo_policy_file() -> Path:
    """Return the demo's breaker policies.

    Their waits are short, so that a viewer sees a circuit open, half-open and close.
    """
    return Path(str(resources.files("switchgear_cli.demo") / "policies.toml"))


def make_plan(request: UpRequest, ports: HeldPorts) -> UpPlan:
    """Return the plan of a request, on the ports that this process holds.

    Raises:
        SettingsError: The settings of the tokens are wrong.
    """
    token, access_tokens = _own_token(request.settings)
    return UpPlan(
        data_dir=request.data_dir,
        kafka_port=port_of(ports.kafka),
        api_port=port_of(ports.api),
        gateway_port=port_of(ports.gateway),
        otlp_port=port_of(ports.otlp),
        worker_ports=tuple(map(port_of, ports.workers)),
        demo=request.demo,
        rewind=request.rewind,
        settings=request.settings,
        alerts_port=None if ports.alerts is None else port_of(ports.alerts),
        token=token,
        access_tokens=access_tokens,
    )


def _own_token(settings: Settings) -> tuple[str | None, str | None]:
    """Return a token of this process and the tokens that the API accepts with it, if the API needs tokens.

    The user's own token need not give what the view reads, and lives in another file than the server's.
    """
    if not Authenticator.of(settings).configured:
        return None, None
    accepted, text = new_token("switchgear up", [Role.READ])
    given = "" if settings.access_tokens is None else settings.access_tokens.get_secret_value()
    return text, with_token(given, accepted)
