"""Parse YAML safely, and refuse a key that is given twice. The only module that imports PyYAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from switchgear.policies.errors import PolicyError


def load_yaml(path: Path, text: str) -> Any:
    """Return the one document in ``text``, or None if it is empty.

    Args:
        path: The file that ``text`` is from, for messages.
        text: YAML.

    Raises:
        PolicyError: The text is not YAML, or a mapping has a key twice.
        ValueError: A value doesn't fit its tag.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        reason = " ".join(str(error).replace('"<unicode string>", ', "").split())
        raise PolicyError(f"{path} is not valid YAML: {reason}.") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:  # PyYAML's, for a value unlike its tag
        raise ValueError(error) from None


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.composer.ComposerError(None, None, f"the key {key.value} is given twice", key.start_mark)
                seen.add((key.tag, key.value))
        return node
