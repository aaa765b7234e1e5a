"""Permits as ``with`` blocks."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from switchgear.guard.permits import Caller, Permit
from switchgear.guard.rejections import Rejection
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.guard.runtime import Runtime


class PermitContext:
    """``with gear.permit("tool") as permit:`` or ``async with``. Made by ``gear.permit``.

    If the block ends well, that is reported as a success; an exception is reported as a failure. You can report more within
    the block: the first report counts. Use one context for one call at a time.

    Raises:
        CircuitOpenError: On entering: the circuit or the session refuses the call.
        SwitchgearError: On entering a block that was entered and not left.
    """

    def __init__(self, runtime: Runtime, tool: str, caller: Caller) -> None:
        self._runtime = runtime
        self._tool = tool
        self._caller = caller
        self._permit: Permit | None = None

    def __enter__(self) -> Permit:
        self._check_free()
        return self._entered(self._runtime.decide(self._tool, self._caller))

    async def __aenter__(self) -> Permit:
        self._check_free()
        return self._entered(await self._runtime.adecide(self._tool, self._caller))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        permit, self._permit = self._permit, None
        if permit is None:  # it was never entered
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
                f"This permit for {self._tool} is in use: it is for one call at a time.",
                hint=f'Call gear.permit("{self._tool}") again for another one.',
            )

    def _entered(self, answer: Permit | Rejection) -> Permit:
        if isinstance(answer, Rejection):
            raise self._runtime.refused_permit(answer, self._caller).error()
        self._permit = answer
        return answer
