"""FromEnv: making a client from the settings, ``SWITCHGEAR_*`` variables and a TOML file, instead of from arguments."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Self

from switchgear_schemas.errors import SettingsError

if TYPE_CHECKING:
    from switchgear_schemas.settings import ClientSettings


class FromEnv:
    """What has a :meth:`from_env`. Its constructor takes the brokers as ``_servers`` and what ``_settings`` names by that name."""

    _servers: ClassVar[str] = "connection"
    _settings: ClassVar[tuple[str, ...]] = ()
    _may_be_local: ClassVar[bool] = False
    """Brokers may be None, for no Kafka."""

    @classmethod
    def from_env(cls, **arguments: Any) -> Self:
        """Make one from ``SWITCHGEAR_*`` variables and the TOML file that ``SWITCHGEAR_CONFIG`` names.

        docs/configuration.md lists the settings. With none it is ``localhost:9092``.

        Args:
            arguments: Of the constructor; they win over the settings. Brokers as text replace the addresses and keep the
                settings' security; a KafkaConnection replaces both.

        Raises:
            SettingsError: a setting is wrong or unknown; the message names it.
            SwitchgearError: an argument, the credentials or a certificate file can't be used; the message names it.
        """
        from switchgear_schemas.settings import load_client_settings  # noqa: PLC0415 - pydantic costs 70 ms

        settings = load_client_settings()
        given = {name: _value(settings, name) for name in cls._settings}
        found = {name: value for name, value in given.items() if value is not None} | arguments
        servers = arguments.get(cls._servers)
        if cls._servers not in arguments:
            found[cls._servers] = None if settings.local else settings.kafka
            if settings.local and not cls._may_be_local:
                raise SettingsError(
                    f"The setting local is true, which means no Kafka, and {cls.__name__} needs it.",
                    hint="Unset SWITCHGEAR_LOCAL.",
                )
        elif isinstance(servers, str):
            found[cls._servers] = settings.connection(servers)
        return cls(**found)


def _value(settings: ClientSettings, name: str) -> Any:
    if name == "service":
        return settings.service or os.environ.get("OTEL_SERVICE_NAME")
    if name == "parameters_key" and settings.parameters_key is not None:
        return settings.parameters_key.get_secret_value().encode()
    return getattr(settings, name)
