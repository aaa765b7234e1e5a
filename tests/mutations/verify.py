"""Check that the mutations can be made in a checkout. It takes less than a second, so a unit test does it too."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.mutations.catalogue import CatalogueError, Mutation


def problems(mutations: Iterable[Mutation], checkout: Path) -> list[str]:
    """Return all that is wrong with the mutations, in sentences."""
    mutations = list(mutations)
    found = [f"The id {name} is there {count} times." for name, count in _counted(mutations).items() if count > 1]
    found += [
        f"{each.id} must begin with {each.area}-." for each in mutations if not each.id.startswith(f"{each.area}-")
    ]
    found += [f"{each.id}: it has no harm." for each in mutations if not each.harm.strip()]
    found += impossible(mutations, checkout)
    found += [f"{each.id}: there is no {path}." for each in mutations for path in missing(each, checkout)]
    return found + [f"{each.id}: it has no test near it." for each in mutations if not each.near]


def impossible(mutations: Iterable[Mutation], checkout: Path) -> list[str]:
    """Return why mutations can't be made in this checkout: a text is missing there, or the result is not Python."""
    sources: dict[str, str | None] = {}
    found = []
    for each in mutations:
        if each.file not in sources:
            path = checkout / each.file
            sources[each.file] = path.read_text(encoding="utf-8") if path.is_file() else None
        source = sources[each.file]
        if source is None:
            found.append(f"{each.id}: there is no {each.file}.")
            continue
        try:
            mutated = each.mutated(source)
            ast.parse(mutated)
        except CatalogueError as error:
            found.append(str(error))
        except SyntaxError as error:
            found.append(f"{each.id}: the result is not Python: {error.msg} in line {error.lineno}.")
        else:
            if mutated == source:
                found.append(f"{each.id}: it changes nothing.")
    return found


def missing(mutation: Mutation, checkout: Path) -> list[str]:
    """Return the tests near a mutation that this checkout doesn't have."""
    return [path for path in mutation.near if not (checkout / path).exists()]


def _counted(mutations: Iterable[Mutation]) -> Counter[str]:
    return Counter(each.id for each in mutations)
