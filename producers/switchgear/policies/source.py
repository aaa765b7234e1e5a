"""Reading a policy file: TOML or YAML into plain dicts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from switchgear.policies.errors import PolicyError


def read_file(path: Path) -> dict[str, Any]:
    """The file's content.

    Args:
        path: ``.toml``, ``.yaml`` or ``.yml``.

    Raises:
        PolicyError: it is missing, of another kind, not to be parsed, or YAML without PyYAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PolicyError(f"There is no policy file {path}.", hint="Check the path.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"The policy file {path} can't be read: {error}.") from None
    if path.suffix == ".toml":
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PolicyError(f"{path} is not valid TOML: {error}.") from None
    if path.suffix in {".yaml", ".yml"}:
        return _yaml(path, text)
    raise PolicyError(f"{path} is neither .toml nor .yaml.", hint="Name the file for what it is.")


def _yaml(path: Path, text: str) -> dict[str, Any]:
    try:
        import yaml  # noqa: PLC0415 - comes with the extra "service"; TOML needs nothing
    except ModuleNotFoundError:
        raise PolicyError(
            f"{path} is YAML, and PyYAML is not installed.",
            hint="pip install 'switchgear[service]', or write it as TOML.",
        ) from None
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PolicyError(f"{path} is not valid YAML: {' '.join(str(error).split())}.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise PolicyError(f"{path} holds a {type(content).__name__}.", hint="It wants the keys default and tools.")
    return content
