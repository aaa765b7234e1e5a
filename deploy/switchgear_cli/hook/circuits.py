"""Decide about a call and record its end, by the SDK's breakers. They are restored from the state file for one event.

Importing the SDK takes longer than all the rest, so this module is imported only for tools that have failures.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from switchgear import prompts
from switchgear.breaker import Breaker, BreakerPermit
from switchgear.breaker.snapshot import SnapshotError
from switchgear.breaker.states import PASSING
from switchgear.follower.view import CircuitView, UnreadableCircuitError, decode_view
from switchgear.guard.caller_errors import DEFAULT_MAX_CALLER_ERRORS, CallerErrorLimit, CallerErrors, run_name
from switchgear.guard.credentials import Credentials
from switchgear.guard.decision import CircuitDecision
from switchgear.guard.families import Family, FamilyPermit
from switchgear.guard.fleet_circuits import is_commanded, refusal_by
from switchgear.guard.local_circuits import LocalBreakers, LocalCircuit, LocalPolicies
from switchgear.guard.permits import CallReport, Permit
from switchgear.guard.rejections import Caller, Rejection
from switchgear.guard.reporter import Reporter
from switchgear.integrations.claude_code import Ended
from switchgear.prompts import Down, NoticeBoard
from switchgear.tool_list import Said, settle
from switchgear_cli.hook.calls import family_pattern
from switchgear_cli.hook.settings import is_true
from switchgear_cli.hook.state import SavedCircuit, State, rejected
from switchgear_schemas.cause import Cause
from switchgear_schemas.circuit_ids import circuit_id, read_circuit_id
from switchgear_schemas.claude_code import HookCall
from switchgear_schemas.families import model_name
from switchgear_schemas.plain_policy import LOCAL_FAMILIES, LOCAL_TOOLS, PlainPolicy

PROBE_S: Final = 120.0
"""How long a probe may take. The SDK's 30 s are for programs; here a person may have to permit the call first."""


def _with_time(policy: PlainPolicy) -> PlainPolicy:
    return msgspec.structs.replace(policy, max_wait_duration_in_half_open_state_s=PROBE_S)


class _Policies:
    """The SDK's defaults of a process, with more time for probes."""

    _TOOL: Final = _with_time(LOCAL_TOOLS)
    _FAMILY: Final = _with_time(LOCAL_FAMILIES)

    def effective(self, _tool: str) -> PlainPolicy:
        return self._TOOL

    def effective_family(self, _family: str) -> PlainPolicy:
        return self._FAMILY


_KEY: Final = b"claude-code"
"""The sessions stand for their credentials. Their ids are in the state file anyway, so the salt hides nothing."""


class _SavedPermit(msgspec.Struct, array_like=True):
    """What a permitted call holds until its end is reported, maybe by another process."""

    started: float
    tool: BreakerPermit | None
    family: BreakerPermit | None
    trial: str | None
    held: list[BreakerPermit | None] = []
    """Of the session's rejected calls: of the server, then of the tool."""


_decode_said: Final = msgspec.msgpack.Decoder(Said[Down]).decode
_decode_permit: Final = msgspec.msgpack.Decoder(_SavedPermit).decode


class _Circuits:
    """Some circuits of the state file, restored, with the decision over them. Use it within one transaction."""

    def __init__(self, state: State, rows: list[SavedCircuit], clock: Callable[[], float]) -> None:
        self._state = state
        self._clock = clock
        self.local = LocalBreakers(
            cast("LocalPolicies", _Policies()), clock, include_last_error=is_true("include_last_error")
        )
        self.reporter = Reporter(clock, credentials=Credentials(_KEY))
        self.decision = CircuitDecision(self.local, self.reporter, family_pattern=family_pattern())
        self._read = {row.circuit_id for row in rows}
        for row in rows:
            self._restore(row)

    def family(self, name: str) -> LocalCircuit | None:
        families = self.decision.families
        return None if families is None else families.get(Family(name, circuit_id(name, "family")))

    def all_now(self) -> list[LocalCircuit]:
        families = self.decision.families
        return [*self.local.all_now(), *([] if families is None else families.all_now())]

    def save(self) -> None:
        """Write the circuits that are not closed or have failures, and remove the others."""
        now = self._clock()
        for circuit in self.all_now():
            breaker = circuit.breaker
            if breaker.quiet is None:
                family = circuit.family or _family_name(self.decision, read_circuit_id(breaker.circuit_id).name)
                row = SavedCircuit(
                    breaker.circuit_id, family, breaker.snapshot(), circuit.last_error, circuit.last_error_class
                )
                self._state.keep_circuit(row, now)
            elif breaker.circuit_id in self._read:
                self._state.drop_circuit(breaker.circuit_id)

    def free_tools(self, family: str) -> None:
        """After the outage of a server, let its tools be probed at once."""
        now = self._clock()
        for circuit in self.local.all_now():
            circuit.breaker.end_wait_early(now, Cause("family_recovered", reason=family))

    def _restore(self, row: SavedCircuit) -> None:
        name, scope, whose = read_circuit_id(row.circuit_id)
        about = whose if scope == "target" else ""
        circuit = self.family(name) if scope == "family" else self.local.get(name, Caller(target=about))
        if circuit is None:
            return
        try:
            breaker = Breaker.restore(row.saved, circuit.breaker.policy)
        except SnapshotError:  # of a newer release: the circuit starts closed
            return
        breaker.on_move = circuit.breaker.on_move
        circuit.breaker, circuit.last_error, circuit.last_error_class = breaker, row.last_error, row.last_error_class


def decide(state: State, call: HookCall, target: str = "", clock: Callable[[], float] = time.time) -> Rejection | None:
    """Return the refusal of a call about ``target``, or None if it may be made. What it holds then is in the state file."""
    run, caller = run_name(call.tool, target), Caller(session_id=call.session or None, target=target)
    with state.transaction():
        views = _views_of(state, call, target)
        refusal = next((found for view in views if (found := _fleet_refusal(view, call, clock())) is not None), None)
        if refusal is not None:
            return refusal
        if any(view.overrides for view in views):
            return None
        circuits = _Circuits(state, state.circuits(_own(call, target), call.family), clock)
        errors = _caller_errors(state, call, run)
        credentials = circuits.reporter.credentials
        _load_credentials(state, call, credentials, clock())
        limit = CallerErrorLimit(errors, call.session, DEFAULT_MAX_CALLER_ERRORS)
        trial = limit.admit(run, lambda: _hash(call.arguments))
        answer: Any = trial
        if not isinstance(trial, Rejection):
            answer = circuits.decision.acquire(call.tool, caller)
            if isinstance(answer, Permit):
                family = None if answer.family is None else answer.family.breaker_permit
                held = credentials.taken_apart(call.tool, call.family, caller, answer.held)
                permit = _SavedPermit(answer.started, answer.breaker_permit, family, trial, held)
                state.keep_permit(call.call, call.session, msgspec.msgpack.encode(permit), clock())
            elif trial is not None:
                limit.give_back(run, trial)
        circuits.save()
        state.keep_caller(call.session, run, errors.saved(call.session, run), clock())
        _keep_credentials(state, call, credentials, clock())
        return answer if isinstance(answer, Rejection) else None


def record(
    state: State, call: HookCall, ended: Ended, target: str = "", clock: Callable[[], float] = time.time
) -> None:
    """Count the end of a call about ``target``."""
    run, caller = run_name(call.tool, target), Caller(session_id=call.session or None, target=target)
    with state.transaction():
        saved = state.take_permit(call.call)
        permit = None if saved is None else _decode_permit(saved)
        circuits = _Circuits(state, state.circuits(_own(call, target), call.family), clock)
        of_family = None if call.family is None else circuits.family(call.family)
        was_out = of_family is not None and of_family.breaker.state not in PASSING
        errors = _caller_errors(state, call, run)
        now = clock()
        credentials = circuits.reporter.credentials
        _load_credentials(state, call, credentials, now)
        server_refused = _server_refuses(call, credentials)
        held = Permit(
            circuits.reporter,
            call.tool,
            circuits.local.get(call.tool, caller),
            None if permit is None else permit.tool,
            now - (ended.duration_ms or 0.0) / 1000 if permit is None else permit.started,
            None,
            caller,
            family=None
            if call.family is None
            else FamilyPermit(call.family, of_family, None if permit is None else permit.family, None),
            caller_errors=CallerErrorLimit(errors, call.session, DEFAULT_MAX_CALLER_ERRORS),
            trial=None if permit is None else permit.trial,
            held=None if permit is None else credentials.held(call.tool, call.family, caller, permit.held),
        )
        arguments = None if ended.error is None else _hash(call.arguments)
        held.end(CallReport(ended.error, ended.classification, duration_ms=ended.duration_ms, arguments=arguments))
        if was_out and of_family is not None and of_family.breaker.state == "closed":
            circuits.free_tools(call.family or "")
        circuits.save()
        state.keep_caller(call.session, run, errors.saved(call.session, run), now)
        _keep_credentials(state, call, credentials, now)
        if server_refused and not _server_refuses(call, credentials):
            state.drop_rejected(call.session, call.family or "")


def message(state: State, session: str, *, begins: bool, clock: Callable[[], float] = time.time) -> str:
    """Return what to tell the model: which tools went down since it was last told, and which may be called again.

    Args:
        state: The circuits.
        session: The session.
        begins: It begins, or goes on without what it was told.
        clock: Returns seconds since 1970.
    """
    with state.transaction():
        circuits = _Circuits(state, state.circuits(), clock)
        views = {view.circuit_id: view for view in _views(state, None)}
        board = NoticeBoard(clock, clock, circuits.decision.family_of)
        down = board.down(circuits.all_now(), views, {}, session_id=session)
        saved = None if begins else state.told(session)
        said = None if saved is None else _decode_said(saved)
        after = settle(said, down.keys, down, clock())
        state.keep_told(session, msgspec.msgpack.encode(after), clock())
    return prompts.message(Down() if said is None else said.about, after.about, name_of=model_name)


def _family_name(decision: CircuitDecision, tool: str) -> str | None:
    found = decision.family_of(tool)
    return None if found is None else found.name


def _own(call: HookCall, target: str) -> str:
    """Return the id of the circuit that counts a call."""
    return circuit_id(call.tool, "target", target) if target else call.circuit_ids[0]


def _caller_errors(state: State, call: HookCall, run: str) -> CallerErrors:
    errors = CallerErrors()
    saved = state.caller(call.session, run)
    if saved is not None:
        errors.load(call.session, run, saved)
    return errors


def _caller(call: HookCall) -> Caller:
    return Caller(session_id=call.session or None)


def _rejected(call: HookCall) -> list[str]:
    """Return the names of the session's rejected calls: of the server, then of the tool."""
    return [rejected(each) for each in reversed(call.circuit_ids)]


def _load_credentials(state: State, call: HookCall, credentials: Credentials, now: float) -> None:
    runs = [state.caller(call.session, name) for name in _rejected(call)]
    credentials.load(call.tool, call.family, _caller(call), runs, now)


def _keep_credentials(state: State, call: HookCall, credentials: Credentials, now: float) -> None:
    for name, run in zip(_rejected(call), credentials.saved(call.tool, call.family, _caller(call)), strict=True):
        state.keep_caller(call.session, name, run, now)


def _server_refuses(call: HookCall, credentials: Credentials) -> bool:
    return call.family is not None and credentials.refuses_server(call.family, _caller(call))


def _hash(arguments: Any) -> str:
    return hashlib.blake2b(json.dumps(arguments, sort_keys=True).encode(), digest_size=16).hexdigest()


def _views(state: State, circuit_ids: tuple[str, ...] | None) -> list[CircuitView]:
    """Return the fleet's circuits that are not plainly closed, the family's first."""
    found = []
    for record_ in state.fleet(circuit_ids).values():
        try:
            found.append(decode_view(record_.encode()))
        except UnreadableCircuitError:  # of a newer release
            continue
    return sorted(found, key=lambda view: view.scope != "family")


def _views_of(state: State, call: HookCall, target: str) -> list[CircuitView]:
    """Return the fleet's circuits that decide about a call. Of its tool's own circuit, only commands hold for a target."""
    views = _views(state, (_own(call, target), *call.circuit_ids))
    return [view for view in views if not target or view.scope != "tool" or is_commanded(view)]


def _fleet_refusal(view: CircuitView, call: HookCall, now: float) -> Rejection | None:
    """Return the fleet's refusal. After an open circuit's wait the call goes: its event counts like a probe."""
    over = view.open_until is not None and now >= view.open_until
    if view.passes or view.recovers or (view.state == "open" and not view.forced and over):
        return None
    refusal = refusal_by(view, call.tool, now, is_true("include_last_error"))
    return msgspec.structs.replace(refusal, fallback=view.fallback[0] if view.fallback else None)
