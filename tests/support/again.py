"""Running the tests of a module again with other fixtures."""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType
from typing import Any


def again(module: ModuleType, *, fixtures: Collection[str], without: Collection[str] = ()) -> dict[str, Any]:
    """Return the tests of ``module`` and the named fixtures, for the namespace of a test module with its own conftest.

    Args:
        module: Where the tests are.
        fixtures: Fixtures of that module which they need.
        without: Tests that are about the engine the module was written for.
    """
    missing = {name for name in (*fixtures, *without) if not hasattr(module, name)}
    assert not missing, f"{module.__name__} has no {missing}"
    chosen = [
        name for name in vars(module) if name.startswith("test_") and name not in without
    ]  # in the module's order
    return {name: getattr(module, name) for name in (*chosen, *fixtures)}
