"""The time limits of calls, and the errors of calls that can't be made or ended within them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from switchgear.redaction import MOST_NAME, one_line
from switchgear_schemas.errors import SwitchgearError


class _ToolCallError(SwitchgearError):
    """An error with one text for the model: ``text``, ``str(error)`` and ``args[0]``.

    ``message`` and ``hint`` are for operators and logs.
    """

    def __init__(self, tool: str, text: str, message: str, *, hint: str = "") -> None:
        super().__init__(text, hint=hint)
        self.message = message
        self.tool = tool

    @property
    def text(self) -> str:
        """What to show to the model."""
        return str(self.args[0])

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return _copied, (type(self), self.args), self.__dict__  # which holds notes


def _copied(kind: type[_ToolCallError], args: tuple[Any, ...]) -> _ToolCallError:
    error = kind.__new__(kind)
    error.args = args
    return error


class CallTimeoutError(_ToolCallError, TimeoutError):
    """The call took longer than the guard's ``timeout``.

    ``text``, ``str(error)`` and ``args[0]`` are one text, for the model. ``message`` is for operators and logs. ``tool`` and
    ``limit_s`` say which tool exceeded which limit.
    """

    def __init__(self, tool: str, limit_s: float) -> None:
        late = f"did not answer within {limit_s:g} s."
        super().__init__(
            tool,
            f"The tool {one_line(tool, MOST_NAME)} {late} Do not repeat the call at once: it may still take effect.",
            f"{tool} {late}",
        )
        self.limit_s = limit_s


class ThreadsBusyError(_ToolCallError):
    """No thread was free for a call with a time limit, so it was not made. It counts against no circuit.

    ``text``, ``str(error)`` and ``args[0]`` are one text, for the model. ``message`` and ``hint`` are for operators: they name
    the tools that hold the threads and say what to do. A traceback shows them as a note.
    """

    def __init__(self, tool: str, why: str = "no thread was free for it", *, hint: str = "") -> None:
        super().__init__(
            tool,
            f"The tool {one_line(tool, MOST_NAME)} was not called: too many calls are under way."
            " Do not call it again now; go on without it, or try later.",
            f"{tool} was not called: {why}.",
            hint=hint,
        )
        self.add_note(f"{self.message} {hint}".strip())


def in_task() -> bool:
    """Return whether an asyncio task runs. In other event loops, in callbacks, and in coroutines driven by hand, none does."""
    import asyncio  # noqa: PLC0415 - costs 40 ms that an import of switchgear must not

    try:
        return asyncio.current_task() is not None
    except RuntimeError:  # no event loop runs
        return False


async def within(tool: str, limit_s: float, coming: Awaitable[Any]) -> Any:
    """Await ``coming`` for at most ``limit_s`` seconds, then cancel it.

    Raises:
        CallTimeoutError: It did not end in time, whatever it made of its cancellation.
    """
    import asyncio  # noqa: PLC0415 - as above

    scope = asyncio.timeout(limit_s)
    try:
        async with scope:
            result = await coming
    except Exception as error:
        if scope.expired():
            raise CallTimeoutError(tool, limit_s) from error
        raise
    if scope.expired():
        raise CallTimeoutError(tool, limit_s)
    return result
