"""How the calls of a scenario end: with a result, or as calls of real servers and libraries fail.

An outcome is ``success``, the class of an error, or an object with one of these and, in ``after_s``, how long the call took:

=============  ==========================================================================================
``class``      ``success``, or the class of an error
``status``     the status of an HTTP answer that a client raises, with ``headers``
``answer``     the text of an MCP result with ``isError``, with its ``meta`` and ``structured`` content
``cancelled``  true: the caller gave up
=============  ==========================================================================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, get_args

from switchgear import Permit
from switchgear_schemas.enums import ErrorClass

Outcome = str | dict[str, Any]
KEYS = {"class", "status", "headers", "answer", "meta", "structured", "cancelled", "after_s"}


class ScenarioError(Exception):
    """The failure of a call. Its message is its class."""


class HttpError(Exception):
    """What HTTP clients raise: it has a status and headers."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__(f"the server answered {status}")
        self.status_code, self.headers = status, headers


FAILURES = (ScenarioError, HttpError, asyncio.CancelledError)


def end(outcome: Outcome, pass_time: Callable[[float], None]) -> object:
    """Be a tool: return what its call returns, or raise what it raises, after the time that it takes.

    Args:
        outcome: How the call ends.
        pass_time: Lets some seconds pass.
    """
    given = {"class": outcome} if isinstance(outcome, str) else outcome
    assert set(given) <= KEYS, f"the adapter does not know {sorted(set(given) - KEYS)} of an outcome"
    if "after_s" in given:
        pass_time(given["after_s"])
    if "status" in given:
        raise HttpError(given["status"], given.get("headers", {}))
    if given.get("cancelled"):
        raise asyncio.CancelledError
    if "answer" in given:
        answer: dict[str, Any] = {"content": [{"type": "text", "text": given["answer"]}], "isError": True}
        return answer | {"_meta": given.get("meta"), "structuredContent": given.get("structured")}
    if given["class"] != "success":
        assert given["class"] in get_args(ErrorClass), f"the adapter does not know the outcome {given['class']}"
        raise ScenarioError(given["class"])
    return "found"


def report(permit: Permit, outcome: Outcome, pass_time: Callable[[float], None]) -> None:
    """End a call that was made with a permit."""
    try:
        result = end(outcome, pass_time)
    except FAILURES as error:
        permit.failure(error)
    else:
        assert result == "found", "a permit does not look at results; use `calls`"
        permit.success()


def class_of(error: BaseException) -> Any:
    """Return the class of a failure that names it; None leaves others to Switchgear."""
    return str(error) if isinstance(error, ScenarioError) else None
