"""YAML as JSON would have it: PyYAML's safe loader, without keys that are given twice and without aliases that explode."""

from __future__ import annotations

from typing import Any, Final

import yaml

MOST_NODES: Final = 100_000
"""Keys, values and lists of a file; what an alias repeats counts again. Within itself an anchor would repeat without an end."""


class InvalidYamlError(Exception):
    """The text is not YAML; the message is one line."""


def load_yaml(text: str) -> Any:
    """The one document of ``text``; None where it is empty.

    Raises:
        InvalidYamlError: it is not YAML, has a key twice, or more than :data:`MOST_NODES` with what aliases repeat.
        ValueError: a number or a date is unlike its tag.
        RecursionError: it is nested too deeply.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise InvalidYamlError(" ".join(str(error).replace('"<unicode string>", ', "").split())) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError):  # PyYAML's, for a value that is unlike its tag
        raise ValueError from None


class _Loader(yaml.SafeLoader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._nodes = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        began = self._nodes
        if isinstance(event, yaml.AliasEvent):
            within_itself = event.anchor in self.anchors and event.anchor not in self._sizes
            self._count(event, MOST_NODES if within_itself else self._sizes.get(str(event.anchor), 1))
            return super().compose_node(parent, index)
        self._count(event, 1)
        node = super().compose_node(parent, index)
        if event.anchor is not None:
            self._sizes[event.anchor] = self._nodes - began
        return node

    def _count(self, event: Any, more: int) -> None:
        self._nodes += more
        if self._nodes > MOST_NODES:
            raise yaml.composer.ComposerError(None, None, f"it has more than {MOST_NODES:,} values", event.start_mark)

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.composer.ComposerError(None, None, f"the key {key.value} is given twice", key.start_mark)
                seen.add((key.tag, key.value))
        return node
