"""The common call: a guard without options, on a circuit that lets calls through without counting them.

Everything that a call needs is bound once, when the function is decorated. A call then reads the circuit's ``quiet`` permit
(:class:`~switchgear.breaker.Breaker`), the fleet's view and the clock, and appends one tuple to the emitter's buffer. The
background thread makes the event of it. All other calls take the full path: in a session, with a hook, through an open
circuit or one that counts failures, or with an exception.

The breaker's :meth:`~switchgear.breaker.Breaker.counts` don't include these successes; no rule of such a circuit uses them.

A check more shows in the time of a call. So there is one body (:data:`BODY`), and each kind of guard gets it without the lines that it
does not need.
"""

from __future__ import annotations

import contextlib
import linecache
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from switchgear.classify.result import HARMLESS, classify_result
from switchgear.guard.call import Call, GuardPlan
from switchgear.guard.deferred_results import awaits, finish
from switchgear.guard.families import FamilyPermit
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import CircuitOpenError
from switchgear.guard.tool_function import misfit
from switchgear.sessions import session_stack
from switchgear_schemas.circuit_ids import tool_circuit

if TYPE_CHECKING:
    from switchgear.breaker import BreakerPermit
    from switchgear.emitter.buffer import Item
    from switchgear.emitter.emitter import Emitter
    from switchgear.guard.fleet_circuits import FleetCircuits
    from switchgear.guard.local_circuits import LocalCircuit


Function = Callable[..., Any]
Coroutine = Callable[..., Awaitable[Any]]
Args = tuple[Any, ...]
Kwargs = dict[str, Any]

BODY: Final = """
async def call(*args, **kwargs):
    circuit = circuits.get(tool)
    if circuit is None or rejected or sessions() is not None:  #: local
    if circuit is None or rejected or sessions() is not None or not runtime.started:  #: fleet
        return await full(*args, **kwargs)
    quiet = circuit.breaker.quiet
    of_family = family.quiet  #: family
    view = views.get(own)  #: fleet
    unknown = 0 if follower.loaded else None  #: fleet
    generation = unknown if view is None else view.generation  #: fleet
    family_view = views.get(family_id) if families else None  #: fleet family
    family_generation = unknown if family_view is None else family_view.generation  #: fleet family
    if (
        quiet is None
        or of_family is None  #: family
        or (view is not None and not view.plain)  #: fleet
        or (family_view is not None and not family_view.plain)  #: fleet family
        or (scoped and tool in scoped)  #: fleet
    ):
        refusal = None if tool in routed else circuit.refusal(tool, clock(), None)  #: local single
        refusal = None if tool in routed else refused_at_once(tool, circuit)  #: local family
        refusal = None if tool in routed else refused_at_once(tool, circuit)  #: fleet
        if refusal is not None:
            raise CircuitOpenError(refusal)
        return await full(*args, **kwargs)
    started = clock()  #: fleet
    started = clock()  #: local async
    try:
        result = await (function(*args, **kwargs) if kwargs else function(*args))
    except BaseException as error:
        permit = off_path.permit(circuit, quiet, of_family, started, generation, family_generation)
        off_path.failed(error, args, kwargs, permit)
        raise
    if type(result) not in HARMLESS and needs_report(result):
        permit = off_path.permit(circuit, quiet, of_family, started, generation, family_generation)
        return off_path.finish(result, args, kwargs, permit)
    if (
        circuit.breaker.quiet is not quiet
        or family.quiet is not of_family  #: family
        or len(items) >= limit  #: fleet
    ):
        off_path.permit(circuit, quiet, of_family, started, generation, family_generation).success()
        return result  #: fleet
    items.append((tool, started, clock(), generation, family_generation))  #: fleet
    if emitter.idle:  #: fleet
        wake(emitter, items)  #: fleet
    return result
"""
"""A line with a mark is for these kinds of guards alone: of a client with a fleet or a ``local`` one; of a tool with a family or a
``single`` one; of coroutine functions (``async``). Those of functions have no ``async`` and no ``await``.

``emitter.idle`` is read after the append: the background thread looks at the buffer again after it sets this.
"""
_NO_BUFFER: Final[deque[Item]] = deque()


class _OffPath:
    """What the calls of one guard do off the common path."""

    def __init__(self, plan: GuardPlan, function: Function) -> None:
        self._plan = plan
        self._function = function
        self._decision, self._tool = plan.runtime.decision, plan.tool
        families, self.family = self._decision.families, self._decision.family_of(plan.tool)
        self.family_circuit = None if self.family is None or families is None else families.get(self.family)
        self.family_breaker = None if self.family_circuit is None else self.family_circuit.breaker

    def permit(
        self,
        circuit: LocalCircuit,
        quiet: BreakerPermit,
        of_family: BreakerPermit | None,
        started: float | None = None,
        generation: int | None = None,
        family_generation: int | None = None,
    ) -> Permit:
        """Return the permit of a call that was made, to report it."""
        reporter = self._decision.reporter
        began = reporter.clock() if started is None else started
        family = self.family
        held = None
        if family is not None:
            held = FamilyPermit(family.name, self.family_circuit, of_family, family_generation)
        return Permit(reporter, self._tool, circuit, quiet, began, generation, family=held)

    def failed(self, error: BaseException, args: Args, kwargs: Kwargs, permit: Permit) -> None:
        """Report an exception. Arguments that don't fit say nothing about the tool."""
        if not (isinstance(error, TypeError) and misfit(self._function, args, kwargs)):
            permit.failure(error)

    def finish(self, result: Any, args: Args, kwargs: Kwargs, permit: Permit) -> Any:
        """Report a result that isn't a plain success, now or when it is awaited. Return what the caller gets."""
        call = Call(self._plan, "function", self._function, args, kwargs)
        call.permitted(permit)
        finish(call, result)
        return call.value


def _needs_report(result: Any) -> bool:
    """Return whether ``result`` is more than a plain success: still to be awaited, or a failure."""
    return (type(result) is not dict and awaits(result)) or classify_result(result) is not None


def plain_guard(plan: GuardPlan, function: Function, full: Function) -> Function:
    """Return ``function`` behind its tool's circuit, without its name and signature. ``full`` is it on the full path."""
    return _bound(plan, function, full, asynchronous=False)


def plain_async_guard(plan: GuardPlan, function: Coroutine, full: Coroutine) -> Coroutine:
    """:func:`plain_guard` for coroutine functions."""
    return _bound(plan, function, full, asynchronous=True)


def _bound(plan: GuardPlan, function: Function, full: Function, *, asynchronous: bool) -> Function:
    """Return the body of this kind of guard, with all that it reads."""
    off_path, decision = _OffPath(plan, function), plan.runtime.decision
    fleet, family = decision.fleet, off_path.family_breaker
    names = {
        "circuits": decision.local.circuits,
        "rejected": decision.reporter.credentials.runs,
        "sessions": session_stack.get,
        "clock": decision.clock,
        "tool": plan.tool,
        "routed": plan.runtime.fallbacks.named,
        "refused_at_once": decision.refused_at_once,
        "function": function,
        "full": full,
        "family": family,
        "off_path": off_path,
    }
    if fleet is not None:
        names |= _of_fleet(plan, fleet, off_path)
    kinds = {"local" if fleet is None else "fleet", "single" if family is None else "family"}
    if asynchronous:
        kinds.add("async")
    return _maker(frozenset(kinds), tuple(names))(**names)


def _of_fleet(plan: GuardPlan, fleet: FleetCircuits, off_path: _OffPath) -> dict[str, Any]:
    items, limit = _room(fleet.emitter, plan.runtime.decision.clock)
    return {
        "runtime": plan.runtime,
        "own": tool_circuit(plan.tool),
        "family_id": "" if off_path.family is None else off_path.family.circuit_id,
        "views": fleet.views,
        "families": fleet.families,
        "scoped": fleet.scoped,
        "follower": fleet.follower,
        "emitter": fleet.emitter,
        "items": items,
        "limit": limit,
    }


@lru_cache
def _maker(kinds: frozenset[str], names: tuple[str, ...]) -> Callable[..., Function]:
    """Return the function that takes ``names`` and returns the body for guards of these kinds."""
    lines = [line.partition("  #: ") for line in BODY.splitlines()]
    body = "\n".join(f"    {line}" for line, _, marks in lines if kinds.issuperset(marks.split()))
    if "async" not in kinds:
        body = re.sub(r"\b(async|await) ", "", body)
    file = f"<switchgear.guard.fast_path, {' '.join(sorted(kinds))}>"
    source = f"def make({', '.join(names)}):\n{body}\n    return call\n"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)  # for tracebacks
    made: dict[str, Any] = {
        "__name__": __name__,
        "HARMLESS": HARMLESS,
        "CircuitOpenError": CircuitOpenError,
        "needs_report": classify_result if "async" in kinds else _needs_report,
        "wake": _wake,
        **dict.fromkeys(("of_family", "started", "generation", "family_generation")),  # for a permit of the other kinds
    }
    exec(compile(source, file, "exec"), made)  # noqa: S102 - our own text
    maker: Callable[..., Function] = made["make"]
    return maker


def _room(emitter: Emitter, clock: Callable[[], float]) -> tuple[deque[Item], int]:
    """Return the emitter's buffer and its limit, or no room if the emitter must see every event."""
    if emitter.takes_tuples and clock is time.monotonic:  # the emitter's own clock
        return emitter.buffer.items, emitter.buffer.limit
    return _NO_BUFFER, 0


def _wake(emitter: Emitter, items: deque[Item]) -> None:
    """Wake the background thread. If the emitter is closed, take the event back."""
    if emitter.closed:
        with contextlib.suppress(IndexError):  # another thread did
            items.pop()
    else:
        emitter.wake(urgent=False)
