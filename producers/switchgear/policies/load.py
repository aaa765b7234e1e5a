"""Read a policy file, TOML or YAML, into plain dicts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from switchgear.policies.errors import PolicyError
from switchgear_schemas.files import read_file as read_regular_file

MAX_BYTES: Final = 1_000_000
"""A file with the most tables allowed and every key in each table is smaller."""


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a policy file.

    Args:
        path: A file named ``.toml``, ``.yaml`` or ``.yml``, in UTF-8, of at most :data:`MAX_BYTES`.

    Raises:
        PolicyError: The file is missing, too large or not valid, or it is YAML and PyYAML isn't installed.
    """
    if path.suffix not in {".toml", ".yaml", ".yml"}:
        raise PolicyError(f"{path} is neither .toml nor .yaml.", hint="Name the file after its format.")
    text = _text(path)
    try:
        content = tomllib.loads(text) if path.suffix == ".toml" else _yaml(path, text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"{path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise PolicyError(f"{path} is nested too deeply.", hint="A policy file has tables of values.") from None
    except (ValueError, ArithmeticError, AttributeError, LookupError, TypeError) as error:  # of a value unlike its type
        raise PolicyError(f"{path} has a number or a date that can't be read: {error}.") from None
    if not isinstance(content, dict | None):
        raise PolicyError(f"{path} holds a {type(content).__name__}.", hint="Give it the keys default and tools.")
    return content or {}


def _text(path: Path) -> str:
    try:
        content = read_regular_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise PolicyError(f"There is no policy file {path}.", hint="Check the path.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = error.strerror if isinstance(error, OSError) else error
        raise PolicyError(
            f"The policy file {path} can't be read: {why}.",
            hint="Name a file, and use globs for tools that share values.",
        ) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path} is not UTF-8: byte {error.start} can't be read.", hint="Save it as UTF-8.") from None


def _yaml(path: Path, text: str) -> Any:
    try:
        import yaml  # noqa: PLC0415 - PyYAML comes with the extra "service"
    except ModuleNotFoundError:
        raise PolicyError(
            f"{path} is YAML, and PyYAML is not installed.",
            hint="pip install 'switchgear[service]', or write it as TOML.",
        ) from None

    class Loader(yaml.SafeLoader):
        """Refuses a key that is given twice."""

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    raise yaml.composer.ComposerError(None, None, f"the key {key.value} is given twice", key.start_mark)
                seen.add(str(key.value))
            return node

    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        reason = " ".join(str(error).replace('"<unicode string>", ', "").split())
        raise PolicyError(f"{path} is not valid YAML: {reason}.") from None
