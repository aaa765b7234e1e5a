"""Rejection: why a call may not be made, as a value; CircuitOpenError, the same as an exception."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from switchgear.one_line import MOST_NAME, one_line
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.words import CircuitState

MOST_OF_AN_ERROR: Final = 300
"""Characters of a tool's error that the model is shown: it is a stranger's text."""


class Rejection(msgspec.Struct, frozen=True):
    """The answer "no". It is false, where a Permit is true. To raise it costs 22 times more than to return it (Polly v8).

    A msgspec struct, not a dataclass: one is made at every refusal, and a frozen dataclass of eight fields takes ten times
    as long. ``msgspec.structs.replace`` changes a copy.
    """

    tool: str
    state: CircuitState
    source: Literal["local", "fleet", "session", "duplicate"]
    """Whose circuit is open, this process's own or the fleet's; or a limit of the session, or that the same call was made before."""
    reason: str = ""
    """The rule that opened it, in words."""
    retry_after_s: float | None = None
    """Seconds until a call may be tried; None where nobody knows (forced open, or a probe is under way)."""
    last_error: str | None = None
    fallback: str | None = None
    """A tool to use instead."""
    generation: int | None = None

    def __bool__(self) -> Literal[False]:
        return False

    def text(self) -> str:
        """For the model: what is wrong, not to try again before when, and what to use instead. On one line, and bounded."""
        tool = one_line(self.tool, MOST_NAME)
        if self.source == "session":
            return (
                f"The tool {tool} was not called: {self.reason}. Do not call any tool again in this session;"
                " finish with what you have."
            )
        if self.source == "duplicate":
            return (
                f"The tool {tool} was not called: {self.reason}. Do not repeat this call; use the result you have,"
                " change the parameters, or go on without it."
            )
        words = [f"The tool {tool} is unavailable (circuit {self.state.replace('_', ' ')})."]
        last_error = one_line(self.last_error or "", MOST_OF_AN_ERROR).rstrip(".: ")
        if last_error:
            words.append(f"Its last error was: {last_error}.")
        if self.retry_after_s is None:
            words.append("Do not call it again now.")
        else:
            wait = math.ceil(round(min(self.retry_after_s, 1e9), 3))  # never told too early
            words.append(f"Do not call it again within the next {max(1, wait)} s.")
        if self.fallback:
            words.append(f"Use {one_line(self.fallback, MOST_NAME)} instead.")
        return " ".join(words)

    def error(self) -> CircuitOpenError:
        """The same as an exception."""
        kind = _ERRORS.get(self.source, CircuitOpenError)
        return kind(self)


class CircuitOpenError(SwitchgearError):
    """The call was not made. ``text`` is for the model; the attributes are the rejection's.

    In a test of your own, ``CircuitOpenError("the search is down")`` says just that, of a local circuit of no tool.

    Nothing is put into words before somebody reads it: an agent in a loop is refused often, and most refusals are only
    caught.
    """

    rejection: Rejection
    tool: str
    state: CircuitState
    source: Literal["local", "fleet", "session", "duplicate"]
    reason: str
    retry_after_s: float | None
    last_error: str | None
    fallback: str | None
    text: str

    if TYPE_CHECKING:

        def __init__(self, rejection: Rejection | str = "") -> None: ...

    else:
        __init__ = Exception.__init__  # keeps its argument in ``args``: no frame of ours at a refusal

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        told = self.args[0] if self.args else ""
        if not isinstance(told, Rejection):
            return _of_words(str(told), name)
        rejection = told
        if name == "rejection":
            return rejection
        if name == "text":
            return rejection.text()
        if name == "message":
            why = f" ({rejection.reason})" if rejection.reason else ""
            wait = "" if rejection.retry_after_s is None else f"; try again in {rejection.retry_after_s:.1f} s"
            return f"{self._what(rejection)}{why}{wait}."
        if name == "hint":
            return f"Use {rejection.fallback} instead." if rejection.fallback else ""
        return getattr(rejection, name)

    @staticmethod
    def _what(rejection: Rejection) -> str:
        return f"The {rejection.source} circuit of {rejection.tool} is {rejection.state}"

    def __reduce__(self) -> tuple[type[CircuitOpenError], tuple[Any, ...]]:
        return type(self), self.args


class SessionExhaustedError(CircuitOpenError):
    """A limit of the session is reached: no tool is called in it any more. The end of an agent's loop."""

    @staticmethod
    def _what(rejection: Rejection) -> str:
        return f"The session takes no more calls, so {rejection.tool} was not called"


class DuplicateCallError(CircuitOpenError):
    """The same call was made again and again in this session, and the guard was told to refuse that."""

    @staticmethod
    def _what(rejection: Rejection) -> str:
        return f"The same call of {rejection.tool} was made again and again"


_ERRORS: Final[dict[str, type[CircuitOpenError]]] = {"session": SessionExhaustedError, "duplicate": DuplicateCallError}


def _of_words(words: str, name: str) -> Any:
    """The attribute ``name`` of an error that was made of ``words`` alone."""
    rejection = Rejection("", "open", "local", words)
    own = {"rejection": rejection, "text": words, "message": words or "The circuit is open.", "hint": ""}
    return own[name] if name in own else getattr(rejection, name)
