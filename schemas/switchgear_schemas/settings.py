"""Settings: ``SWITCHGEAR_*`` environment variables over a TOML file over the defaults."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_data_path
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.topics import TopicDefinition, TopicNames, topic_definitions

PREFIX = "SWITCHGEAR_"
CONFIG_VARIABLE = f"{PREFIX}CONFIG"


class Settings(BaseSettings):
    """Everything that can be set. Environment ``SWITCHGEAR_TOPIC_PREFIX``, TOML ``topic_prefix``."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True, validate_default=True)

    kafka_bootstrap_servers: str = Field(default="localhost:9092", description="Brokers, host:port, comma-separated.")
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    kafka_sasl_username: str | None = None
    kafka_sasl_password: SecretStr | None = None
    kafka_ssl_cafile: Path | None = Field(
        default=None, description="CA certificates to trust; the system's where unset."
    )

    topic_prefix: str = Field(
        default="switchgear.", pattern=r"^[A-Za-z0-9._-]{0,100}$", description="Before every topic and group name."
    )
    topic_partitions: int = Field(default=12, ge=1, le=1000)
    topic_replication_factor: int = Field(default=1, ge=1, le=9)
    executions_retention_hours: int = Field(default=168, ge=1, le=87_600)
    dead_retention_hours: int = Field(default=720, ge=1, le=87_600)
    circuits_history_hours: int = Field(
        default=168, ge=0, le=87_600, description="How long every circuit record is kept before compaction."
    )

    clickhouse_url: str = Field(
        default="chdb:",
        description="http(s)://user:password@host:port/database, or chdb: / chdb:/folder for the engine in the process.",
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
        default=0.5, gt=0, le=60, description="A row waits at most this long for its batch."
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
    api_url: str | None = Field(default=None, description="Where the command line finds the HTTP API.")
    sql_max_rows: int = Field(default=10_000, ge=1, le=1_000_000)
    sql_max_seconds: float = Field(default=10, gt=0, le=600)

    data_dir: Path = Field(
        default_factory=lambda: user_data_path("switchgear"), description="What `switchgear up` keeps."
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"

    @field_validator("kafka_bootstrap_servers")
    @classmethod
    def _brokers(cls, value: str) -> str:
        for broker in value.split(","):
            _host_and_port(broker.strip())
        return value

    @field_validator("worker_http", "api_http")
    @classmethod
    def _address(cls, value: str) -> str:
        _host_and_port(value)
        return value

    @field_validator("clickhouse_url")
    @classmethod
    def _store(cls, value: str) -> str:
        if not value.startswith(("chdb:", "http://", "https://")):
            raise ValueError("must start with http://, https:// or chdb:")
        return value

    @property
    def topics(self) -> TopicNames:
        """Names of the topics and groups."""
        return TopicNames(prefix=self.topic_prefix)

    def topic_definitions(self) -> tuple[TopicDefinition, ...]:
        """Every topic as these settings want it."""
        return topic_definitions(
            self.topics,
            partitions=self.topic_partitions,
            replication_factor=self.topic_replication_factor,
            executions_retention_hours=self.executions_retention_hours,
            dead_retention_hours=self.dead_retention_hours,
            circuits_history_hours=self.circuits_history_hours,
        )

    @property
    def kafka(self) -> KafkaConnection:
        """How to reach the brokers."""
        password = self.kafka_sasl_password
        return KafkaConnection(
            bootstrap_servers=self.kafka_bootstrap_servers,
            security_protocol=self.kafka_security_protocol,
            sasl_mechanism=self.kafka_sasl_mechanism,
            sasl_username=self.kafka_sasl_username,
            sasl_password=None if password is None else password.get_secret_value(),
            ssl_cafile=None if self.kafka_ssl_cafile is None else str(self.kafka_ssl_cafile),
        )

    @property
    def embedded(self) -> bool:
        """The ClickHouse engine runs in the process (one process owns the data)."""
        return self.clickhouse_url.startswith("chdb:")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments over environment over file."""
        del dotenv_settings, file_secret_settings
        file = os.environ.get(CONFIG_VARIABLE)
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        return (*sources, TomlConfigSettingsSource(settings_cls, Path(file))) if file else sources


def _host_and_port(value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise ValueError(f"must be host:port, got {value!r}")
    return host, int(port)


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; ``overrides`` (command-line options; None means not given) win.

    Raises:
        SettingsError: naming each wrong setting, where it came from, and the nearest known name of an unknown one.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    file = os.environ.get(CONFIG_VARIABLE)
    if file and not Path(file).is_file():
        raise SettingsError(
            f"{CONFIG_VARIABLE} names {file}, which is not a file.", hint="Correct the path or unset it."
        )
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsError(" ".join(_explain(dict(item), given) for item in error.errors())) from None
    except ValueError as error:  # tomllib.TOMLDecodeError is one
        raise SettingsError(f"The settings file {file} is not valid TOML: {error}.") from None


def _explain(error: dict[str, Any], given: dict[str, Any]) -> str:
    name = str(error["loc"][0]) if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, Settings.model_fields, n=1)
        return f"Unknown setting {name}." + (f" Did you mean {near[0]}?" if near else "")
    variable = f"{PREFIX}{name.upper()}"
    source = f"the option {name}" if name in given else variable if variable in os.environ else f"the setting {name}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"Wrong value {error['input']!r} for {source}: {message}."
