"""The settings: ``SWITCHGEAR_*`` environment variables override a TOML file, which overrides the defaults."""

from __future__ import annotations

import functools
import logging
import re
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from switchgear_schemas.access_settings import AccessSettings, comma_separated
from switchgear_schemas.connection import KafkaConnection, SaslMechanism, SecurityProtocol, is_address
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.families import DEFAULT_PATTERN, patterns_of
from switchgear_schemas.settings_sources import (
    CONFIG_VARIABLE,
    PREFIX,
    SourcedValue,
    from_environment,
    from_file,
    nearest,
)
from switchgear_schemas.topics import TopicDefinition, TopicNames, topic_definitions

__all__ = ["CONFIG_VARIABLE", "PREFIX", "ClientSettings", "Settings", "load_client_settings", "load_settings"]

log: Final = logging.getLogger("switchgear.settings")
S = TypeVar("S", bound="ClientSettings")


@functools.lru_cache(maxsize=16)
def _names(prefix: str) -> TopicNames:
    return TopicNames(prefix)


class ClientSettings(BaseModel):
    """The settings of a process that calls tools (``Switchgear.from_env``). Every other process has them too."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    kafka_bootstrap_servers: str = Field(default="localhost:9092", description="Brokers, host:port, comma-separated.")
    kafka_security_protocol: SecurityProtocol = "PLAINTEXT"
    kafka_sasl_mechanism: SaslMechanism = "PLAIN"
    kafka_sasl_username: str | None = None
    kafka_sasl_password: SecretStr | None = None
    kafka_ssl_cafile: Path | None = Field(
        default=None, description="PEM file of the CA certificates to trust; the system's where unset."
    )
    kafka_ssl_certfile: Path | None = Field(
        default=None, description="PEM file of the client's certificate, for brokers that ask for one (mTLS)."
    )
    kafka_ssl_keyfile: Path | None = Field(
        default=None, description="PEM file of its private key; unset where kafka_ssl_certfile holds the key too."
    )
    kafka_ssl_key_password: SecretStr | None = Field(default=None, description="Of an encrypted private key.")

    topic_prefix: str = Field(
        default="switchgear.", pattern=r"^[A-Za-z0-9._-]{0,100}$", description="Before every topic and group name."
    )

    family_pattern: str = Field(
        default=DEFAULT_PATTERN,
        description="Which tools belong to a family (the tools of one server), comma-separated; the same in all processes. Empty: none.",
    )

    service: str | None = Field(
        default=None, description="Name of the calling service, on every event; OTEL_SERVICE_NAME where unset."
    )
    spool_dir: Path | None = Field(
        default=None, description="Folder on a local disk where events wait while Kafka is away."
    )
    parameters_key: SecretStr | None = Field(
        default=None,
        description="A secret of the deployment, 1 to 64 bytes: events then carry a keyed hash of their parameters.",
    )
    start_wait_s: float = Field(
        default=0,
        ge=0,
        le=3600,
        description="Longest time that the first call waits until the fleet's circuits are loaded.",
    )
    outages_in_text: str | None = Field(
        default=None,
        description="Tools whose failed results count by their text, such as connection refused: globs, comma-separated. "
        "Not for tools that read pages or run code.",
    )
    include_last_error: bool = Field(
        default=False,
        description="true: texts of refusals quote the tool's last error. It is a stranger's text, also for models that didn't get it.",
    )
    tool_list: Literal["stable", "new_sessions", "hide"] = Field(
        default="stable",
        description="Which tools a model is offered. stable: all. new_sessions: those that work when its session begins. "
        "hide: a tool that stays down leaves the list.",
    )
    hide_after_s: float = Field(
        default=600,
        ge=0,
        le=86_400,
        description="With tool_list hide: how long a tool is down before it leaves the list, and up before it returns.",
    )
    local: bool = Field(default=False, description="true: no Kafka. The process's own breakers decide alone.")
    gateway_url: str | None = Field(
        default=None, description="The address of a gateway, https://host:port, which clients use in place of Kafka."
    )
    token: SecretStr | None = Field(
        default=None, description="The token that commands send to the HTTP API, and clients to a gateway."
    )

    @field_validator("kafka_security_protocol", "kafka_sasl_mechanism", mode="before")
    @classmethod
    def _capitals(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value  # other clients accept sasl_ssl too

    @field_validator("*")
    @classmethod
    def _expand_user(cls, value: Any) -> Any:
        if not isinstance(value, Path):
            return value
        try:
            return value.expanduser()
        except RuntimeError as error:  # "~name" of an unknown user
            raise ValueError(str(error)) from None

    @field_validator("kafka_bootstrap_servers")
    @classmethod
    def _brokers(cls, value: str) -> str:
        for broker in value.split(","):
            _host_and_port(broker.strip())
            if not is_address(broker.strip()):
                raise ValueError(f"must be host:port, got {broker.strip()!r}")
        return value

    @field_validator("family_pattern")
    @classmethod
    def _family_pattern(cls, value: str) -> str:
        try:
            patterns_of(value)
        except SettingsError as error:
            raise ValueError(str(error).removeprefix("family_pattern: ").rstrip(".")) from None
        return value

    @field_validator("parameters_key")
    @classmethod
    def _key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value().encode()) > 64:
            raise ValueError("must be 1 to 64 bytes")
        return value

    @field_validator("token")
    @classmethod
    def _one_line(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        text = value.get_secret_value().strip()  # a file ends with a line feed
        if not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError("must be one word of printable ASCII characters")
        return SecretStr(text)

    @field_validator("gateway_url")
    @classmethod
    def _gateway(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value

    @property
    def topics(self) -> TopicNames:
        """The names of the topics and groups."""
        return _names(self.topic_prefix)  # the worker asks for each batch

    @property
    def kafka(self) -> KafkaConnection:
        """The connection to the brokers.

        Raises:
            SwitchgearError: The credentials or certificate files can't be used. The message names them.
        """
        return self.connection()

    def connection(self, bootstrap_servers: str | None = None) -> KafkaConnection:
        """Return :attr:`kafka`, or the same with other brokers."""
        return KafkaConnection(
            bootstrap_servers=self.kafka_bootstrap_servers if bootstrap_servers is None else bootstrap_servers,
            security_protocol=self.kafka_security_protocol,
            sasl_mechanism=self.kafka_sasl_mechanism,
            sasl_username=self.kafka_sasl_username,
            sasl_password=_revealed(self.kafka_sasl_password),
            ssl_cafile=self.kafka_ssl_cafile,
            ssl_certfile=self.kafka_ssl_certfile,
            ssl_keyfile=self.kafka_ssl_keyfile,
            ssl_key_password=_revealed(self.kafka_ssl_key_password),
        )


def _user_data_path() -> Path:
    from platformdirs import user_data_path  # noqa: PLC0415 - the SDK does not depend on it, and does not call this

    return user_data_path("switchgear")


class Settings(AccessSettings, ClientSettings):
    """All settings. ``topic_prefix`` in TOML is ``SWITCHGEAR_TOPIC_PREFIX`` in the environment."""

    topic_partitions: int = Field(default=12, ge=1, le=1000)
    topic_replication_factor: int = Field(default=1, ge=1, le=9)
    executions_retention_hours: int = Field(default=168, ge=1, le=87_600)
    dead_retention_hours: int = Field(default=720, ge=1, le=87_600)
    circuits_history_hours: int = Field(
        default=168, ge=0, le=87_600, description="How long every circuit record is kept before compaction."
    )

    clickhouse_url: str = Field(
        default="chdb:",
        repr=False,  # it may hold a password
        description="http(s)://user:password@host:port/database, or chdb: / chdb:/folder for the engine in the process.",
    )
    clickhouse_reader_url: str | None = Field(
        default=None,
        repr=False,
        description="clickhouse_url with a user who may only read: the SQL of readers runs under it.",
    )
    clickhouse_connect_timeout_s: float = Field(default=10, gt=0, le=600)
    clickhouse_cluster: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_.-]{1,100}$",
        description="A cluster of system.clusters: tables are made on all of it, replicated.",
    )
    retention_days: int = Field(default=30, ge=1, le=3650, description="How long rows of the raw tables are kept.")
    sink_batch_max_rows: int = Field(default=20_000, ge=1, le=1_000_000)
    sink_batch_max_age_s: float = Field(
        default=3.0,
        gt=0,
        le=60,
        description="A row waits at most this long for its batch, and 0.5 s while inserts take less than a twentieth of a core.",
    )

    policy_file: Path | None = Field(default=None, description="Breaker policies, TOML or YAML.")
    late_after_s: float = Field(
        default=300, gt=0, description="An event that arrives this long after it was recorded is stored, not counted."
    )
    worker_session_timeout_s: float = Field(
        default=10, ge=6, le=300, description="A dead worker's circuits move after this."
    )
    worker_http: str = Field(
        default="127.0.0.1:8621", description="host:port of the worker's /healthz and /metrics; port 0: any free one."
    )

    api_http: str = Field(default="127.0.0.1:8620", description="host:port the HTTP API listens on.")
    api_allowed_hosts: str | None = Field(
        default=None,
        description="Names, comma-separated (also *.example.com), by which the HTTP API may be asked, beside localhost and addresses. "
        "Unset: all where api_http is more than this machine, else none.",
    )
    api_streams_per_token: int = Field(
        default=10, ge=1, le=100_000, description="Consoles with live events at a time with one token; then 429."
    )
    gateway_http: str = Field(default="127.0.0.1:8622", description="host:port the gateway listens on.")
    gateway_allowed_hosts: str | None = Field(
        default=None, description="The same as api_allowed_hosts, for the gateway and gateway_http."
    )
    gateway_ack_s: float = Field(
        default=10, ge=0.1, le=60, description="Longest wait of a request for Kafka's acknowledgements; then 503."
    )
    gateway_streams_per_token: int = Field(
        default=1000, ge=1, le=100_000, description="Streams of circuits with one token; then 429."
    )
    gateway_any_names: bool = Field(
        default=False,
        description="true: the gateway takes every name of a tool or service. Else those of letters, digits, spaces and _ . : / @ -.",
    )
    gateway_otlp_grpc: str | None = Field(
        default=None, description="host:port where the gateway takes OTLP over gRPC, usually port 4317; unset: nowhere."
    )
    gateway_otlp_spans_topic: str | None = Field(
        default=None, description="Topic of a collector's Kafka exporter with traces, usually otlp_spans."
    )
    gateway_otlp_logs_topic: str | None = Field(default=None, description="The same with logs, usually otlp_logs.")
    api_url: str | None = Field(default=None, description="Where the command line finds the HTTP API.")
    api_cafile: Path | None = Field(
        default=None,
        description="PEM file of the CA certificates that commands trust for api_url; the system's where unset.",
    )
    sql_max_rows: int = Field(default=10_000, ge=1, le=1_000_000)
    sql_max_seconds: float = Field(default=10, gt=0, le=600)
    sql_unwalled: bool = Field(
        default=False,
        description="true: readers' SQL runs on the embedded engine also where the system cannot wall its process in.",
    )

    alerts_file: Path | None = Field(default=None, description="Receivers and routes of `switchgear alerts`, TOML.")
    alerts_state_dir: Path | None = Field(
        default=None, description="Folder of the alerts that could not be delivered; data_dir/alerts where unset."
    )
    alerts_http: str = Field(
        default="127.0.0.1:8624",
        description="host:port of the /healthz and /metrics of `switchgear alerts`; port 0: any free one.",
    )
    console_url: str | None = Field(default=None, description="Address of the console, for links in alerts.")
    console_servers: str | None = Field(
        default=None,
        description="Addresses of workers, gateways, sinks and alerts, http://host:port or name=http://host:port, comma-separated: the console "
        "says which one is not ready. A name begins with what it is: worker-1, gateway, sink, alerts.",
    )

    data_dir: Path = Field(default_factory=_user_data_path, description="What `switchgear up` keeps.")
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"

    @field_validator("worker_http", "api_http", "gateway_http", "gateway_otlp_grpc", "alerts_http")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is not None:
            _host_and_port(value)
        return value

    @field_validator("clickhouse_url")
    @classmethod
    def _store(cls, value: str) -> str:
        if not value.startswith(("chdb:", "http://", "https://")):
            raise ValueError("must start with http://, https:// or chdb:")
        return value

    @field_validator("console_url")
    @classmethod
    def _page(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value

    @field_validator("console_servers")
    @classmethod
    def _servers(cls, value: str | None) -> str | None:
        for name, url in map(_named_server, comma_separated(value)):
            if not url.startswith(("http://", "https://")) or not name:
                raise ValueError(
                    f"{url!r:.100} must start with http:// or https://, or with a name: name=http://host:port"
                )
        return value

    @field_validator("clickhouse_reader_url")
    @classmethod
    def _server(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value

    def topic_definitions(self) -> tuple[TopicDefinition, ...]:
        """Return every topic as these settings define it."""
        return topic_definitions(
            self.topics,
            partitions=self.topic_partitions,
            replication_factor=self.topic_replication_factor,
            executions_retention_hours=self.executions_retention_hours,
            dead_retention_hours=self.dead_retention_hours,
            circuits_history_hours=self.circuits_history_hours,
        )

    @property
    def servers(self) -> list[tuple[str, str]]:
        """The names and addresses of ``console_servers``, without a slash at the end. A server without a name has its address as its name."""
        return [_named_server(each) for each in comma_separated(self.console_servers)]

    @property
    def embedded(self) -> bool:
        """Whether the ClickHouse engine runs in the process. Then only one process can open the data."""
        return self.clickhouse_url.startswith("chdb:")


def _named_server(text: str) -> tuple[str, str]:
    """Return the name and the address of ``name=http://host:port`` or ``http://host:port``."""
    name, found, url = text.partition("=")
    if not found or "/" in name:
        name = url = text
    return name.strip().rstrip("/"), url.strip().rstrip("/")


_EMPTY_IS_UNSET: Final = {
    name
    for kind in (ClientSettings, AccessSettings)
    for name, field in kind.model_fields.items()
    if field.default in {None, False}
} | {
    "api_cafile",
    "console_servers",
    "gateway_otlp_grpc",
    "gateway_otlp_logs_topic",
    "gateway_otlp_spans_topic",
    "token",
}
"""Settings for which an empty value means unset, because templates write empty variables. An empty address is still an error."""


def load_settings(**overrides: Any) -> Settings:
    """Read the settings.

    Args:
        overrides: Command-line options, which override all other sources. None means not given.

    Raises:
        SettingsError: Settings are wrong or unknown. The message names each, its source, and the nearest known name.
    """
    return _load(Settings, {name: value for name, value in overrides.items() if value is not None})


def load_client_settings() -> ClientSettings:
    """Read the settings of a process that calls tools. The values of other settings in the file are not checked.

    Raises:
        SettingsError: See :func:`load_settings`.
    """
    return _load(ClientSettings, {})


def _load(kind: type[S], options: dict[str, Any]) -> S:
    known = Settings.model_fields
    given: dict[str, SourcedValue] = from_file() | from_environment(known)
    given |= {name: SourcedValue(value, f"the option {name}") for name, value in options.items()}
    given = {name: each for name, each in given.items() if not (each.value == "" and name in _EMPTY_IS_UNSET)}
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SettingsError(
            " ".join(f"Unknown setting {name}.{nearest(name, given[name].value, known)}" for name in unknown),
            hint=f"Correct {given[unknown[0]].source}.",
        )
    try:
        settings = kind(**{name: each.value for name, each in given.items() if name in kind.model_fields})
    except ValidationError as error:
        raise SettingsError(" ".join(_explain(dict(item), given) for item in error.errors())) from None
    _warn_of_unused(settings)
    return settings


def _explain(error: dict[str, Any], given: dict[str, SourcedValue]) -> str:
    name = str(error["loc"][0])
    source = given[name].source if name in given else f"the setting {name}"
    value = "" if "SecretStr" in str(Settings.model_fields[name].annotation) else f" {error['input']!r}"
    if name in {"clickhouse_url", "clickhouse_reader_url"}:
        value = re.sub(r"//[^/]*@", "//…@", value)
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"Wrong value{value} for {source}: {message}."


def _warn_of_unused(settings: ClientSettings) -> None:
    """Warn about credentials without the protocol that uses them, which was most likely forgotten."""
    if "kafka_security_protocol" in settings.model_fields_set:
        return
    unused = [
        name
        for name in ClientSettings.model_fields
        if name.startswith(("kafka_sasl_", "kafka_ssl_")) and name in settings.model_fields_set
    ]
    if unused:
        log.warning(
            "%s: not used, because kafka_security_protocol is not set. Set it to SASL_SSL, SSL or SASL_PLAINTEXT.",
            ", ".join(unused),
        )


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _host_and_port(value: str) -> None:
    host, _, port = value.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"must be host:port, got {value!r}")
