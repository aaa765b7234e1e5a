"""The part that all adapters share: ask about a framework's tool call, then report how it ended.

An adapter translates. It finds the tool's name, its arguments and its end in what the framework gives it, and it turns a
refusal into what the framework shows to the model. Everything else is here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec

from switchgear import arguments
from switchgear.classify import IGNORE, Classification
from switchgear.classify.result import result_text
from switchgear.classify.tool_failure import tool_failure
from switchgear.client import Switchgear
from switchgear.guard.caller_errors import CallerErrorLimit
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection
from switchgear.guard.tool_function import guarded_inside
from switchgear.integrations.turns import Turns
from switchgear.model_text import UNKNOWN_TOOLS
from switchgear.prompts import CircuitOf
from switchgear.redaction import one_line
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear.sessions import session_of, session_stack
from switchgear.usage import NOTHING, Usage, usage_of
from switchgear_schemas.enums import DEFAULT_COUNTED, ErrorClass
from switchgear_schemas.ids import mint_metric_id

MOST_SESSIONS: Final = 10_000
"""The most sessions whose refusals are counted. The one that was refused longest ago is forgotten first."""
MOST_FAILED: Final = 1_000
"""The most failed calls to remember, so that a framework's retries of them don't count again."""
_MOST_OF_A_NAME: Final = 100
MOST_OPEN: Final = 10_000
"""The most calls that wait for their end in :class:`OpenCalls`."""
_NO_TEXT: Final = "the result says that the tool failed"


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A call that must not be made. It is false, where a :class:`StartedCall` is true."""

    rejection: Rejection
    """The refusal. Its ``tool`` and ``fallback`` are the names that the model knows."""
    ends_run: bool = False
    """The session has had as many refusals as ``terminal_after`` says. End the run by the framework's own means."""
    at: float = 0.0
    """When it was refused, in seconds since 1970."""
    call_id: str = ""
    """A new id for this call."""

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def text(self) -> str:
        """What to show to the model."""
        return self.rejection.text

    @property
    def tool_failure(self) -> dict[str, Any]:
        """The refusal as structured data, for ``_meta`` and its likes. See :func:`switchgear.classify.tool_failure`."""
        return tool_failure(
            self.rejection.source,
            self.text,
            retry_after_s=self.rejection.retry_after_s,
            correlation_id=self.call_id,
            now=self.at,
        )


class StartedCall:
    """A call that may be made. Report its end once: succeeded, failed or ignored. Later reports do nothing.

    As a context manager it reports an exception as a failure, and an end without a report as a success.

    Attributes:
        name: The tool to call, as the model knows it: the one that was asked for, or its fallback.
        circuit: The circuit of that tool.
        is_fallback: ``name`` is not the tool that was asked for.
    """

    __slots__ = ("_attempt_of", "_calls", "_permit", "circuit", "is_fallback", "name")

    def __init__(
        self, calls: ToolCalls, name: str, circuit: str, permit: Permit | None, *, asked: str, attempt_of: object = None
    ) -> None:
        self._calls = calls
        self._permit = permit
        """None for a tool whose function is guarded itself: that guard counts its calls."""
        self._attempt_of = attempt_of
        self.name = name
        self.circuit = circuit
        self.is_fallback = name != asked

    def succeeded(
        self,
        result: Any = None,
        *,
        failure: Classification | ErrorClass | None = None,
        usage: Usage | int | None = None,
        duration_ms: float | None = None,
    ) -> None:
        """Report that the tool answered with ``result``. The result may say itself that the tool failed.

        Args:
            result: What the tool returned. The client's ``classify_result`` reads it.
            failure: The class of the failure that the result reports, if you know it better.
            usage: What the call cost. By default the option ``usage`` reads it from the result.
            duration_ms: The call's duration, if you measured it.
        """
        permit = self._permit
        if permit is None or permit.reported:
            return
        gear = self._calls.gear
        found = gear.classify_result(self.circuit, result) if failure is None else _classification(failure)
        cost = gear.usage_of(self.circuit, result) if usage is None else usage_of(usage)
        if found is None:
            permit.success(duration_ms=duration_ms, **_costs(cost))
        elif found == IGNORE:
            permit.ignore(duration_ms=duration_ms, **_costs(cost))
        else:
            self._failed(result_text(result) or _NO_TEXT, found, cost, duration_ms)

    def failed(
        self,
        error: BaseException | str,
        *,
        failure: Classification | ErrorClass | None = None,
        usage: Usage | int | None = None,
        duration_ms: float | None = None,
    ) -> None:
        """Report that the call failed.

        Args:
            error: The exception, or the text of the failure (class ``tool``).
            failure: Its class, if you know it better than the client's rules.
            usage: What the call cost. By default the option ``usage`` reads it from an exception.
            duration_ms: The call's duration, if you measured it.
        """
        permit = self._permit
        if permit is None or permit.reported:
            return
        if failure is not None:
            found = _classification(failure)
        elif isinstance(error, str):
            found = Classification("tool")
        else:
            found = self._calls.gear.classify_error(self.circuit, error)
        cost = self._calls.gear.usage_of_error(self.circuit, error) if usage is None else usage_of(usage)
        self._failed(error, found, cost, duration_ms)

    def ignored(self, error: BaseException | str | None = None) -> None:
        """Report a call that says nothing about the tool: it waits for an approval, or its caller cancelled it."""
        if self._permit is not None:
            self._permit.ignore(error)

    def released(self) -> None:
        """Give the permission back: the call was not made."""
        if self._permit is not None:
            self._permit.release()

    def _failed(
        self, error: BaseException | str, found: Classification, usage: Usage, duration_ms: float | None
    ) -> None:
        permit = self._permit
        assert permit is not None
        asked = self._attempt_of
        again = asked is not None and not permit.probe and self._calls.failed_before(asked, found.error_class)
        if again and usage == NOTHING:
            permit.release()  # the call has its event already
        elif again or found == IGNORE:
            permit.ignore(error, duration_ms=duration_ms, **_costs(usage))
        else:
            if asked is not None:
                self._calls.remember_failed(asked, found.error_class)
            permit.failure(error, classification=found, duration_ms=duration_ms, **_costs(usage))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if error is None:
            self.succeeded()
        else:
            self.failed(error)


class ToolCalls(Turns):
    """The tool calls of one agent, or of one server, through a client. Thread-safe.

    Args:
        gear: The client. Of its ``defaults``, the options ``classify``, ``classify_result`` and ``usage`` hold here.
        circuit_of: The circuit's name for the name of a tool, as in ``gear.available``. By default they are the same.
        terminal_after: End the run after this many refused calls in one session, because models ignore texts. None: never.

    Raises:
        SwitchgearError: An argument is impossible. The message names it.
    """

    def __init__(
        self,
        gear: Switchgear,
        *,
        circuit_of: CircuitOf = None,
        terminal_after: int | None = None,
    ) -> None:
        if not isinstance(gear, Switchgear):
            arguments.impossible("gear", "a Switchgear client", gear, "gear = Switchgear.local() needs no Kafka.")
        if terminal_after is not None:
            arguments.whole("terminal_after", terminal_after)
        super().__init__(gear, arguments.renamer("circuit_of", circuit_of))
        self._runtime = gear._runtime  # noqa: SLF001 - the adapters are a part of the client
        self._terminal_after = terminal_after
        self._refusals = BoundedDict[str, int](MOST_SESSIONS)
        self._failed = BoundedDict[int, tuple[object, bool]](MOST_FAILED)
        """Calls of which an attempt failed, and whether with a class that counts."""
        self._lock = threading.Lock()

    # -- before the call ----------------------------------------------------------------------------------------------

    def begin(
        self,
        name: str,
        *,
        given: Mapping[str, Any] | None = None,
        tool: object = None,
        others: Sequence[str] = (),
        session_id: str | None = None,
        user_id: str = "",
        credential: str | None = None,
        attempt_of: object = None,
    ) -> StartedCall | RefusedCall:
        """Ask whether a call may be made now. It may block for the client's ``probe_wait``. See :meth:`abegin`."""
        self._known(session_id)
        inside = guarded_inside(tool)
        if inside is not None:
            return StartedCall(self, name, inside.plan.tool, None, asked=name)
        circuit, names = self.circuit(name), self.names(others)
        answer = self.gear.try_acquire(
            circuit,
            user_id=user_id,
            session_id=_theirs(session_id),
            credential=credential,
            arguments=given,
            fallbacks=names,
        )
        return self._begun(name, circuit, answer, names, session_id, attempt_of)

    async def abegin(
        self,
        name: str,
        *,
        given: Mapping[str, Any] | None = None,
        tool: object = None,
        others: Sequence[str] = (),
        session_id: str | None = None,
        user_id: str = "",
        credential: str | None = None,
        attempt_of: object = None,
    ) -> StartedCall | RefusedCall:
        """Ask whether a call may be made now.

        Args:
            name: The tool's name, as the model knows it.
            given: The call's arguments.
            tool: The framework's tool object, if you have it. If its function is guarded, that guard decides and counts.
            others: The names of all tools that the adapter can call in place of this one. Those that are its fallbacks may
                be: look at the ``name`` of the answer. Leave it empty where the framework allows no other tool.
            session_id: The framework's name for the run or conversation.
            user_id: The user that the run is for.
            credential: What the client signs in with, if the adapter sees it. Only a salted hash is kept.
            attempt_of: The framework's object for the call that the model asked for. Attempts of the same object are
                retries of one call: their failures are one event. A success after them is one of its own, and so is a probe.

        Returns:
            A StartedCall, which is true, or a RefusedCall, which is false.
        """
        self._known(session_id)
        inside = guarded_inside(tool)
        if inside is not None:
            return StartedCall(self, name, inside.plan.tool, None, asked=name)
        circuit, names = self.circuit(name), self.names(others)
        answer = await self.gear.atry_acquire(
            circuit,
            user_id=user_id,
            session_id=_theirs(session_id),
            credential=credential,
            arguments=given,
            fallbacks=names,
        )
        return self._begun(name, circuit, answer, names, session_id, attempt_of)

    def refused(
        self, rejection: Rejection, *, name: str, others: Sequence[str] = (), session_id: str | None = None
    ) -> RefusedCall:
        """Return a refusal in the model's words, and count it. For the CircuitOpenError that a guarded function raised."""
        return self._refused(rejection, name, self.names(others), session_id)

    # -- tools that don't exist ---------------------------------------------------------------------------------------

    def unknown(self, name: str, *, session_id: str | None = None) -> RefusedCall | None:
        """Ask whether a call of a tool that doesn't exist may go on to the one who says so. No circuit and no event is made.

        After as many of them in a row as ``max_caller_errors`` says, the session is refused them. A call of a tool that exists
        starts afresh.

        Args:
            name: The tool's name, as the model made it up.
            session_id: The framework's name for the run or conversation.

        Returns:
            The refusal. None: pass the call on, and report its end to :meth:`unknown_ended`.
        """
        limit = self._unknown_limit(session_id)
        if limit is None or not limit.runs:
            return None
        answer = limit.admit(UNKNOWN_TOOLS, lambda: _shown(name))
        return self._refused(answer, UNKNOWN_TOOLS, {}, session_id) if isinstance(answer, Rejection) else None

    def unknown_ended(self, name: str, *, session_id: str | None = None, found: bool = False) -> None:
        """Report the end of a call that :meth:`unknown` let through. ``found``: there is such a tool after all."""
        limit = self._unknown_limit(session_id)
        if limit is not None:
            shown = _shown(name)
            error_class: ErrorClass | None = None if found else "invalid_input"
            limit.ended(UNKNOWN_TOOLS, None, error_class, None, f'no tool is called "{shown}"', shown)

    def _unknown_limit(self, session_id: str | None) -> CallerErrorLimit | None:
        return self._runtime.caller_error_limit(session_of(self._runtime), _theirs(session_id))

    def _known(self, session_id: str | None) -> None:
        """Note a call of a tool that exists."""
        if self._runtime.caller_errors.runs:
            limit = self._unknown_limit(session_id)
            if limit is not None:
                limit.ended(UNKNOWN_TOOLS, None, None, None, None, None)

    # -- retries of the framework -------------------------------------------------------------------------------------

    def failed_before(self, call: object, error_class: ErrorClass) -> bool:
        """Return whether an attempt of this very object failed before, and said as much of the tool as ``error_class`` does."""
        known, counted = self._failed.get(id(call), (None, False))
        return known is call and (counted or error_class not in DEFAULT_COUNTED)

    def remember_failed(self, call: object, error_class: ErrorClass) -> None:
        """Remember that an attempt of ``call`` failed."""
        with self._lock:
            self._failed[id(call)] = call, error_class in DEFAULT_COUNTED  # kept alive, so that no other gets its id

    def _begun(
        self,
        name: str,
        circuit: str,
        answer: Permit | Rejection,
        names: Mapping[str, str],
        session_id: str | None,
        attempt_of: object,
    ) -> StartedCall | RefusedCall:
        if isinstance(answer, Permit):
            other = circuit if answer.tool == circuit else answer.tool
            known = name if other == circuit else names[other]
            return StartedCall(self, known, other, answer, asked=name, attempt_of=attempt_of)
        return self._refused(answer, name, names, session_id)

    def _refused(
        self, rejection: Rejection, name: str, names: Mapping[str, str], session_id: str | None
    ) -> RefusedCall:
        fallback = None if rejection.fallback is None else names.get(rejection.fallback, rejection.fallback)
        shown = msgspec.structs.replace(rejection, tool=name, fallback=fallback)
        ends_run = self._is_last(session_id)
        return RefusedCall(shown, ends_run, time.time(), mint_metric_id())

    def _is_last(self, session_id: str | None) -> bool:
        """Count a refusal of a session. Return whether it ends the run."""
        if self._terminal_after is None:
            return False
        stack = session_stack.get()
        session = stack[-1].session_id if stack else session_id or ""
        with self._lock:
            count = self._refusals[session] = self._refusals.get(session, 0) + 1
        return count >= self._terminal_after


class OpenCalls:
    """Started calls by an id of the framework, for frameworks with one hook before the call and another one after it.

    A call whose end never comes is ignored when ``MOST_OPEN`` others have begun after it. Thread-safe.
    """

    def __init__(self) -> None:
        self._calls = BoundedDict[object, StartedCall](MOST_OPEN)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._calls)

    def put(self, call_id: object, call: StartedCall) -> None:
        """Keep a started call. One with the same id is ignored: its end never came."""
        with self._lock:
            same = self._calls.pop(call_id, None)
            forgotten = self._calls.put(call_id, call)
        if same is not None:
            same.ignored()
        if forgotten is not None:
            forgotten[1].ignored()

    def take(self, call_id: object) -> StartedCall | None:
        """Return the started call with this id, once. None if it isn't known."""
        with self._lock:
            return self._calls.pop(call_id, None)


def _theirs(session_id: str | None) -> str | None:
    """Return the framework's session, None within a session of the client."""
    return None if session_stack.get() else session_id


def _shown(name: str) -> str:
    """Return a made-up name as it may be compared and shown: one line of bounded length, without quotation marks."""
    return one_line(name, _MOST_OF_A_NAME).replace('"', "'")


def _classification(given: Classification | ErrorClass) -> Classification:
    return given if isinstance(given, Classification) else Classification(given)


def _costs(usage: Usage) -> dict[str, Any]:
    if usage is NOTHING:
        return {}
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_creation_tokens": usage.cache_creation_tokens,
        "cost_usd": usage.cost_usd,
    }
