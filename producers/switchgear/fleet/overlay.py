"""Overlay: values that an operator set, laid over the policy file's. What was not named stays the file's."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from switchgear.policies import PolicyError, PolicySet
from switchgear_schemas import BreakerPolicy

log: Final = logging.getLogger("switchgear.fleet")
SOURCE: Final = "the command"


def given(policy: BreakerPolicy) -> dict[str, Any]:
    """The values that a command names, as JSON has them; those it leaves out are not in."""
    values: dict[str, Any] = policy.model_dump(mode="json", exclude_unset=True)
    return values


def merged(before: bytes | None, values: Mapping[str, Any]) -> bytes | None:
    """Values set before with the newer ones over them; null where ``values`` is empty: nothing is set any more."""
    if not values:
        return None
    known: dict[str, Any] = {} if before is None else json.loads(before)
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(known.get(key), dict)
        known[key] = {**known[key], **value} if both else value
    return json.dumps(known, sort_keys=True).encode()


def laid_over(base: BreakerPolicy, layers: Sequence[bytes]) -> BreakerPolicy:
    """``base`` with each layer (JSON) over it, the last one on top.

    Raises:
        PolicyError: together they are impossible.
    """
    return _laid_over(base, tuple(layers)) if layers else base


@lru_cache(maxsize=1024)
def _laid_over(base: BreakerPolicy, layers: tuple[bytes, ...]) -> BreakerPolicy:
    for layer in layers:
        base = PolicySet(json.loads(layer), base=base, source=SOURCE).effective("")
    return base


@lru_cache(maxsize=1024)
def tolerant(base: BreakerPolicy, layers: tuple[bytes, ...]) -> BreakerPolicy:
    """:func:`laid_over` for values that were possible when they were set, and are not over a policy file that changed since.

    Then the file's hold: an owner that refused to go on would leave its circuits to nobody. Said once, as an error.
    """
    try:
        return laid_over(base, layers)
    except Exception as error:  # noqa: BLE001 - a row of an older version may hold what nothing of ours foresees
        reason = error if isinstance(error, PolicyError) else repr(error)
        log.error("values set by command are passed over, the policy file's hold: %s", reason)  # noqa: TRY400 - no trace helps
        return base
