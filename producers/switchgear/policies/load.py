"""Read a policy file, TOML or YAML, into plain dicts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from switchgear.policies.errors import PolicyError


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a policy file.

    Args:
        path: A file named ``.toml``, ``.yaml`` or ``.yml``, in UTF-8.

    Raises:
        PolicyError: The file is missing or not valid, or it is YAML and PyYAML isn't installed.
    """
    if path.suffix not in {".toml", ".yaml", ".yml"}:
        raise PolicyError(f"{path} is neither .toml nor .yaml.", hint="Name the file after its format.")
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise PolicyError(f"There is no policy file {path}.", hint="Check the path.") from None
    except (OSError, ValueError) as error:  # ValueError: it isn't UTF-8
        raise PolicyError(f"The policy file {path} can't be read: {error}.", hint="Save it as UTF-8.") from None
    try:
        content = tomllib.loads(text) if path.suffix == ".toml" else _yaml(path, text)
    except PolicyError:
        raise
    except Exception as error:  # noqa: BLE001 - PyYAML raises many types for a date or number that can't be read
        reason = " ".join(str(error).replace('"<unicode string>", ', "").split())
        raise PolicyError(f"{path} is not valid {path.suffix[1:].upper()}: {reason}.") from None
    if not isinstance(content, dict | None):
        raise PolicyError(f"{path} holds a {type(content).__name__}.", hint="Give it the keys default and tools.")
    return content or {}


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

    return yaml.load(text, Loader=Loader)  # noqa: S506 - a safe loader
