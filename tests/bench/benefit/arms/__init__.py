"""The contenders, one file each. A new file with an ``ARM`` is in every table."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from tests.bench.benefit.arms.arm import Arm


@cache
def arms() -> dict[str, Arm]:
    """Return the contenders by name, in the order of the tables."""
    modules = [importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)]
    found: list[Arm] = [module.ARM for module in modules if hasattr(module, "ARM")]
    return {arm.name: arm for arm in sorted(found, key=lambda arm: arm.place)}
