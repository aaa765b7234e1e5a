"""Fold a history through sets of policies. A call is decided on when it began, and counted when it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from switchgear.breaker import Breaker, BreakerPermit, Result, ResultKind, Transition
from switchgear.breaker.ramp import admits
from switchgear.breaker.states import PASSING
from switchgear.breaker.values import circuit_id_of
from switchgear.fleet.log import result_of
from switchgear_api.replay.history import HistoryLine
from switchgear_api.replay.past_pace import Paced, PastPace
from switchgear_schemas.enums import EARLIEST, CircuitState
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.times import rfc3339
from switchgear_schemas.wire import Execution

MAX_PHASES: Final = 64
"""Phases of a circuit in memory: a call that began long ago is decided on by the phase of that time."""


class UndatedCallError(SwitchgearError):
    """A call has no ``recorded_at``, and the caller gave no interval for such calls."""


class Refused(msgspec.Struct):
    """The calls that the policy would have refused, by how they ended in the history."""

    calls: int = 0
    failed: int = 0
    succeeded: int = 0
    slow: int = 0
    ignored: int = 0
    seconds_avoided: float = 0.0
    tokens_avoided: int = 0


class Summary(msgspec.Struct):
    """The totals of one replay.

    ``refused.failed`` is waste avoided, with its seconds and tokens. ``refused.succeeded`` was refused wrongly, except for
    ``refused.slow`` of them: they took longer than the policy's slow-call threshold, and their seconds are avoided too. The calls that a
    kept rate limit refused are among ``refused``; ``paced`` says more about them.
    """

    lines: int = 0
    invalid: int = 0
    stamped: int = 0
    calls: int = 0
    failed: int = 0
    never_made: int = 0
    circuits: int = 0
    opens: int = 0
    reopens: int = 0
    would_open: int = 0
    closes: int = 0
    probes: int = 0
    refused: Refused = msgspec.field(default_factory=Refused)
    paced: Paced = msgspec.field(default_factory=Paced)


class _Phase(NamedTuple):
    since: float
    state: CircuitState
    generation: int
    open_until: float | None
    admitted_share: float


class _Circuit:
    """One circuit with its latest phases."""

    def __init__(self, circuit_id: str, policy: BreakerPolicy, now: float) -> None:
        self.policy = policy
        self.breaker = Breaker(circuit_id, policy, now)
        self.phases: deque[_Phase] = deque(maxlen=MAX_PHASES)
        self.asked = 0
        self.begin_phase(now)

    def begin_phase(self, since: float) -> None:
        breaker = self.breaker
        share = breaker.admitted_share
        self.phases.append(_Phase(since, breaker.state, breaker.generation, breaker.open_until, share))

    def admits(self, share: float) -> bool:
        """Count a call that came while the circuit recovered. Return whether it is one of the share."""
        self.asked += 1
        return admits(self.asked, share, 0.0)

    def phase_at(self, moment: float) -> _Phase:
        """Return the phase at an instant, or the oldest one in memory."""
        return next((phase for phase in reversed(self.phases) if phase.since <= moment), self.phases[0])


def circuit_of(call: Execution, policy: BreakerPolicy) -> str:
    """Return the id of the circuit that counts a call under a policy."""
    target = "" if policy.target is None else call.target or ""
    whose = call.user_id or "", call.session_id or "", target, call.tenant or ""
    return circuit_id_of(call.tool_name, policy, *whose)


class Fold:
    """Folds a history through one set of policies, call by call, in the order in which the calls ended.

    Args:
        policy_of: Returns the policy of a tool, such as ``PolicySet.effective``.
    """

    def __init__(self, policy_of: Callable[[str], BreakerPolicy]) -> None:
        self._policy_of = policy_of
        self._circuits: dict[str, _Circuit] = {}
        self._paces: dict[str, PastPace] = {}
        self._asked = 0
        self.summary = Summary()

    def add(self, call: Execution, ended_at: float) -> Iterator[Transition]:
        """Decide on a call, and count it if the policy would have permitted it. Yield the transitions that follow."""
        if call.status == "overdue":  # a report about a call that still ran, and no call
            return
        if call.status == "rejected":
            self.summary.never_made += 1
            return
        policy = self._policy_of(call.tool_name)
        circuit_id = circuit_of(call, policy)
        began_at = ended_at - (call.execution_time_ms or 0.0) / 1000
        circuit = self._circuits.get(circuit_id)
        if circuit is None:
            circuit = self._circuits[circuit_id] = _Circuit(circuit_id, policy, began_at)
            self.summary.circuits += 1
        yield from self._noted(circuit, circuit.breaker.advance(ended_at))
        result = result_of(call, policy)
        if result.overdue_ms is not None:  # the history has no report that counted it before its end
            result = msgspec.structs.replace(result, overdue_ms=None)
        self.summary.calls += 1
        self.summary.failed += result.kind is ResultKind.FAILURE
        paces = policy.pace == "enforce" and circuit.phase_at(began_at).state == "closed"
        if paces and not self._has_turn(call, policy, began_at, ended_at):
            self._refuse(circuit, result)
            return
        yield from self._decide(circuit, began_at, ended_at, result)

    def _has_turn(self, call: Execution, policy: BreakerPolicy, began_at: float, ended_at: float) -> bool:
        """Return whether the tool's rate limit lets a call through, at once or after a wait. Learn from how it ended."""
        pace = self._paces.get(call.tool_name)
        if pace is None:
            pace = self._paces[call.tool_name] = PastPace(policy, began_at)
        paced, limited = self.summary.paced, call.error_class == "rate_limited"
        wait_s = pace.wait_s(began_at)
        pace.learn(call, ended_at)
        paced.calls += 1
        paced.limited += limited
        if wait_s is None:
            paced.refused += 1
            paced.refused_limited += limited
        elif wait_s > 0:
            paced.waited += 1
            paced.seconds_waited = round(paced.seconds_waited + wait_s, 6)
        return wait_s is not None

    def _decide(self, circuit: _Circuit, began_at: float, ended_at: float, result: Result) -> Iterator[Transition]:
        breaker = circuit.breaker
        phase = circuit.phase_at(began_at)
        if phase.state in PASSING:
            if phase.admitted_share < 1 and not circuit.admits(phase.admitted_share):
                self._refuse(circuit, result)
                return
            permit = BreakerPermit(breaker.circuit_id, phase.generation)
            yield from self._noted(circuit, breaker.record(ended_at, result, permit))
            return
        waiting = phase.state == "open" and phase.open_until is not None and began_at < phase.open_until
        if waiting or phase.state == "forced_open":
            self._refuse(circuit, result)
            return
        self._asked += 1
        caller = str(self._asked)
        yield from self._noted(circuit, breaker.request_lease(ended_at, caller))
        lease = next((lease.lease_id for lease in breaker.leases if lease.emitter_id == caller), None)
        if lease is None:
            self._refuse(circuit, result)
            return
        self.summary.probes += 1
        permit = BreakerPermit(breaker.circuit_id, breaker.generation, lease)
        yield from self._noted(circuit, breaker.record(ended_at, result, permit))

    def _noted(self, circuit: _Circuit, transition: Transition | None) -> Iterator[Transition]:
        if transition is None or transition.cause.rule == "lease_granted":
            return
        circuit.begin_phase(transition.at)
        if transition.previous == transition.state:
            self.summary.would_open += transition.state == "metrics_only"
        else:
            self.summary.opens += transition.state == "open" and transition.attempt == 1
            self.summary.reopens += transition.state == "open" and transition.attempt > 1
            self.summary.closes += transition.state == "closed"
        yield transition

    def _refuse(self, circuit: _Circuit, result: Result) -> None:
        refused = self.summary.refused
        refused.calls += 1
        if result.kind is ResultKind.IGNORED:
            refused.ignored += 1
            return
        slow_ms = circuit.policy.slow_call_duration_threshold_ms
        slow = slow_ms is not None and result.duration_ms > slow_ms
        refused.slow += slow
        failed = result.kind is ResultKind.FAILURE
        refused.failed += failed
        refused.succeeded += not failed
        if failed:
            refused.tokens_avoided += result.tokens
        if slow or failed:
            refused.seconds_avoided = round(refused.seconds_avoided + result.duration_ms / 1000, 6)


def stamped_at(line: HistoryLine, stamped: int, stamp_s: float | None) -> float:
    """Return when a call without ``recorded_at`` ended, in seconds since 1970. Such calls lie ``stamp_s`` apart from 2000-01-01 on.

    Args:
        line: The call.
        stamped: How many such calls came before it.
        stamp_s: Seconds between them. None refuses them.

    Raises:
        UndatedCallError: ``stamp_s`` is None.
    """
    if stamp_s is None:
        raise UndatedCallError(
            f"Line {line.number} has no recorded_at.", hint="Give --stamp SECONDS to lay such calls that far apart."
        )
    return EARLIEST.timestamp() + stamped * stamp_s


def replay(
    history: Iterable[HistoryLine],
    policies: dict[str, Callable[[str], BreakerPolicy]],
    *,
    stamp_s: float | None = None,
) -> Iterator[dict[str, Any]]:
    """Fold ``history`` through each set of policies.

    Args:
        history: The calls, in the order in which they ended.
        policies: Name of each set of policies, and the function that returns the policy of a tool.
        stamp_s: Seconds between calls that have no ``recorded_at``, the first at 2000-01-01. None refuses such a history.

    Yields:
        A dict per transition, with ``policy`` (the name of the set), then one ``summary`` per set. The same input gives the same
        dicts.

    Raises:
        UndatedCallError: A call has no instant, and ``stamp_s`` is None.
    """
    folds = {name: Fold(policy_of) for name, policy_of in policies.items()}
    lines = invalid = stamped = 0
    for line in history:
        lines += 1
        call = line.event
        if call is None:
            invalid += 1
            continue
        ended_at = call.recorded_s
        if ended_at is None:
            ended_at = stamped_at(line, stamped, stamp_s)
            stamped += 1
        for name, fold in folds.items():
            for transition in fold.add(call, ended_at):
                yield {"policy": name, **_in_json(transition, call.tool_name)}
    for name, fold in folds.items():
        summary = fold.summary
        summary.lines, summary.invalid, summary.stamped = lines, invalid, stamped
        yield {"policy": name, "summary": msgspec.to_builtins(summary)}


def _in_json(transition: Transition, tool_name: str) -> dict[str, Any]:
    until = transition.open_until
    return {
        "at": rfc3339(transition.at),
        "tool_name": tool_name,
        "circuit_id": transition.circuit_id,
        "previous": transition.previous,
        "state": transition.state,
        "generation": transition.generation,
        "attempt": transition.attempt,
        "cause": {name: value for name, value in msgspec.structs.asdict(transition.cause).items() if value is not None},
        "open_until": None if until is None else rfc3339(until),
        "counts": {
            name: value for name, value in msgspec.structs.asdict(transition.counts).items() if name != "rejected"
        },
    }
