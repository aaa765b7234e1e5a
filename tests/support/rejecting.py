"""A tool that rejects what it doesn't know, and how its calls end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from switchgear import CallerErrorsError

CITIES = {"Oslo", "Bergen"}


def weather(city: Any) -> str:
    """Return the weather of a city."""
    if city not in CITIES:
        raise ValueError(f"no such city: {city}")
    return f"sunny in {city}"


def ends(tool: Callable[[Any], Any], *arguments: Any) -> list[Any]:
    """Return how the calls with these arguments ended: the result, ``refused``, or the name of the exception."""
    found = []
    for argument in arguments:
        try:
            found.append(tool(argument))
        except CallerErrorsError:
            found.append("refused")
        except Exception as error:  # noqa: BLE001 - however it ended
            found.append(type(error).__name__)
    return found


def refused_after_three(tool: Callable[[Any], Any]) -> bool:
    """Return whether the fourth of four calls with different bad arguments is refused, and no other."""
    return ends(tool, "a", "b", "c", "d") == ["ValueError"] * 3 + ["refused"]
