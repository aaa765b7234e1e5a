"""A guarded call: its options, its state, and the options ``cache``, ``on_duplicate`` and ``duplicate_after``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from switchgear.caching.call_key import CallKey, CallKeys
from switchgear.caching.repeated_calls import Duplicate
from switchgear.classify import IGNORE, Classification
from switchgear.classify.classification import checked
from switchgear.classify.result import classify_result, result_text, says_failed
from switchgear.fallback import resolved
from switchgear.guard.attempts import Pending
from switchgear.guard.caller_errors import CALLER_CLASSES
from switchgear.guard.permits import CallReport, Permit
from switchgear.guard.rejections import NO_CALLER, Caller, Rejection
from switchgear.guard.targets import target_of_call
from switchgear.guard.tool_function import misfit
from switchgear.sessions import session_of, session_stack
from switchgear.usage import NOTHING, Usage, usage_of
from switchgear_schemas.enums import DEFAULT_COUNTED

if TYPE_CHECKING:
    from switchgear.guard.options import GuardOptions
    from switchgear.guard.runtime import Runtime
    from switchgear.guard.tool_function import Kind
    from switchgear_schemas.enums import ErrorClass


WORTH_REPEATING: Final = DEFAULT_COUNTED | {"policy"}
"""Classes of failures after which the same call may succeed: the tool is broken, or another one that it needs was refused."""

_NO_TEXT: Final = "the result says that the tool failed"
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answer(Generic[R_co]):
    """A result with what served it: what ``gear.answer`` and ``gear.aanswer`` return."""

    value: R_co
    tool: str
    """The tool that answered: the one asked for, a fallback, or the name of a fallback function."""
    served_by: Literal["call", "fallback", "cache"] = "call"
    stale: bool = False
    """The value is a cached one, older than the policy's ``ttl_s``."""
    age_s: float = 0.0
    """The age of a cached value in seconds; else 0."""


class GuardPlan:
    """One tool's options, compiled for its calls.

    With ``receiver``, the first argument is the object that the function is a method of.
    """

    __slots__ = ("_keyed", "_keys", "_shares", "by_text", "group", "options", "receiver", "runtime", "tool")

    def __init__(self, runtime: Runtime, tool: str, options: GuardOptions, *, receiver: bool = False) -> None:
        self.runtime = runtime
        self.tool = tool
        self.options, self.group = resolved(runtime, options)
        self.receiver = receiver
        self.by_text = runtime.text_rule(tool)
        """The rule for the text of a failed result."""
        self._shares = options.on_duplicate is not None or options.cache is not None or options.single_flight
        """Equal calls have something in common."""
        self._keyed = runtime.sends_hash or self._shares
        self._keys = CallKeys(runtime.hash, options.parameters, receiver=receiver)

    def key(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallKey | None:
        """Return what identifies the call; None if no option needs it, or if its parameters have no hash."""
        if not self._keyed:
            return None
        parameters = self.parameters(function, args, kwargs)
        if parameters is None:
            return None
        if not self._shares and not session_stack.get():  # the hash is for the event alone
            return CallKey(parameters, None)
        called = self.runtime.attempt(
            f"calls of {self.tool} share nothing: add __weakref__ to the __slots__ of what they are methods of",
            lambda: f"{parameters} {self._keys.called(function, args)}",
        )
        return CallKey(parameters, called)

    def parameters(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """Return the hash of the parameters; None, and log it, if they have none."""
        return self.runtime.attempt(
            f"parameters of {self.tool} have no hash", lambda: self._keys.parameters(function, args, kwargs)
        )

    def caller(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Caller:
        """Return for whom a call with these arguments is made, as far as they tell."""
        read = self.options.credential
        if read is None:
            return NO_CALLER
        given = args[1:] if self.receiver else args
        found = self.runtime.attempt(f"the credential of {self.tool} could not be read", lambda: read(*given, **kwargs))
        if not isinstance(found, str) or not found:
            return NO_CALLER
        return Caller(credential=self.runtime.salted(found))

    def target(self, rule: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return what the call is about by the ``target`` of a policy; empty if its arguments don't say."""
        others, named = self._keys.named(function, args, kwargs)
        return target_of_call(rule, named, others)

    def used(self, result: Any) -> Usage:
        """Return what ``result`` says it cost."""
        extract = self.options.usage
        if extract is None:
            return NOTHING
        found = self.runtime.attempt(f"the usage of {self.tool} could not be read", lambda: usage_of(extract(result)))
        return found or NOTHING

    def used_by(self, error: object) -> Usage:
        """Return what the failed call says in its ``error`` that it cost.

        Many functions for ``usage`` know results alone. One that fails at an exception found no usage, and nothing is logged.
        """
        extract = self.options.usage
        if extract is None or not isinstance(error, Exception):
            return NOTHING
        try:
            return usage_of(extract(error))
        except Exception:  # noqa: BLE001 - a user's function may fail in any way; the tool's own error must reach the caller
            return NOTHING

    def classify(self, error: BaseException) -> Classification:
        """Return what kind of failure ``error`` is: by the guard's own rule, else by the client's."""
        rule = self.options.classify
        if rule is not None:
            found = self.runtime.attempt(f"classify of {self.tool} failed", lambda: checked(rule(error)))
            if found is not None:
                return found
        return self.runtime.decision.reporter.classify(error)

    def failure_in(self, result: Any) -> Classification | None:
        """Return what kind of failure ``result`` is; None if it is a success."""
        rule = self.options.classify_result
        if rule is None:
            return classify_result(result, by_text=self.by_text)
        return self.runtime.attempt(f"classify_result of {self.tool} failed", lambda: checked(rule(result)))


class Call:
    """The state of one call. The drivers in :mod:`~switchgear.guard.pipeline` move it on.

    Before the function, its options and fallbacks apply. After them the call is ``done``, or ``function`` is called with ``args``
    and ``kwargs``, and its end is reported by :meth:`succeeded`, :meth:`failed` or :meth:`not_made`.
    """

    __slots__ = (
        "_token", "acting", "age_s", "args", "done", "function", "key", "kind", "kwargs", "noted_in", "permit",
        "plan", "repeats", "served_by", "stale", "tool", "value",
    )  # fmt: skip

    def __init__(
        self,
        plan: GuardPlan,
        kind: Kind,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        self.plan = plan
        self.acting = plan
        """The plan whose time limit, usage and classification apply: a fallback tool has its own."""
        self.kind = kind
        self.tool = plan.tool
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.key = plan.key(function, args, kwargs)
        self.permit: Permit | None = None
        """None for a user's own function that stands in for the tool: no circuit decides about it."""
        self.done = False
        """``value`` answers it without a call."""
        self.value: Any = None
        self.served_by: Literal["call", "fallback", "cache"] = "call"
        self.stale = False
        self.age_s = 0.0
        self.repeats = 0
        """How often this session made this very call lately; 0 if that isn't watched."""
        self.noted_in: str | None = None
        """The session in which it counts as a repeated call."""
        self._token: Token[tuple[Call, ...]] | None = None

    # -- before the function ------------------------------------------------------------------------------------------

    def begin(self) -> Rejection | Pending | None:
        """Look for a repetition and a fresh result, then ask the circuits. Return a refusal, or what to wait for."""
        refusal = self.count_repetition()
        if refusal is not None:
            return refusal
        runtime = self.plan.runtime
        if self.answer_from_cache(stale=False):
            if runtime.hooks is not None:
                runtime.hooks.on_cached(self.tool, None)
            return None
        caller = self.plan.caller(self.args, self.kwargs)
        answer = runtime.ask(self.tool, caller, arguments=self.parameters, target=self.target)
        if isinstance(answer, Permit):
            self.permitted(answer)
            return None
        return answer

    def permitted(self, permit: Permit) -> None:
        """Go on with ``permit``."""
        self.permit = permit
        key = self.key
        parameters_hash = None if key is None or not self.plan.runtime.sends_hash else key.parameters
        permit.describe("fallback" if self.served_by == "fallback" else "call", parameters_hash)

    def count_repetition(self) -> Rejection | None:
        """Count equal calls of a session. Return a refusal, or notify the user's function, if there are too many."""
        key, options, runtime = self.key, self.plan.options, self.plan.runtime
        if key is None or key.call is None:
            return None
        session = session_of(runtime)
        session_id = "" if session is None else session.session_id
        if options.on_duplicate is None and not (runtime.sends_hash and session_id):
            return None
        self.repeats = runtime.duplicates.noted(session_id, self.tool, key.call)
        self.noted_in = session_id
        if self.repeats >= options.duplicate_after:
            if options.on_duplicate == "refuse":
                return Rejection(self.tool, "open", "duplicate", f"the same call was made {self.repeats} times")
            notify = options.on_duplicate
            if notify is not None:
                repeated = Duplicate(self.tool, session_id, self.repeats)
                runtime.attempt(f"on_duplicate of {self.tool} failed", lambda: notify(repeated))
        return None

    def take_back_repetition(self) -> None:
        """Its caller got nothing, or may try again: making the same call again is not a repetition."""
        session_id, self.noted_in = self.noted_in, None
        if session_id is not None and self.key is not None and self.key.call is not None:
            self.plan.runtime.duplicates.taken_back(session_id, self.plan.tool, self.key.call)

    def answer_from_cache(self, *, stale: bool) -> bool:
        """Answer with a cached result, also with a ``stale`` one if you say so. Return whether there is one."""
        plan, policy, key = self.plan, self.plan.options.cache, self.key
        if policy is None or key is None or key.call is None:
            return False
        found = plan.runtime.cache(plan.tool, policy).get(key.call, stale=stale, tool=plan.tool)
        if found is None:
            return False
        self.value, self.age_s, self.stale = found.value, found.age_s, found.stale
        self.served_by, self.done = "cache", True
        return True

    def parameters(self) -> str | None:
        """Return the hash of the arguments, None if they have none."""
        if self.key is not None and self.acting is self.plan:
            return self.key.parameters
        return self.acting.parameters(self.function, self.args, self.kwargs)

    def target(self, rule: str) -> str:
        """Return what the call is about by the ``target`` of a policy."""
        return self.acting.target(rule, self.function, self.args, self.kwargs)

    def make(self) -> Any:
        """Call the function."""
        return self.function(*self.args, **self.kwargs)

    def __enter__(self) -> None:
        """Begin to make it. The calls that a probe or a stand-in makes itself find it in :data:`running`."""
        if self.permit is None or self.permit.probe:
            self._token = running.set((*running.get(), self))

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._token is not None:
            with contextlib.suppress(ValueError):  # ended in another context, where it was not set
                running.reset(self._token)
        if error is not None:
            self.failed(error)

    # -- after the function -------------------------------------------------------------------------------------------

    def succeeded(self, result: Any) -> None:
        """The function returned ``result``, which may itself be a failure."""
        self.value = result
        permit, acting = self.permit, self.acting
        if permit is None:
            return
        usage = acting.used(result)
        failure = acting.failure_in(result)
        text = None if failure is None or _is_fine(result, failure) else result_text(result) or _NO_TEXT
        if failure == IGNORE:
            self._report(text, failure, usage)
        elif failure is not None:
            self._report_failure(text or "", failure, usage)
        else:
            self.finished(usage)

    def finished(self, usage: Usage) -> None:
        """It ended well, at the cost of ``usage``."""
        self._report(None, None, usage)
        self._keep_result()

    def failed(self, error: BaseException, usage: Usage = NOTHING, waited_ms: float | None = None) -> None:
        """It ended with ``error``, which may say what it cost.

        Args:
            error: How it ended.
            usage: What is known without the error.
            waited_ms: How long its caller had waited for the tool without an answer. None for its duration.
        """
        if self.permit is None:
            self.take_back_repetition()
            return
        if self.permit.reported:  # it was not made after all
            return
        if isinstance(error, TypeError) and misfit(self.function, self.args, self.kwargs):
            self.permit.misfit(error, self._parameters_if_counted("invalid_input"))
            return
        self._report_failure(error, self.acting.classify(error), usage + self.acting.used_by(error), waited_ms)

    def left(self, error: BaseException, usage: Usage) -> None:
        """The caller abandoned the call while the tool waited for it; report it as cancelled."""
        self._report_failure(error, Classification("cancelled"), usage, 0.0)

    def not_made(self) -> None:
        """It was not made after all."""
        self.take_back_repetition()
        if self.permit is not None:
            self.permit.release()

    def rests(self) -> None:
        """It doesn't wait for the tool until :meth:`paused`, so it is not overdue meanwhile."""
        if self.permit is not None:
            self.permit.rests()

    def paused(self, seconds: float) -> None:
        """Leave ``seconds`` out of its duration: it did not wait for the tool. Now it does."""
        if self.permit is not None:
            self.permit.paused(seconds)

    def clock(self) -> float:
        """Return the seconds that its duration is measured in."""
        return self.plan.runtime.clock()

    def answer(self) -> Answer[Any]:
        """Return what the caller gets, with where it came from."""
        return Answer(self.value, self.tool, self.served_by, self.stale, self.age_s)

    def _keep_result(self) -> None:
        """Put the result of the tool itself into the cache, unless its first reader uses it up."""
        plan, policy, key = self.plan, self.plan.options.cache, self.key
        if policy is None or self.served_by != "call" or key is None or key.call is None:
            return
        if serves_once(self.value):
            kind = type(self.value).__name__
            plan.runtime.complaints.warning(f"results of {plan.tool} serve once and are not kept: {kind}")
            return
        plan.runtime.cache(plan.tool, policy).put(key.call, self.value)

    def _report_failure(
        self,
        error: BaseException | str,
        classification: Classification,
        usage: Usage,
        waited_ms: float | None = None,
    ) -> None:
        if classification.error_class in WORTH_REPEATING:
            self.take_back_repetition()
        self._report(error, classification, usage, waited_ms)

    def _report(
        self,
        error: BaseException | str | None,
        classification: Classification | None,
        usage: Usage,
        waited_ms: float | None = None,
    ) -> None:
        if self.permit is not None:
            metadata = {"duplicates": self.repeats} if self.repeats > 1 else None
            arguments = None if classification is None else self._parameters_if_counted(classification.error_class)
            self.permit.end(CallReport(error, classification, usage, 0, metadata, None, waited_ms, arguments))

    def _parameters_if_counted(self, error_class: ErrorClass) -> str | None:
        """Return the hash of the arguments if the failure is an error of the caller that a limit counts."""
        permit = self.permit
        counted = permit is not None and permit.caller_errors is not None and error_class in CALLER_CLASSES
        return self.parameters() if counted else None


running: Final[ContextVar[tuple[Call, ...]]] = ContextVar("switchgear_running", default=())
"""The probes and the users' own stand-in functions that the running code is part of."""


def serves_once(result: Any) -> bool:
    """Return whether its first reader uses ``result`` up: an awaitable, an iterator, an open file."""
    kind = type(result)
    return any(hasattr(kind, name) for name in ("__await__", "__next__", "__anext__"))


def _is_fine(result: Any, failure: Classification) -> bool:
    """Return whether a rule ignores a ``result`` that doesn't say itself that the tool failed, as MCP's results do."""
    return failure == IGNORE and not says_failed(result)
