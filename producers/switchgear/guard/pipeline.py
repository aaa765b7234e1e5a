"""Call: one call on its way: refused, served from elsewhere, or made and reported. It waits for nothing itself."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from switchgear.answer import Answer
from switchgear.breaker.registry import candidates
from switchgear.caching.call_key import CallKey
from switchgear.classify import IGNORE, Classification
from switchgear.classify.result import HARMLESS, failure_in, text_in
from switchgear.fallback.registry import DIFFERENT, FUNCTION_MAY_STAND_IN, StandIn
from switchgear.guard.argument_mismatch import is_argument_mismatch
from switchgear.guard.decision import PendingProbe
from switchgear.guard.deferred_results import awaits, deferred, serves_once
from switchgear.guard.permits import Permit
from switchgear.guard.plan import Plan
from switchgear.guard.rejections import Rejection
from switchgear.guard.runtime import Runtime
from switchgear.guard.time_limit import check_in_task, within
from switchgear.sessions.usage import NOTHING, Usage
from switchgear_schemas.enums import DEFAULT_COUNTED

if TYPE_CHECKING:
    from switchgear.caching.call_key import CallKey
    from switchgear.guard.plan import Plan
    from switchgear.guard.runtime import Runtime
    from switchgear.guard.timed_threads import TimedCall
    from switchgear.guard.tool_function import Kind


Steps = Generator[PendingProbe, Permit | Rejection, None]
"""Gives what has to be waited for, takes the answer."""

standing_in: Final[ContextVar[frozenset[tuple[Runtime, str]]]] = ContextVar(
    "switchgear_standing_in", default=frozenset()
)
"""Tools that a user's own function stands in for here: it is not called again within itself."""


NOT_THE_CALLERS: Final = DEFAULT_COUNTED | {"policy"}
"""Classes of failures after which the same call may do better: the tool is broken, or one that it needs was refused."""


probing: Final[ContextVar[tuple[tuple[Runtime, Permit], ...]]] = ContextVar("switchgear_probing", default=())
"""The probes that are under way here, the innermost last."""


class Call:
    """The state of one call, moved on by its driver.

    First :meth:`first`, then :meth:`otherwise` where that was no permit. After that ``function`` is to be called with
    ``args`` and ``kwargs``, unless ``done``; with a ``permit`` its end is reported by :meth:`succeeded` or :meth:`failed`.

    Raises:
        CircuitOpenError: from both, where nothing serves the caller.
    """

    __slots__ = (
        "_count", "_noted", "_owed", "acting", "age_s", "args", "blocks", "done", "entered", "function", "key", "kind", "kwargs",
        "permit", "plan", "served_by", "stale", "tool", "value",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        kind: Kind,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        key: CallKey | None,
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
        self.blocks = False
        """A function is called in place of a coroutine function: it would hold up the event loop."""
        self.entered = False
        """The function returned something that is still to be awaited, or read."""
        self._count = 0
        self._noted: tuple[str, CallKey] | None = None
        """In which session it was counted as what may be a duplicate, and as what."""
        self._owed: Rejection | None = None
        """Not told yet: a function stands in, and where that fails there may be a kept result."""

    # -- before the call ----------------------------------------------------------------------------------------------

    def first(self) -> Permit | Rejection | PendingProbe | None:
        """Ask for the tool itself. None: served from the cache already."""
        plan = self.plan
        if self.key is not None:
            session_id = plan.session_id()
            self._count = plan.noted(session_id, self.key)
            self._noted = (session_id, self.key) if self._count else None
            if plan.options.on_duplicate == "refuse" and self._count >= plan.options.duplicate_after:
                return Rejection(self.tool, "open", "duplicate", f"the same call was made {self._count} times")
            if self._from_cache(refused=False):
                if plan.runtime.hooks is not None:
                    plan.runtime.hooks.on_cached(self.tool, None)
                return None
        answer = plan.runtime.ask(self.tool)
        if isinstance(answer, Permit):
            self._permitted(answer)
        return answer

    def otherwise(self, answer: Permit | Rejection | PendingProbe) -> Steps:
        """After a refusal: another tool, a function, what is in the cache, or the refusal as an error."""
        if isinstance(answer, PendingProbe):
            answer = yield answer
        if isinstance(answer, Permit):
            self._permitted(answer)
            return
        plan = self.plan
        refusal = answer
        if answer.source in {"local", "fleet"}:
            found = yield from self._elsewhere(answer)
            if found is None:
                return
            refusal = found
        if refusal.source != "duplicate" and self._from_cache(refused=True):
            plan.runtime.refused(refusal, served_by="cache")
            return
        plan.runtime.refused(refusal)
        if refusal.source != "duplicate":
            self._gave_nothing()
        raise refusal.error()

    def _elsewhere(self, refusal: Rejection) -> Generator[PendingProbe, Permit | Rejection, Rejection | None]:
        """None where the call goes on after a circuit's refusal; else the refusal, which may name a tool to use instead."""
        plan = self.plan
        fallback = plan.options.fallback
        if refusal.state == "half_open" and self._within_its_probe():
            return self._unguarded()
        if callable(fallback):
            return None if self._instead(fallback, refusal) else refusal
        chain = plan.runtime.chain(self.tool, plan.options.chain, plan.group)
        if not chain:
            return refusal
        return (yield from self._chained(chain, refusal))

    def _within_its_probe(self) -> bool:
        """Is this a call that the running probe of the same tool makes, a recursive one? It tells of the tool by its end."""
        runtime, tool = self.plan.runtime, self.tool
        return any(of is runtime and one.tool == tool and not one.reported for of, one in probing.get())

    def _chained(
        self, chain: tuple[str, ...], refusal: Rejection
    ) -> Generator[PendingProbe, Permit | Rejection, Rejection | None]:
        """None: the first tool of ``chain`` takes the call that can. Else the refusal, with a closed one that the caller may call."""
        plan, runtime = self.plan, self.plan.runtime
        named = None
        kept = candidates((self.tool, *chain), lambda name: name == self.tool or runtime.is_open(name))
        for name in kept:
            if name == self.tool:  # every circuit is open: never eject everything
                return self._tried_all_the_same(refusal)
            found = runtime.stand_ins.find(name, self.kind, plan.group)
            if not isinstance(found, StandIn):
                if found is not None:
                    runtime.complaints.warning(f"{name} can't stand in for {self.tool}: {found}")
                if found is None or found == DIFFERENT:
                    named = named or name
                continue
            target, acting = found.tool, found.plan
            arguments = plan.arguments_for(name, target, self.kind, (self.args, self.kwargs))
            if arguments is None:
                continue
            answer = runtime.ask(name)
            if isinstance(answer, PendingProbe):
                answer = yield answer
            if isinstance(answer, Permit):
                self.tool, self.function, self.served_by, self.acting = name, target.call, "fallback", acting
                self.args, self.kwargs = arguments
                self.blocks = target.kind != self.kind
                self._permitted(answer)
                try:
                    runtime.refused(refusal, served_by="fallback", fallback_tool=name)
                except BaseException:  # a hook that exits
                    self.not_made()
                    raise
                return None
        return refusal if named is None else msgspec.structs.replace(refusal, fallback=named)

    def _tried_all_the_same(self, refusal: Rejection) -> Rejection | None:
        """What is in the cache, else the tool itself; not where an operator has forced it open."""
        if self._from_cache(refused=True):
            self.plan.runtime.refused(refusal, served_by="cache")
            return None
        return refusal if refusal.state == "forced_open" else self._unguarded()

    def _unguarded(self) -> Rejection | None:
        """The tool itself, whatever its circuit says; a session's limit holds."""
        answer = self.plan.runtime.unguarded(self.tool)
        if isinstance(answer, Rejection):
            return answer
        self._permitted(answer)
        return None

    def _instead(self, fallback: Callable[..., Any], refusal: Rejection) -> bool:
        """The user's own function: no circuit is asked. False where it can't be called."""
        from switchgear.guard.tool_function import examine  # noqa: PLC0415 - refusals alone need it

        plan, target = self.plan, examine(fallback)
        if (plan.runtime, plan.tool) in standing_in.get():  # it called the tool that it stands in for
            return False
        if target.kind not in FUNCTION_MAY_STAND_IN[self.kind]:
            plan.runtime.complaints.warning(
                f"{target.name} can't stand in for {self.tool}: a {target.kind} in place of a {self.kind}"
            )
            return False
        receiver = self.args[:1] if plan.receiver else ()
        adapted = plan.adapted(target.name, self.args[len(receiver) :], self.kwargs)
        if adapted is None:
            return False
        args, self.kwargs = adapted
        self.args = (*receiver, *args) if target.receiver else args
        self.function, self.tool, self.served_by = fallback, target.name, "fallback"
        self._owed = refusal
        if plan.options.cache is None:
            self._told_of_function("fallback")
        return True

    def _permitted(self, permit: Permit) -> None:
        self.permit = permit
        if self.served_by == "fallback":
            permit.served_by = "fallback"
        if self.key is not None and self.plan.runtime.sends_hash:
            permit.parameters_hash = self.key.parameters

    def _from_cache(self, *, refused: bool) -> bool:
        found = self.plan.cached(self.key, refused=refused)
        if found is None:
            return False
        self.value, self.stale, self.age_s = found.value, found.stale, found.age_s
        self.served_by, self.done = "cache", True
        return True

    def _told_of_function(self, served_by: Literal["fallback", "cache"]) -> None:
        """Tell of the refusal, once, when it is known what served the caller."""
        refusal, self._owed = self._owed, None
        if refusal is not None:
            named = self.tool if served_by == "fallback" else None
            self.plan.runtime.refused(refusal, served_by=served_by, fallback_tool=named)

    # -- after the call -----------------------------------------------------------------------------------------------

    def stood_in(self, result: Any) -> None:
        """The user's own function returned ``result``."""
        self.value = result
        self._told_of_function("fallback")

    def not_stood_in(self, error: BaseException) -> bool:
        """The user's own function failed: is a kept result served instead of its error?"""
        kept = isinstance(error, Exception) and self._from_cache(refused=True)
        if kept:
            self.plan.runtime.complaints.warning(f"{self.tool} could not stand in for {self.plan.tool}", error)
            self.tool = self.plan.tool
        else:
            self._gave_nothing()
        self._told_of_function("cache" if kept else "fallback")
        return kept

    def succeeded(self, result: Any) -> None:
        """The function returned ``result``, which may tell of a failure itself."""
        self.value = result
        acting = self.acting
        if self.permit is None:
            return
        try:
            usage = NOTHING if acting.usage is None else acting.used(result)
            failure = acting.failure_in(result)
            text = None if failure is None or _says_it_is_well(result, failure) else text_in(result)
        except BaseException as stop:  # out of a function of the user's: Ctrl-C, an exit
            self.left(stop, NOTHING)
            raise
        if failure == IGNORE:
            self.permit.ignore(text, **self._told(usage))
            return
        if failure is not None:
            self._report_failure(text or "", failure, usage)
            return
        self.finished(usage)
        if self.served_by == "call":
            acting.keep(self.key, result)

    def finished(self, usage: Usage) -> None:
        """It ended well, at the cost of ``usage``."""
        permit = self.permit
        assert permit is not None
        if usage is NOTHING and self._count <= 1:
            permit.success()
        else:
            permit.success(**self._told(usage))

    def failed(self, error: BaseException, usage: Usage = NOTHING) -> None:
        """It ended with ``error``, at the cost of ``usage``."""
        if not self.entered and is_argument_mismatch(self.function, error):
            if self.permit is not None:
                self.permit.release()
            return
        try:
            verdict = self.acting.classification(error) or self.plan.runtime.gate.reporter.classify(error)
        except BaseException as stop:  # as above
            self.left(stop, usage)
            raise
        self._report_failure(error, verdict, usage)

    def clock(self) -> float:
        """The seconds that its duration is measured in."""
        return self.plan.runtime.clock()

    def paused(self, seconds: float) -> None:
        """So long it waited for somebody else than the tool."""
        if self.permit is not None:
            self.permit.paused(seconds)

    def left(self, error: BaseException, usage: Usage) -> None:
        """An end was made of it with ``error``, not by the tool: how it would have ended is not known."""
        self._report_failure(error, Classification("cancelled"), usage)

    def not_made(self) -> None:
        """It was never made after all."""
        self._gave_nothing()
        if self.permit is not None:
            self.permit.release()

    def _gave_nothing(self) -> None:
        """To make the same call again is no repetition."""
        noted, self._noted = self._noted, None
        if noted is not None:
            self.plan.taken_back(*noted)

    def _report_failure(self, error: BaseException | str, classification: Classification, usage: Usage) -> None:
        permit = self.permit
        if self._noted is not None and classification.error_class in NOT_THE_CALLERS:
            self._gave_nothing()
        if permit is not None:
            permit.failure(error, classification=classification, **self._told(usage))

    def _told(self, usage: Usage) -> dict[str, Any]:
        """What every report takes besides."""
        return {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_creation_tokens": usage.cache_creation_tokens,
            "cost_usd": usage.cost_usd,
            "metadata": {"duplicates": self._count} if self._count > 1 else None,
        }

    def answer(self) -> Answer[Any]:
        """What the caller gets, with where it came from."""
        return Answer(self.value, self.tool, self.served_by, self.stale, self.age_s)


def _says_it_is_well(result: Any, failure: Classification) -> bool:
    """A rule ignores ``result``, which does not say itself that the tool failed, as MCP's results do."""
    return failure == IGNORE and (type(result) in HARMLESS or failure_in(result) is None)


T = TypeVar("T")
Function = Callable[..., Any]
Args = tuple[Any, ...]


def call_through(plan: Plan, function: Function, args: Args, kwargs: Mapping[str, Any]) -> Any:
    """Call ``function`` as ``plan`` says.

    Raises:
        CircuitOpenError: refused, and nothing else serves.
        CallTimeoutError, ThreadsBusyError: of a plan with a time limit.
    """
    key = plan.key(function, args, kwargs)
    if key is not None and (flight := plan.flight(key, "function")) is not None:
        return _flown(plan, function, args, kwargs, key, flight).value
    return _run(Call(plan, "function", function, args, kwargs, key))


def answer_through(plan: Plan, function: Function, args: Args, kwargs: Mapping[str, Any]) -> Answer[Any]:
    """:func:`call_through` that tells where the result came from."""
    key = plan.key(function, args, kwargs)
    if key is not None and (flight := plan.flight(key, "function")) is not None:
        return _flown(plan, function, args, kwargs, key, flight)
    call = Call(plan, "function", function, args, kwargs, key)
    _run(call)
    return call.answer()


async def acall_through(plan: Plan, function: Function, args: Args, kwargs: Mapping[str, Any]) -> Any:
    """:func:`call_through` for coroutine functions, and for functions that return an awaitable."""
    key = plan.key(function, args, kwargs)
    if key is not None and (flight := plan.flight(key, "coroutine")) is not None:
        return (await _aflown(plan, function, args, kwargs, key, flight)).value
    return await _arun(Call(plan, "coroutine", function, args, kwargs, key))


async def aanswer_through(plan: Plan, function: Function, args: Args, kwargs: Mapping[str, Any]) -> Answer[Any]:
    """:func:`acall_through` that tells where the result came from."""
    key = plan.key(function, args, kwargs)
    if key is not None and (flight := plan.flight(key, "coroutine")) is not None:
        return await _aflown(plan, function, args, kwargs, key, flight)
    call = Call(plan, "coroutine", function, args, kwargs, key)
    await _arun(call)
    return call.answer()


def prepare(call: Call) -> None:
    """Get ``call`` to where it is to be made, or done; waits for a probe lease where one was asked for."""
    answer = call.first()
    if call.permit is None and answer is not None:
        _drive(call.otherwise(answer), call.plan.runtime)


async def aprepare(call: Call) -> None:
    """:func:`prepare` that does not block the event loop."""
    await call.plan.runtime.astart()
    answer = call.first()
    if call.permit is None and answer is not None:
        await _adrive(call.otherwise(answer), call.plan.runtime)


def _run(call: Call) -> Any:
    prepare(call)
    if call.done:
        return call.value
    if call.permit is None:
        return _instead(call)
    probe = probing.set((*probing.get(), (call.plan.runtime, call.permit))) if call.permit.probe else None
    try:
        return _called(call)
    finally:
        if probe is not None:
            _restore(probing, probe)


def _called(call: Call) -> Any:
    limit = call.acting.timeout
    timed = None if limit is None else _started(call, limit)
    try:
        result = call.function(*call.args, **call.kwargs) if timed is None else timed.wait()
    except BaseException as error:
        call.failed(error)
        raise
    if type(result) in HARMLESS or not awaits(result):
        call.succeeded(result)
        return result
    call.key = None  # it serves one caller
    call.entered = True
    call.value = deferred(result, call, call.clock)
    return call.value


def _started(call: Call, limit: float) -> TimedCall:
    asked_at = call.clock()
    try:
        timed = call.plan.runtime.threads.start(call.tool, limit, call.function, call.args, call.kwargs)
    except BaseException:  # no thread was free, or the caller was interrupted while it waited for one
        call.not_made()
        raise
    call.paused(call.clock() - asked_at)  # the tool is not slow because other calls took the threads
    return timed


def _instead(call: Call) -> Any:
    """The user's own function for a refused tool: no circuit, no time limit, and not again within itself."""
    with _standing_in(call):
        try:
            result = call.function(*call.args, **call.kwargs)
        except BaseException as error:
            if call.not_stood_in(error):
                return call.value
            raise
    call.stood_in(result)
    return result


@contextlib.contextmanager
def _standing_in(call: Call) -> Iterator[None]:
    """A user's own function stands in for the tool here."""
    token = standing_in.set(standing_in.get() | {(call.plan.runtime, call.plan.tool)})
    try:
        yield
    finally:
        _restore(standing_in, token)


def _restore(variable: ContextVar[T], token: Token[T]) -> None:
    with contextlib.suppress(ValueError):  # ended in another context, where it was not set
        variable.reset(token)


async def _arun(call: Call) -> Any:
    await aprepare(call)
    if call.done:
        return call.value
    if call.permit is None:
        return await _ainstead(call)
    probe = probing.set((*probing.get(), (call.plan.runtime, call.permit))) if call.permit.probe else None
    try:
        return await _acalled(call)
    finally:
        if probe is not None:
            _restore(probing, probe)


async def _acalled(call: Call) -> Any:
    limit = call.acting.timeout
    check_timed(call)
    timed = await _astarted(call, limit) if call.blocks and limit is not None else None
    try:
        if limit is None:
            made = call.function(*call.args, **call.kwargs)
            call.entered = True
            result = await made if inspect.isawaitable(made) else made
        else:
            result = await within(call.tool, limit, _made(call, timed))
    except BaseException as error:
        call.failed(error)
        raise
    call.succeeded(result)
    return result


def check_timed(call: Call) -> None:
    """Where a time limit can't be kept the call is not made.

    Raises:
        SwitchgearError: it has one, and there is no task to cancel.
    """
    if call.acting.timeout is None or call.permit is None:
        return
    try:
        check_in_task(call.tool)
    except BaseException:
        call.not_made()
        raise


async def _made(call: Call, timed: TimedCall | None) -> Any:
    made = call.function(*call.args, **call.kwargs) if timed is None else await timed.until()
    call.entered = True
    return await settled(made)


async def _astarted(call: Call, limit: float) -> TimedCall:
    asked_at = call.clock()
    try:
        timed = await call.plan.runtime.threads.astart(call.tool, limit, call.function, call.args, call.kwargs)
    except BaseException:  # as above
        call.not_made()
        raise
    call.paused(call.clock() - asked_at)
    return timed


async def _ainstead(call: Call) -> Any:
    with _standing_in(call):
        try:
            result = await settled(call.function(*call.args, **call.kwargs))
        except BaseException as error:
            if call.not_stood_in(error):
                return call.value
            raise
    call.stood_in(result)
    return result


def _flown(
    plan: Plan, function: Function, args: Args, kwargs: Mapping[str, Any], key: CallKey, flight: Hashable
) -> Answer[Any]:
    def fly() -> Answer[Any]:
        call = Call(plan, "function", function, args, kwargs, key)
        _run(call)
        return call.answer()

    shared = plan.runtime.stores.flights.do(flight, fly, wait_s=plan.timeout, serves=_serves_many)
    if not shared.leader:
        plan.noted(plan.session_id(), key)
    return shared.value


async def _aflown(
    plan: Plan, function: Function, args: Args, kwargs: Mapping[str, Any], key: CallKey, flight: Hashable
) -> Answer[Any]:
    async def fly() -> Answer[Any]:
        call = Call(plan, "coroutine", function, args, kwargs, key)
        await _arun(call)
        return call.answer()

    shared = await plan.runtime.stores.flights.ado(flight, fly, wait_s=plan.timeout, serves=_serves_many)
    if not shared.leader:
        plan.noted(plan.session_id(), key)
    return shared.value


def _serves_many(answer: Answer[Any]) -> bool:
    return not serves_once(answer.value)


def _drive(steps: Steps, runtime: Runtime) -> None:
    try:
        asking = next(steps)
        while True:
            asking = steps.send(runtime.wait(asking))
    except StopIteration:
        return


async def _adrive(steps: Steps, runtime: Runtime) -> None:
    try:
        asking = next(steps)
        while True:
            asking = steps.send(await runtime.until(asking))
    except StopIteration:
        return


async def settled(value: Any) -> Any:
    """The result of an awaitable, or the value that is none."""
    return await value if inspect.isawaitable(value) else value
