"""Rejection: why a call may not be made, as a value; CircuitOpenError, the same as an exception."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from switchgear_schemas.circuit import CircuitState
from switchgear_schemas.errors import SwitchgearError


@dataclass(frozen=True, slots=True)
class Rejection:
    """The answer "no". It is false, where a Permit is true. To raise it costs 22 times more than to return it (Polly v8)."""

    tool: str
    state: CircuitState
    source: Literal["local", "fleet"]
    """Whose circuit is open: this process's own, or the fleet's."""
    reason: str = ""
    """The rule that opened it, in words."""
    retry_after_s: float | None = None
    """Seconds until a call may be tried; None where nobody knows (forced open, or a probe is under way)."""
    last_error: str | None = None
    fallback: str | None = None
    """A tool to use instead."""
    generation: int | None = None

    def __bool__(self) -> bool:
        return False

    def text(self) -> str:
        """For the model: what is wrong, not to try again before when, and what to use instead."""
        words = [f"The tool {self.tool} is unavailable (circuit {self.state.replace('_', ' ')})."]
        if self.last_error:
            words.append(f"Its last error was: {self.last_error.rstrip('.')}.")
        if self.retry_after_s is None:
            words.append("Do not call it again now.")
        else:
            words.append(f"Do not call it again within the next {max(1, round(self.retry_after_s))} s.")
        if self.fallback:
            words.append(f"Use {self.fallback} instead.")
        return " ".join(words)

    def error(self) -> CircuitOpenError:
        """The same as an exception."""
        return CircuitOpenError(self)


class CircuitOpenError(SwitchgearError):
    """The call was not made. ``text`` is for the model; the attributes are the rejection's."""

    def __init__(self, rejection: Rejection) -> None:
        why = f" ({rejection.reason})" if rejection.reason else ""
        wait = "" if rejection.retry_after_s is None else f"; try again in {rejection.retry_after_s:.1f} s"
        super().__init__(
            f"The {rejection.source} circuit of {rejection.tool} is {rejection.state}{why}{wait}.",
            hint=f"Use {rejection.fallback} instead." if rejection.fallback else "",
        )
        self.rejection = rejection
        self.tool = rejection.tool
        self.state = rejection.state
        self.source = rejection.source
        self.reason = rejection.reason
        self.retry_after_s = rejection.retry_after_s
        self.last_error = rejection.last_error
        self.fallback = rejection.fallback
        self.text = rejection.text()

    def __reduce__(self) -> tuple[type[CircuitOpenError], tuple[Rejection]]:
        return type(self), (self.rejection,)
