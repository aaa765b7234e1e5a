"""Fold: one history through one set of policies. A call is decided on when it began, and counted when it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind, Transition, result_kind
from switchgear.breaker.registry import circuit_id_of
from switchgear.breaker.states import PASSING
from switchgear.replay.history import HistoryLine, StampedClock
from switchgear.replay.report import Summary, transition_line
from switchgear_schemas.enums import CircuitState
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.wire import Execution, decode_execution

REMEMBERED_STATES: Final = 64
"""States of a circuit that a call which began long ago can still be decided by."""


class _Phase(msgspec.Struct, frozen=True, gc=False):
    since: float
    state: CircuitState
    generation: int
    open_until: float | None


class _Line:
    """One circuit with its latest phases."""

    __slots__ = ("breaker", "phases", "policy")

    def __init__(self, circuit_id: str, policy: BreakerPolicy, now: float) -> None:
        self.policy = policy
        self.breaker = Breaker(circuit_id, policy, now)
        self.phases: deque[_Phase] = deque(maxlen=REMEMBERED_STATES)
        self.note(now)

    def note(self, since: float) -> None:
        breaker = self.breaker
        self.phases.append(_Phase(since, breaker.state, breaker.generation, breaker.open_until))

    def at(self, moment: float) -> _Phase:
        """The phase in force at an instant; before all that are remembered, the oldest."""
        for phase in reversed(self.phases):
            if phase.since <= moment:
                return phase
        return self.phases[0]


class Fold:
    """What the policies would have done with a history, call by call, in the order in which the calls ended.

    Args:
        policy_of: The policy of a tool, e.g. ``PolicySet.effective``.
    """

    def __init__(self, policy_of: Callable[[str], BreakerPolicy]) -> None:
        self._policy_of = policy_of
        self._circuits: dict[str, _Line] = {}
        self._asked = 0
        self.summary = Summary()

    def add(self, call: Execution, ended_at: float) -> Iterator[Transition]:
        """Decide on a call and, where it would have been made, count it; yields the transitions on the way."""
        if call.status == "rejected":
            self.summary.never_made += 1
            return
        policy = self._policy_of(call.tool_name)
        circuit_id = circuit_id_of(call.tool_name, policy, call.user_id or "", call.session_id or "")
        began_at = ended_at - (call.execution_time_ms or 0.0) / 1000
        line = self._circuits.get(circuit_id)
        if line is None:
            line = self._circuits[circuit_id] = _Line(circuit_id, policy, began_at)
            self.summary.circuits += 1
        yield from self._noted(line, line.breaker.advance(ended_at))
        result = result_of(call, policy)
        self.summary.calls += 1
        self.summary.failed += result.kind is ResultKind.FAILURE
        yield from self._decide(line, began_at, ended_at, result)

    def _decide(self, line: _Line, began_at: float, ended_at: float, result: Result) -> Iterator[Transition]:
        breaker = line.breaker
        phase = line.at(began_at)
        if phase.state in PASSING:
            permit = BreakerPermit(breaker.circuit_id, phase.generation)
            yield from self._noted(line, breaker.record(ended_at, result, permit))
            return
        waiting = phase.state == "open" and phase.open_until is not None and began_at < phase.open_until
        if waiting or phase.state == "forced_open":
            self._refuse(line, result)
            return
        self._asked += 1
        caller = str(self._asked)
        yield from self._noted(line, breaker.request_lease(ended_at, caller))
        lease = next((lease.lease_id for lease in breaker.leases if lease.emitter_id == caller), None)
        if lease is None:
            self._refuse(line, result)
            return
        self.summary.probes += 1
        permit = BreakerPermit(breaker.circuit_id, breaker.generation, lease)
        yield from self._noted(line, breaker.record(ended_at, result, permit))

    def _noted(self, line: _Line, transition: Transition | None) -> Iterator[Transition]:
        if transition is None or transition.cause.rule == "lease_granted":
            return
        line.note(transition.at)
        if transition.previous == transition.state:
            self.summary.would_open += transition.state == "metrics_only"
        else:
            self.summary.opens += transition.state == "open" and transition.previous == "closed"
            self.summary.reopens += transition.state == "open" and transition.previous == "half_open"
            self.summary.closes += transition.state == "closed"
        yield transition

    def _refuse(self, line: _Line, result: Result) -> None:
        refused = self.summary.refused
        refused.calls += 1
        slow_ms = line.policy.slow_call_duration_threshold_ms
        slow = slow_ms is not None and result.duration_ms > slow_ms
        if result.kind is ResultKind.IGNORED:
            refused.ignored += 1
            return
        refused.slow += slow
        if result.kind is ResultKind.FAILURE:
            refused.failed += 1
            refused.tokens_avoided += result.tokens
        else:
            refused.succeeded += 1
        if slow or result.kind is ResultKind.FAILURE:
            refused.seconds_avoided = round(refused.seconds_avoided + result.duration_ms / 1000, 6)


def result_of(call: Execution, policy: BreakerPolicy) -> Result:
    """A recorded call as a breaker counts it."""
    return Result(
        kind=result_kind(call.status, call.error_class, policy),
        duration_ms=call.execution_time_ms or 0.0,
        tokens=(call.input_tokens or 0) + (call.output_tokens or 0) + (call.cache_creation_tokens or 0),
        reporter=call.emitter_id or "",
        retry_after_s=call.retry_after_s,
    )


def replay(
    history: Iterable[HistoryLine],
    policies: dict[str, Callable[[str], BreakerPolicy]],
    *,
    stamp_s: float | None = None,
) -> Iterator[dict[str, Any]]:
    """Fold ``history`` through each set of policies.

    Args:
        history: The calls, in the order in which they ended.
        policies: Name of a set of policies to the policy of a tool.
        stamp_s: Seconds between calls that have no ``recorded_at``; None refuses such a history.

    Yields:
        A dict a transition, with ``policy`` (the set's name), then one ``summary`` a set. The same input gives the same
        lines to the byte.

    Raises:
        UndatedCallError: a call has no instant, and ``stamp_s`` is None.
    """
    folds = {name: Fold(policy_of) for name, policy_of in policies.items()}
    clock = StampedClock(stamp_s)
    lines = invalid = 0
    for line in history:
        lines += 1
        if line.event is None:
            invalid += 1
            continue
        call = decode_execution(line.raw)
        ended_at = clock.end_of(call, line.number)
        for name, fold in folds.items():
            for transition in fold.add(call, ended_at):
                yield {"policy": name, **transition_line(transition, call.tool_name)}
    for name, fold in folds.items():
        summary = fold.summary
        summary.lines, summary.invalid, summary.stamped = lines, invalid, clock.stamped
        yield {"policy": name, "summary": msgspec.to_builtins(summary)}
