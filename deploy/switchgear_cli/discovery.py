"""Where a client command finds Kafka and the API: option, then SWITCHGEAR_*, then a running `up`, then the default."""

from __future__ import annotations

from typing import Any

from switchgear_cli.up_record import UpRecord
from switchgear_schemas.settings import Settings, load_settings


def client_settings(**overrides: Any) -> Settings:
    """Settings for a command that talks to a running system.

    ``kafka_bootstrap_servers``, ``api_url`` and ``topic_prefix`` that neither an option nor the environment nor the
    settings file gave are those of the `switchgear up` that runs on ``data_dir``, where one does. ``api_url`` is never
    None: its default is ``http://`` and the ``api_http`` setting.

    Args:
        overrides: Command-line options by setting name; None means not given.

    Raises:
        SettingsError: A setting is wrong.
    """
    settings = load_settings(**overrides)
    given = settings.model_fields_set
    found: dict[str, Any] = {}
    record = UpRecord.running(settings.data_dir)
    if record is not None:
        found = {"kafka_bootstrap_servers": record.kafka_bootstrap_servers, "topic_prefix": record.topic_prefix}
        if "api_http" not in given:
            found["api_url"] = record.api_url
    update = {name: value for name, value in found.items() if name not in given}
    if settings.api_url is None and "api_url" not in update:
        update["api_url"] = _url(settings.api_http)
    return settings.model_copy(update=update)


def _url(address: str) -> str:
    """The URL at which this machine reaches a listener; one on every address is reached at the loopback."""
    host, _, port = address.rpartition(":")
    return f"http://{'127.0.0.1' if host in {'0.0.0.0', '::', '[::]'} else host}:{port}"  # noqa: S104 - compared, not bound
