"""Call: one call on its way: refused, served from elsewhere, or made and reported. It waits for nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from switchgear.answer import Answer
from switchgear.breaker.group import candidates
from switchgear.classify import Classification
from switchgear.guard.gate import Asking
from switchgear.guard.permit import Permit
from switchgear.guard.rejection import Rejection
from switchgear.guard.result_failure import text_in
from switchgear.session_context import session_var
from switchgear.usage import NOTHING, Usage

if TYPE_CHECKING:
    from switchgear.guard.plan import Plan
    from switchgear.guard.tool_function import Kind, ToolFunction

Steps = Generator[Asking, Permit | Rejection, None]
"""Gives what has to be waited for, takes the answer."""

_PLAIN: frozenset[Kind] = frozenset({"function"})
_MAY_STAND_IN: dict[Kind, frozenset[Kind]] = {
    "function": _PLAIN,
    "coroutine": frozenset({"function", "coroutine"}),
    "generator": frozenset({"generator"}),
    "async_generator": frozenset({"async_generator"}),
}
"""By the kind of what is called: what its caller can call instead."""


class Call:
    """The state of one call, moved on by its driver.

    First :meth:`first`, then :meth:`otherwise` where that was no permit. After that ``function`` is to be called with
    ``args`` and ``kwargs``, unless ``done``; with a ``permit`` its end is reported by :meth:`succeeded` or :meth:`failed`.

    Raises:
        CircuitOpenError: from both, where nothing serves the caller.
    """

    __slots__ = (
        "_count", "acting", "age_s", "args", "done", "function", "key", "kind", "kwargs", "permit", "plan", "served_by", "stale",
        "tool", "value",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        kind: Kind,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        key: str | None,
    ) -> None:
        self.plan = plan
        self.acting = plan
        """Whose time limit, usage and classification hold: a fallback tool has its own."""
        self.kind = kind
        self.tool = plan.tool
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.key = key
        self.permit: Permit | None = None
        self.done = False
        self.value: Any = None
        self.served_by: Literal["call", "fallback", "cache"] = "call"
        self.stale = False
        self.age_s = 0.0
        self._count = 0

    # -- before the call ----------------------------------------------------------------------------------------------

    def first(self) -> Permit | Rejection | Asking | None:
        """Ask for the tool itself. None: served from the cache already."""
        plan = self.plan
        if self.key is not None:
            session = session_var.get()
            session_id = "" if session is None else session.session_id
            self._count = plan.noted(session_id, self.key)
            if plan.options.on_duplicate == "refuse" and self._count >= plan.options.duplicate_after:
                return Rejection(self.tool, "open", "duplicate", f"the same call was made {self._count} times")
            if self._from_cache(refused=False):
                return None
        answer = plan.runtime.ask(self.tool)
        if isinstance(answer, Permit):
            self._permitted(answer)
        return answer

    def otherwise(self, answer: Permit | Rejection | Asking) -> Steps:
        """After a refusal: another tool, a function, what is in the cache, or the refusal as an error."""
        if isinstance(answer, Asking):
            answer = yield answer
        if isinstance(answer, Permit):
            self._permitted(answer)
            return
        refusal, plan = answer, self.plan
        if refusal.source in {"local", "fleet"}:
            fallback = plan.options.fallback
            if callable(fallback):
                self._instead(fallback, refusal)
                return
            chain = plan.runtime.chain(self.tool, plan.options.chain)
            if chain:
                named = yield from self._chained(chain, refusal)
                if self.permit is not None:
                    return
                refusal = refusal if named is None else msgspec.structs.replace(refusal, fallback=named)
        if self._from_cache(refused=True):
            plan.runtime.refused(refusal, served_by="cache")
            return
        plan.runtime.refused(refusal)
        raise refusal.error()

    def _chained(self, chain: tuple[str, ...], refusal: Rejection) -> Generator[Asking, Permit | Rejection, str | None]:
        """The first tool of ``chain`` that takes the call. Without one: the name of a closed one that is not guarded here."""
        runtime = self.plan.runtime
        named = None
        kept = candidates((self.tool, *chain), lambda name: name == self.tool or runtime.is_open(name))
        for name in kept:
            if name == self.tool:  # every circuit is open: never eject everything
                if refusal.state != "forced_open":
                    self._permitted(runtime.unguarded(name))
                return None
            guard = runtime.guards.get(name)
            if guard is None:
                named = named or name
                continue
            target, acting = guard
            arguments = self._arguments_for(name, target)
            if arguments is None:
                continue
            answer = runtime.ask(name)
            if isinstance(answer, Asking):
                answer = yield answer
            if isinstance(answer, Permit):
                self.tool, self.function, self.served_by, self.acting = name, target.call, "fallback", acting
                self.args, self.kwargs = arguments
                self._permitted(answer)
                runtime.refused(refusal, served_by="fallback", fallback_tool=name)
                return None
        return named

    def _arguments_for(self, name: str, target: ToolFunction) -> tuple[tuple[Any, ...], Mapping[str, Any]] | None:
        """What to call ``target`` with; None where it can't stand in for this call."""
        plan = self.plan
        if target.kind not in _MAY_STAND_IN[self.kind] or (target.receiver and not plan.receiver):
            plan.runtime.complaints.warning(
                f"{name} can't stand in for {self.tool}: a {target.kind}{' with a self' if target.receiver else ''}"
                f" in place of a {self.kind}"
            )
            return None
        receiver = self.args[:1] if plan.receiver else ()
        found = plan.adapted(name, self.args[len(receiver) :], self.kwargs)
        if found is None:
            return None
        args, kwargs = found
        return ((*receiver, *args) if target.receiver else args), kwargs

    def _instead(self, fallback: Callable[..., Any], refusal: Rejection) -> None:
        """The user's own function: no circuit is asked."""
        from switchgear.guard.tool_function import examine  # noqa: PLC0415 - refusals alone need it

        found = examine(fallback)
        if self.plan.receiver and not found.receiver:
            self.args = self.args[1:]
        self.function, self.tool, self.served_by = fallback, found.name, "fallback"
        self.plan.runtime.refused(refusal, served_by="fallback", fallback_tool=found.name)

    def _permitted(self, permit: Permit) -> None:
        self.permit = permit
        if self.plan.runtime.sends_hash:
            permit.parameters_hash = self.key

    def _from_cache(self, *, refused: bool) -> bool:
        found = self.plan.cached(self.key, refused=refused)
        if found is None:
            return False
        self.value, self.stale, self.age_s = found.value, found.stale, found.age_s
        self.served_by, self.done = "cache", True
        return True

    # -- after the call -----------------------------------------------------------------------------------------------

    def succeeded(self, result: Any) -> None:
        """The function returned ``result``, which may tell of a failure itself."""
        self.value = result
        acting = self.acting
        if self.permit is None:
            return
        usage = NOTHING if acting.usage is None else acting.used(result)
        failure = acting.failure_in(result)
        if failure is not None:
            self._report_failure(text_in(result), failure, usage)
            return
        self.finished(usage)
        if self.served_by == "call":
            acting.keep(self.key, result)

    def finished(self, usage: Usage) -> None:
        """It ended well, at the cost of ``usage``."""
        permit = self.permit
        assert permit is not None
        metadata = {"duplicates": self._count} if self._count > 1 else None
        if usage is NOTHING:
            permit.success(metadata=metadata)
        else:
            permit.success(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_creation_tokens=usage.cache_creation_tokens,
                cost_usd=usage.cost_usd,
                metadata=metadata,
            )

    def failed(self, error: BaseException, usage: Usage = NOTHING) -> None:
        """It ended with ``error``, at the cost of ``usage``."""
        self._report_failure(error, self.acting.classification(error), usage)

    def not_made(self) -> None:
        """It was never made after all."""
        if self.permit is not None:
            self.permit.release()

    def _report_failure(self, error: BaseException | str, classification: Classification | None, usage: Usage) -> None:
        permit = self.permit
        if permit is not None:
            permit.failure(
                error,
                classification=classification,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_creation_tokens=usage.cache_creation_tokens,
                cost_usd=usage.cost_usd,
                metadata={"duplicates": self._count} if self._count > 1 else None,
            )

    def answer(self) -> Answer[Any]:
        """What the caller gets, with where it came from."""
        return Answer(self.value, self.tool, self.served_by, self.stale, self.age_s)
