"""Permits, and what happens with the reports of their holders: to the circuit, the fleet, the hooks and the session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack

import msgspec

from switchgear.breaker import Result, ResultKind, result_kind
from switchgear.classify import Classifier, classify
from switchgear.classify.classification import IGNORE, Classification, checked
from switchgear.classify.result import outage_of_target
from switchgear.emitter.event import Event
from switchgear.guard.call_ends import message_of, named, outcome_of, overdue_event
from switchgear.guard.caller_errors import CALLER_CLASSES, run_name
from switchgear.guard.credentials import Credentials, Held, credential_kind, limit_of
from switchgear.guard.families import FamilyPermit
from switchgear.guard.overdue import given_up, overdue_after_s
from switchgear.guard.overdue_calls import NOT_TOLD, OverdueCalls, Wait
from switchgear.guard.rejections import NO_CALLER, Caller
from switchgear.redaction import Redactor
from switchgear.runtime.throttled_log import BoundedLog
from switchgear.usage import NOTHING, ReportError, Usage, amount, of_one_call, usage_from, usage_of, whole
from switchgear_schemas.circuit_ids import tool_circuit
from switchgear_schemas.enums import (
    MOST_BYTES,
    MOST_MS,
    TARGET_ERROR,
    ErrorClass,
    ServedBy,
    Status,
    status_of,
)
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.breaker import BreakerPermit
    from switchgear.guard.caller_errors import Arguments, CallerErrorLimit
    from switchgear.guard.fleet_circuits import FleetCircuits
    from switchgear.guard.local_circuits import LocalCircuit
    from switchgear.sessions import Session
    from switchgear.telemetry.hooks import HookList


log: Final = logging.getLogger("switchgear.guard")

NOT_FAILED: Final[frozenset[ErrorClass]] = frozenset({"cancelled", "policy"})
"""Classes of errors that a session's ``max_failures`` doesn't count: no tool failed."""
_SUCCESS: Final = ResultKind.SUCCESS  # looking it up in the Enum takes longer


class CallReport(msgspec.Struct, frozen=True):
    """How a call ended, as its caller reports it. All values are checked."""

    error: BaseException | str | None = None
    """None for a success."""
    classification: Classification | None = None
    """None leaves a failure to the client's classifier. A success with one is ignored."""
    usage: Usage = NOTHING
    """What wasn't reported before."""
    output_size: int = 0
    metadata: Mapping[str, Any] | None = None
    duration_ms: float | None = None
    """None for the time since the permit was given."""
    waited_ms: float | None = None
    """How long the caller had waited for the tool without an answer. None for the whole duration."""
    arguments: str | None = None
    """The hash of the arguments of a call that the caller's error made fail; None if it isn't known."""


class CallValues(TypedDict, total=False):
    """The keywords of a report: see :meth:`Permit.success`."""

    duration_ms: float | None
    input_tokens: int | None
    output_tokens: int | None
    cache_creation_tokens: int | None
    cost_usd: float | None
    metadata: Mapping[str, Any] | None


class Permit(msgspec.Struct, eq=False, weakref=True):
    """Permission for one call. Report its end once: success, failure, ignore or release. Later reports do nothing.

    A report with an invalid argument raises ReportError (a SwitchgearError) and doesn't count: you can report again.

    Attributes:
        circuit: This process's circuit; None if it wasn't asked.
        started: When the call began, in monotonic seconds.
        generation: Generation of the fleet's circuit; None if it isn't known.
        caller: For whom it is made, and on what.
        lease: Circuit and lease id of a probe for the fleet.
        served_by: ``fallback`` for the call of a fallback tool.
        usage: Reported while the call runs.
        sessions: Those that the call counts in.
        family: What it holds of the tool's family; None without one.
        caller_errors: The limit of the innermost session for errors of the caller. None without one.
        trial: What a call tries after such a limit was reached, else None.
        arguments: Returns the hash of the call's arguments. None if they aren't known.
        held: What it holds of its credential's runs. Nearly always None: nothing was rejected.
        wait: How long its caller waits for the tool. None if no circuit counts calls that take too long.
    """

    reporter: Reporter
    tool: str
    circuit: LocalCircuit | None
    breaker_permit: BreakerPermit | None
    started: float
    generation: int | None
    caller: Caller = NO_CALLER
    lease: tuple[str, str] | None = None
    parameters_hash: str | None = None
    served_by: ServedBy = "call"
    usage: list[Usage] = []
    sessions: tuple[Session, ...] = ()
    reported: bool = False
    family: FamilyPermit | None = None
    caller_errors: CallerErrorLimit | None = None
    trial: str | None = None
    arguments: Arguments | None = None
    held: Held | None = None
    wait: Wait | None = None

    # Every object is true as it is. Type checkers need this: they narrow ``Permit | Rejection`` by it.
    if TYPE_CHECKING:

        def __bool__(self) -> Literal[True]: ...

    def __repr__(self) -> str:
        return f"<Permit of {self.tool}>"

    @property
    def lease_id(self) -> str | None:
        """The fleet's probe lease of this call; None if it isn't a probe for the fleet."""
        lease = self.lease or (None if self.family is None else self.family.lease)
        return None if lease is None else lease[1]

    @property
    def probe(self) -> bool:
        """Whether the call tests if the tool has recovered, for this process or for the fleet."""
        if self.lease is not None or (self.breaker_permit is not None and self.breaker_permit.probe):
            return True
        return self.family is not None and self.family.probe

    def success(self, *, output_size: int | None = 0, **values: Unpack[CallValues]) -> None:
        """Report that the tool answered.

        Args:
            output_size: Bytes or characters of the result.
            values: ``duration_ms`` if you measured it yourself; ``input_tokens`` that the model read, ``output_tokens`` that it
                wrote, ``cache_creation_tokens`` that it wrote to its cache; ``cost_usd``; ``metadata`` to send with the event.

        Raises:
            SwitchgearError: An argument is invalid; the message names it.
        """
        self._report(None, None, output_size, **values)

    def failure(
        self,
        error: BaseException | str,
        *,
        classification: Classification | ErrorClass | None = None,
        **values: Unpack[CallValues],
    ) -> None:
        """Report that the call failed. Its class decides whether that counts against the tool.

        ``error`` is the exception, or the tool's own message (class ``tool``). ``classification`` is your own, in place of the
        client's. For the other arguments, see :meth:`success`.

        Raises:
            SwitchgearError: An argument is invalid; the message names it.
        """
        self._report(_checked_error(error), _checked_class(classification), 0, **values)

    def ignore(
        self,
        error: BaseException | str | None = None,
        *,
        output_size: int | None = 0,
        **values: Unpack[CallValues],
    ) -> None:
        """Report a call that says nothing about the tool's health. It counts neither as a success nor as a failure.

        Its event is sent with the class ``policy``: with ``error`` as an error, without one as a success. A probe is free
        for the next call. For the other arguments, see :meth:`success`. For a call that you didn't make, use :meth:`release`: it
        sends no event.

        Raises:
            SwitchgearError: An argument is invalid; the message names it.
        """
        self._report(None if error is None else _checked_error(error), IGNORE, output_size, **values)

    def tokens(self, usage: Usage | int) -> None:
        """Report tokens (and cost) while the call runs, as often as you like. A session's budget counts them at once.

        Args:
            usage: What was used since the last report; a plain number is output tokens.

        Raises:
            SwitchgearError: ``usage`` isn't a usage, or is negative.
        """
        used = usage_of(usage)
        if self.reported:
            return
        self.usage.append(used)
        for session in self.sessions:
            session.ended(used, failed=False)

    def rests(self) -> None:
        """The call waits for its caller, not for the tool, until :meth:`paused`."""
        if self.wait is not None:
            self.reporter.overdue.rest(self)

    def paused(self, seconds: float) -> None:
        """Leave ``seconds`` out of the call's duration: it waited for its caller, not for the tool. Now it goes on."""
        self.started += seconds
        if self.wait is not None:
            self.reporter.overdue.resume(self, self.reporter.clock())

    def release(self) -> None:
        """Give the permit back unused. Nothing is counted or sent, and a probe is free for the next call."""
        if not self.reported:
            self.reported = True
            self.reporter.release(self)

    def misfit(self, error: TypeError, arguments: str | None) -> None:
        """Give the permit back: the arguments didn't fit the function. That alone counts, as the caller's error."""
        if not self.reported:
            self.reported = True
            self.reporter.misfit(self, error, arguments)

    def end(self, report: CallReport) -> None:
        """Report a call that was made, with values that are checked."""
        if not self.reported:
            self.reported = True
            self.reporter.report(self, report)

    def _report(
        self,
        error: BaseException | str | None,
        classification: Classification | None,
        size: int | None,
        *,
        duration_ms: float | None = None,
        input_tokens: int | None = 0,
        output_tokens: int | None = 0,
        cache_creation_tokens: int | None = 0,
        cost_usd: float | None = 0.0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        usage = usage_from(input_tokens, output_tokens, cache_creation_tokens, cost_usd)
        size = whole("output_size", size, MOST_BYTES) if size else 0
        if metadata is not None and not isinstance(metadata, Mapping):
            raise ReportError(f"metadata is {metadata!r:.100}.", hint="Give a dict, or nothing.")
        if duration_ms is not None:
            duration_ms = amount("duration_ms", duration_ms, MOST_MS)
        self.end(CallReport(error, classification, usage, size, metadata, duration_ms))


def _checked_error(error: object) -> BaseException | str:
    if isinstance(error, (BaseException, str)):
        return error
    raise ReportError(
        f"A failure is an exception or a message, not {error!r:.100}.",
        hint="Give the exception itself." if isinstance(error, type) else "",
    )


def _checked_class(classification: object) -> Classification | None:
    try:
        return checked(classification)
    except SwitchgearError as wrong:
        raise ReportError(f"classification: {wrong.message}", hint=wrong.hint) from None


class Reporter:
    """Takes what permits report. Thread-safe. The user's ``classifier`` is asked before the default one."""

    def __init__(
        self,
        clock: Callable[[], float],
        fleet: FleetCircuits | None = None,
        *,
        classifier: Classifier | None = None,
        redactor: Redactor | None = None,
        hooks: HookList | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.credentials = credentials or Credentials()
        """The credentials that tools reject, of all sessions."""
        self.clock = clock
        self.fleet = fleet
        self.hooks = hooks
        self.overdue: OverdueCalls[Permit] = OverdueCalls(
            self._tell_circuits, None if fleet is None else self._tell_fleet
        )
        self._classifier = classifier
        self._redactor = redactor
        self._complaints = BoundedLog(log, clock=clock)

    def report(self, permit: Permit, report: CallReport) -> None:
        """Count and send a call that was made: to its circuit, the fleet, the hooks and the sessions."""
        now = self.clock()
        error, classification, message, error_type = report.error, report.classification, None, None
        of_server = None if classification is None else classification.error_class
        status: Status = "success"
        duration_ms = (now - permit.started) * 1000 if report.duration_ms is None else report.duration_ms
        if error is not None:
            classification = self._class_of(error, permit, report, duration_ms)
            of_server = classification.error_class
            message = self._shown(error)
            error_type = None if isinstance(error, str) else type(error).__name__
            classification, error_type = _of_target(permit, classification, message, error_type)
            status = status_of(classification.error_class)
        error_class = None if classification is None else classification.error_class
        retry_after_s = None if classification is None else classification.retry_after_s
        usage = of_one_call((*permit.usage, report.usage)) if permit.usage else report.usage
        circuit, family = permit.circuit, permit.family
        overdue_ms, fleet_overdue_ms = NOT_TOLD if permit.wait is None else self.overdue.end(permit.wait)
        credential = self._credential_ended(permit, now, status, error_class)
        if circuit is not None:
            kind = _SUCCESS if error_class is None else result_kind(status, error_class, circuit.breaker.policy)
            result = Result(kind, duration_ms, usage.tokens, "", retry_after_s, "", False, overdue_ms, credential)
            circuit.record(now, result, permit.breaker_permit, named(error_type, message), error_class)
        if family is not None:
            result = Result(_SUCCESS, duration_ms, usage.tokens, "", retry_after_s, permit.tool, overdue_ms=overdue_ms)
            family.record(now, result, status, of_server, named(error_type, message))
        hooks = self.hooks
        if self.fleet is not None:
            caller = permit.caller
            # Most by position: with too many names CPython passes them in a dict, which takes three times as long.
            event = Event(
                permit.tool,
                status,
                duration_ms,
                permit.generation,
                None if permit.lease is None else permit.lease[1],
                None,
                caller.tenant,
                caller.user_id,
                caller.session_id,
                caller.request_id,
                error_type,
                message,
                error_class,
                retry_after_s,
                permit.parameters_hash,
                output_size=report.output_size,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_creation_tokens=usage.cache_creation_tokens,
                cost_usd=usage.cost_usd,
                metadata=None if report.metadata is None else dict(report.metadata),
                traceparent=None if hooks is None else hooks.traceparent(),
            )
            # With a salt of its own, one token in three processes would look like three.
            event.credential = (credential or None) if self.credentials.shared else None
            event.target = caller.target or None
            if family is not None:
                event.family_generation = family.generation
                event.family_lease_id = None if family.lease is None else family.lease[1]
            event.overdue_ms = fleet_overdue_ms
            # The fleet's next probe waits for one that failed or was ignored.
            self.fleet.emitter.emit(event, urgent=error_class is not None and permit.lease_id is not None)
        if hooks is not None:
            if "on_outcome" in hooks.wants:
                hooks.on_outcome(outcome_of(permit, status, duration_ms, error_class, error_type))
            hooks.run_waiting()
        for session in permit.sessions:
            session.ended(report.usage, failed=error is not None and error_class not in NOT_FAILED)
        limit = permit.caller_errors
        if limit is not None and (limit.runs or error is not None):
            asked = _arguments(permit, report, error_class)
            limit.ended(
                run_name(permit.tool, permit.caller.target), permit.trial, error_class, error_type, message, asked
            )

    def _tell_circuits(self, permit: Permit, now: float, ran_ms: float) -> None:
        """Count a call that goes on as slow, in the circuits of this process."""
        result = Result(ResultKind.OVERDUE, ran_ms, tool=permit.tool)
        circuit, family = permit.circuit, permit.family
        if circuit is not None:
            circuit.record(now, result, permit.breaker_permit)
        if family is not None and family.circuit is not None:
            family.circuit.record(now, result, family.breaker_permit)
        if self.hooks is not None:
            self.hooks.run_waiting()

    def _tell_fleet(self, permit: Permit, ran_ms: float) -> None:
        """Send the report about a call that goes on."""
        assert self.fleet is not None  # else nobody is told
        self.fleet.emitter.emit(overdue_event(permit, ran_ms), urgent=permit.lease_id is not None)

    def misfit(self, permit: Permit, error: TypeError, arguments: str | None) -> None:
        """Count arguments that don't fit as the caller's error, and give back what the permit holds."""
        limit = permit.caller_errors
        if limit is not None:
            shown = self._shown(error)
            limit.ended(
                run_name(permit.tool, permit.caller.target),
                permit.trial,
                "invalid_input",
                type(error).__name__,
                shown,
                arguments,
            )
            permit.trial = None
        self.release(permit)

    def release(self, permit: Permit) -> None:
        """Give back what the permit of a call holds that wasn't made."""
        if permit.circuit is not None and permit.breaker_permit is not None:
            permit.circuit.release(permit.breaker_permit, self.clock())
        if permit.lease is not None and self.fleet is not None:
            self.fleet.give_lease_back(*permit.lease)
        family = permit.family
        if family is not None:
            family.release(self.clock())
            if family.lease is not None and self.fleet is not None:
                self.fleet.give_lease_back(*family.lease)
        for session in permit.sessions:
            session.add_calls(-1)
        if permit.caller_errors is not None and permit.trial is not None:
            permit.caller_errors.give_back(run_name(permit.tool, permit.caller.target), permit.trial)
        if permit.held is not None:
            self.credentials.give_back(permit.held, self.clock())

    def _credential_ended(self, permit: Permit, now: float, status: Status, error_class: ErrorClass | None) -> str:
        """Count what the call says about the credential of its caller. Return the credential if it was rejected."""
        if error_class != "auth" and permit.held is None and not self.credentials.runs:
            return ""
        limit = None if permit.circuit is None else limit_of(permit.circuit)
        if limit is not None:
            family = None if permit.family is None else permit.family.name
            kind = credential_kind(status, error_class)
            self.credentials.ended(permit.tool, family, permit.caller, permit.held, limit, now, kind)
        elif permit.held is not None:
            self.credentials.give_back(permit.held, now)
        return self.credentials.holder_of(permit.caller) if error_class == "auth" else ""

    def _class_of(
        self, error: BaseException | str, permit: Permit, report: CallReport, duration_ms: float
    ) -> Classification:
        """Return what kind of failure a call is, with what its caller made of it by giving up."""
        found = report.classification or self.classify(error)
        if found.error_class != "cancelled":
            return found
        waited_ms = duration_ms if report.waited_ms is None else report.waited_ms
        return given_up(error, found, waited_ms, self._limit_ms(permit))

    def _limit_ms(self, permit: Permit) -> float:
        """Return after how long a call is overdue by the policy of its circuit, else by the fleet."""
        slow_ms = None if permit.circuit is None else permit.circuit.breaker.policy.slow_call_duration_threshold_ms
        view = None if self.fleet is None else self.fleet.views.get(tool_circuit(permit.tool))
        return overdue_after_s(slow_ms, None if view is None else view.overdue_after_ms) * 1000

    def _shown(self, error: BaseException | str) -> str:
        """Return the message of ``error``, by the user's rule if there is one."""
        return message_of(error) if self._redactor is None else self._redactor(message_of(error))

    def classify(self, error: BaseException | str) -> Classification:
        """Return what kind of failure it is: by the user's rule, else by default. A message is of class ``tool``."""
        if isinstance(error, str):
            return Classification("tool")
        found = None
        if self._classifier is not None:
            try:
                found = checked(self._classifier(error))
            except Exception as broken:  # noqa: BLE001 - a user's rule may fail in any way; the call must not
                self._complaints.warning("the client's classify failed; the default decides", broken)
        return found or classify(error)


def _of_target(
    permit: Permit, found: Classification, message: str, error_type: str | None
) -> tuple[Classification, str | None]:
    """Return the class and the type of a failure. An outage that a tool reports of the call's target is one of that target."""
    outage = outage_of_target(found.error_class, message) if permit.caller.target else None
    return (found, error_type) if outage is None else (Classification(outage), TARGET_ERROR)


def _arguments(permit: Permit, report: CallReport, error_class: ErrorClass | None) -> str | None:
    """Return the hash of the call's arguments if the caller's error made it fail; None if it isn't known."""
    if permit.arguments is not None and error_class in CALLER_CLASSES:
        return permit.arguments()
    return report.arguments
