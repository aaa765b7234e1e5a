"""Classification: what kind of failure an exception or a result is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from switchgear_schemas.words import ErrorClass


@dataclass(frozen=True, slots=True)
class Classification:
    """``retry_after_s``: the wait in seconds that a rate-limited or overloaded tool asked for."""

    error_class: ErrorClass
    retry_after_s: float | None = None


IGNORE: Final = Classification("policy")
"""The call says nothing of the tool's health: it counts neither as a success nor as a failure.

For a rule (``classify``, ``classify_result``) to return; ``permit.ignore()`` says the same of one call. It is the class
``policy``, by which workers and readers of every version leave a call out.
"""


Classifier = Callable[[BaseException], "Classification | ErrorClass | None"]
"""A user's own rule; None leaves the exception to :func:`switchgear.classify.classify`."""


def attribute(owner: object, name: str) -> Any:
    """``owner.name``, None where there is none or reading it fails: a property of a foreign exception may do anything."""
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001 - it tells nothing then, and the call must not fail of it
        return None


def family(error: BaseException) -> frozenset[str]:
    """Top-level modules that the exception's type and its bases come from."""
    kind: Any = type(error)  # which is hashable, whatever mypy makes of it
    return _family(kind)


@lru_cache(maxsize=256)  # a tool fails with few types, again and again
def _family(kind: type[BaseException]) -> frozenset[str]:
    return frozenset(base.__module__.partition(".")[0] for base in kind.__mro__)
