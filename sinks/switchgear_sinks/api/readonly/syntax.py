"""ClickHouse's own syntax tree of a query, read from ``EXPLAIN AST``: what the engine's parser saw, not what we guess."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_LINE: Final = re.compile(r"^(?P<indent> *)(?P<kind>[A-Za-z_]+)(?P<rest>.*)$")
_CHILDREN: Final = re.compile(r" \(children (\d+)\)$")
_ALIAS: Final = re.compile(r" \(alias .*\)$")


class UnreadableTreeError(ValueError):
    """The text is not a complete syntax tree; nothing may be concluded from it."""


@dataclass(slots=True)
class Node:
    """A node of the tree: ``Function file``, ``TableIdentifier system.users``, ``Set`` and so on."""

    kind: str
    name: str
    declared: int
    children: list[Node] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def parse_tree(text: str) -> Node:
    """Read the output of ``EXPLAIN AST``.

    Every line is one node, indented by its depth; ``(children n)`` is checked, so a cut or forged tree is an error.

    Raises:
        UnreadableTreeError: for any other text.
    """
    if not text.endswith("\n"):
        raise UnreadableTreeError("the last line is cut")
    path: list[Node] = []
    root: Node | None = None
    for line in text.splitlines():
        if not line.strip():
            continue
        matched = _LINE.match(line)
        if matched is None:
            raise UnreadableTreeError(f"not a node: {line!r}")
        depth = len(matched["indent"])
        node = _node(matched["kind"], matched["rest"])
        if root is None and depth == 0:
            root = node
        elif 0 < depth <= len(path):
            path[depth - 1].children.append(node)
        else:
            raise UnreadableTreeError(f"a node out of place: {line!r}")
        del path[depth:]
        path.append(node)
    if root is None:
        raise UnreadableTreeError("an empty tree")
    for node in root.walk():
        if node.declared != len(node.children):
            raise UnreadableTreeError(f"{node.kind} has {len(node.children)} children, not {node.declared}")
    return root


def _node(kind: str, rest: str) -> Node:
    children = _CHILDREN.search(rest)
    if children is not None:
        rest = rest[: children.start()]
    alias = _ALIAS.search(rest)
    if alias is not None:
        rest = rest[: alias.start()]
    return Node(kind=kind, name=rest.strip(), declared=int(children.group(1)) if children else 0)
