"""Say which part of the system does not work, as the API answers it: the first lines of what shows circuits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.text import Text

from switchgear_cli.reads.formats import moment, plain

_STYLES: Final = {"bad": "bold red"}


def lines(problems: Iterable[Mapping[str, Any]], now: str | None = None) -> list[Text]:
    """Return a line for each problem of ``GET /v1/circuits``, the worst first.

    Args:
        problems: As the API answers them.
        now: The present time, RFC 3339.
    """
    return [Text(sentence(each, now), style=_STYLES.get(each["level"], "yellow")) for each in problems]


def sentence(problem: Mapping[str, Any], now: str | None = None) -> str:
    """Return ``No worker runs, since 05:12:00Z. Circuits have not changed since then. … Start one: …``."""
    what = plain(problem["what"])
    if problem.get("since"):
        what = f"{what.removesuffix('.')}, since {moment(problem['since'], now).absolute}."
    return " ".join(filter(None, (what, plain(problem["means"]), plain(problem["todo"]))))
