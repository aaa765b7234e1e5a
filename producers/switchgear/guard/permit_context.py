"""PermitContext: a permit as a block."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from switchgear.guard.permits import Caller, Permit
from switchgear.guard.rejections import Rejection
from switchgear.guard.tool_name import check_tool
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.guard.rejections import Rejection
    from switchgear.guard.runtime import Runtime


class PermitContext:
    """``with gear.permit("tool") as permit:`` — a clean end is a success, an exception a failure; ``async with`` likewise.

    Report by hand within the block where more is known: the first report counts. One passage is for one call
    at a time.

    Raises:
        OptionError: when made, for a tool without a name.
        CircuitOpenError: on entering, when the circuit or the session refuses.
        SwitchgearError: on entering one that was entered and not left.
    """

    def __init__(self, runtime: Runtime, tool: str, caller: Caller) -> None:
        check_tool(tool)
        self._runtime = runtime
        self._tool = tool
        self._caller = caller
        self._permit: Permit | None = None

    def __enter__(self) -> Permit:
        self._check_free()
        return self._entered(self._runtime.decide(self._tool, *self._caller))

    async def __aenter__(self) -> Permit:
        self._check_free()
        return self._entered(await self._runtime.adecide(self._tool, *self._caller))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        permit, self._permit = self._permit, None
        if permit is None:  # it was never entered: there is no call to tell of
            return
        if error is None:
            permit.success()
        else:
            permit.failure(error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _check_free(self) -> None:
        if self._permit is not None:
            raise SwitchgearError(
                f"This passage to {self._tool} is taken: it is for one call at a time.", hint="Ask for another one."
            )

    def _entered(self, answer: Permit | Rejection) -> Permit:
        if isinstance(answer, Rejection):
            answer = advised(self._runtime, answer)
            self._runtime.refused(answer, caller=self._caller)
            raise answer.error()
        self._permit = answer
        return answer


def advised(runtime: Runtime, refusal: Rejection) -> Rejection:
    """``refusal`` with the first of the tool's fallbacks that would not be refused too; as it is where there is none.

    A guard calls that one itself; who asks for a permit has to be told.
    """
    if refusal.source not in {"local", "fleet"}:
        return refusal
    chain = runtime.chain(refusal.tool, ())
    named = next((tool for tool in chain if not runtime.is_open(tool)), None)
    return refusal if named is None or named == refusal.fallback else msgspec.structs.replace(refusal, fallback=named)
