"""Permits, and how their holders report the end of a call. What follows is :mod:`switchgear.guard.reporter`'s."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack

import msgspec

from switchgear.classify.classification import IGNORE, Classification, checked
from switchgear.guard.credentials import Held
from switchgear.guard.families import FamilyPermit
from switchgear.guard.overdue_calls import OverdueCalls, Wait
from switchgear.guard.rejections import NO_CALLER, Caller
from switchgear.usage import NOTHING, ReportError, Usage, amount, usage_from, usage_of, whole
from switchgear_schemas.enums import (
    MOST_BYTES,
    MOST_MS,
    ErrorClass,
    ServedBy,
)
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.breaker import BreakerPermit
    from switchgear.guard.caller_errors import Arguments, CallerErrorLimit
    from switchgear.guard.local_circuits import LocalCircuit
    from switchgear.guard.turns import Turn
    from switchgear.sessions import Session


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


class Reports(Protocol):
    """Take what permits report: a :class:`~switchgear.guard.reporter.Reporter`."""

    clock: Callable[[], float]
    """Returns monotonic seconds."""
    overdue: OverdueCalls[Permit]
    """The calls under way."""

    def report(self, permit: Permit, report: CallReport) -> None:
        """Count and send a call that was made."""

    def misfit(self, permit: Permit, error: TypeError, arguments: str | None) -> None:
        """Count arguments that don't fit, and give back what the permit holds."""

    def release(self, permit: Permit) -> None:
        """Give back what the permit of a call holds that wasn't made."""


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

    What the decision gave doesn't change. What is known later is set by methods: nobody else assigns a field.

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
        turn: Its turn, if the fleet keeps a limit of the tool, else None.
    """

    reporter: Reports
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
    turn: Turn | None = None

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

    # -- once permitted, by those who know more about the call ---------------------------------------------------------

    def counts_in(
        self, sessions: tuple[Session, ...], caller_errors: CallerErrorLimit | None, trial: str | None
    ) -> None:
        """Count the call in ``sessions``, and its caller's errors by a limit."""
        self.sessions, self.caller_errors, self.trial = sessions, caller_errors, trial

    def describe(self, served_by: ServedBy, parameters_hash: str | None, arguments: Arguments | None = None) -> None:
        """Say what is called, and with what."""
        self.served_by, self.parameters_hash, self.arguments = served_by, parameters_hash, arguments

    def watch(self, wait: Wait) -> None:
        """Measure how long the caller waits."""
        self.wait = wait

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
