"""Plan: one tool's options, made ready for its calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from switchgear.caching.call_key import CallKey, CallKeys, token_of
from switchgear.classify import Classification
from switchgear.classify.classification import checked
from switchgear.classify.result import HARMLESS, failure_in
from switchgear.fallback.arguments import fitted
from switchgear.fallback.registry import StandIn, resolved
from switchgear.guard.deferred_results import serves_once
from switchgear.guard.options import Adapter, GuardOptions
from switchgear.sessions.session import session_of, session_stack
from switchgear.sessions.usage import NOTHING, Usage, usage_of

if TYPE_CHECKING:
    from switchgear.caching.cache import Cached
    from switchgear.guard.argument_mismatch import Arguments
    from switchgear.guard.runtime import Runtime
    from switchgear.guard.tool_function import Kind, ToolFunction


class Plan:
    """What a user's function does wrong here is logged, a minute at a time, and the call goes on without it.

    Args:
        runtime: What the client's calls share.
        tool: Whose calls.
        options: Of its guard.
        receiver: The first argument is the object it is a method of, and no parameter.
    """

    __slots__ = (
        "_keyed", "_keys", "_shares", "_stored", "_watched", "group", "options", "receiver", "runtime", "timeout", "tool", "usage",
    )  # fmt: skip

    def __init__(self, runtime: Runtime, tool: str, options: GuardOptions, *, receiver: bool = False) -> None:
        self.runtime = runtime
        self.tool = tool
        self.options, self.group = resolved(runtime, options)
        self.receiver = receiver
        self.timeout = options.timeout
        self.usage = options.usage
        self._stored = options.cache
        self._watched = options.on_duplicate is not None
        self._shares = self._watched or self._stored is not None or options.single_flight
        self._keyed = runtime.sends_hash or self._shares
        self._keys = CallKeys(runtime.hash, options.parameters, receiver=receiver)

    def key(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallKey | None:
        """What identifies the call; None where nobody asks, or where its parameters can't be told from others."""
        if not self._keyed:
            return None
        try:
            parameters = self._keys.parameters(function, args, kwargs)
        except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the call must not
            self.runtime.complaints.warning(f"parameters of {self.tool} have no hash", error)
            return None
        if not self._shares and not session_stack.get():  # the hash is for the event alone
            return CallKey(parameters, None)
        try:
            return CallKey(parameters, f"{parameters} {self._keys.called(function, args)}")
        except TypeError as error:
            if self._shares:
                self.runtime.complaints.warning(
                    f"calls of {self.tool} share nothing: add __weakref__ to the __slots__ of what they are methods of",
                    error,
                )
            return CallKey(parameters, None)

    def flight(self, key: CallKey, kind: Kind) -> Hashable | None:
        """What identical calls at the same time have in common; None for a call that is made in any case.

        One session's limits and circuits must not answer for another's.
        """
        if key.call is None or not self.options.single_flight:
            return None
        session = session_of(self.runtime)
        return self.tool, kind, key.call, None if session is None else token_of(session)

    def cached(self, key: CallKey | None, *, refused: bool) -> Cached | None:
        """A result kept for ``key``; a stale one only where the call was ``refused``."""
        if self._stored is None or key is None or key.call is None:
            return None
        return self.runtime.stores.cache(self.tool, self._stored).get(key.call, stale=refused, tool=self.tool)

    def keep(self, key: CallKey | None, result: Any) -> None:
        """Remember a result, unless its first reader uses it up."""
        if self._stored is None or key is None or key.call is None:
            return
        if serves_once(result):
            self.runtime.complaints.warning(
                f"results of {self.tool} serve once and are not kept: {type(result).__name__}"
            )
            return
        self.runtime.stores.cache(self.tool, self._stored).put(key.call, result)

    def session_id(self) -> str:
        """Of the client's session that runs here; empty outside of every one."""
        session = session_of(self.runtime)
        return "" if session is None else session.session_id

    def noted(self, session_id: str, key: CallKey | None) -> int:
        """How often this session made this very call lately; tells ``on_duplicate``. 0 where nobody watches."""
        options = self.options
        if key is None or key.call is None or not (self._watched or (self.runtime.sends_hash and session_id)):
            return 0
        count = self.runtime.stores.duplicates.noted(session_id, self.tool, key.call)
        if count >= options.duplicate_after and callable(options.on_duplicate):
            from switchgear.caching.repeated_calls import Duplicate  # noqa: PLC0415 - loaded by the watch

            try:
                options.on_duplicate(Duplicate(self.tool, session_id, count))
            except Exception as error:  # noqa: BLE001 - as above
                self.runtime.complaints.warning(f"on_duplicate of {self.tool} failed", error)
        return count

    def taken_back(self, session_id: str, key: CallKey) -> None:
        """A noted call gave its caller nothing: it was refused, or failed for a reason that is not the caller's."""
        if key.call is not None:
            self.runtime.stores.duplicates.taken_back(session_id, self.tool, key.call)

    def arguments_for(self, name: str, target: ToolFunction, kind: Kind, given: Arguments) -> Arguments | None:
        """Return what to call ``target`` with, the fallback called ``name``; None, and log it, if it can't stand in.

        Args:
            name: The fallback tool.
            target: Its function.
            kind: The kind of the call.
            given: The call's arguments.
        """
        args, kwargs = given
        receiver = args[:1] if self.receiver else ()
        adapted = self._adapted_for(name, kind, (args[len(receiver) :], kwargs))
        if adapted is None:
            return None
        found = fitted(target, receiver, adapted)
        if isinstance(found, str):
            self.runtime.complaints.warning(f"{name} can't stand in for {self.tool}: {found}")
            return None
        return found

    def _adapted_for(self, name: str, kind: Kind, given: Arguments) -> Arguments | None:
        """Adapt arguments for ``name``: by the guard's own adapter, or step by step along the fallbacks that lead there."""
        adapt = self.options.adapt
        via = self.runtime.named_by(self.tool, self.options.chain, name, self.group)
        if via == self.tool or callable(adapt) or (adapt is not None and name in adapt):
            return self.adapted(name, *given)
        found = self._adapted_for(via, kind, given)
        between = self.runtime.stand_ins.find(via, kind, self.group)
        if found is None or not isinstance(between, StandIn):
            return found
        plan: Plan = between.plan
        return plan.adapted(name, *found)

    def adapted(
        self, target: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]] | None:
        """The arguments (without a receiver) for the fallback ``target``; None where the adapter fails."""
        found = self.options.adapt
        adapter: Adapter | None = found.get(target) if isinstance(found, Mapping) else found
        if adapter is None:
            return args, kwargs
        try:
            positional, named = adapter(*args, **kwargs)
            return tuple(positional), dict(named)
        except Exception as error:  # noqa: BLE001 - as above; another fallback may do
            self.runtime.complaints.warning(f"the arguments of {self.tool} could not be adapted for {target}", error)
            return None

    def used(self, result: Any) -> Usage:
        """What ``result`` says it cost."""
        assert self.usage is not None
        try:
            return usage_of(self.usage(result))
        except Exception as error:  # noqa: BLE001 - as above
            self.runtime.complaints.warning(f"the usage of {self.tool} could not be read", error)
            return NOTHING

    def classification(self, error: BaseException) -> Classification | None:
        """The guard's own verdict; None leaves it to the client's."""
        classify = self.options.classify
        if classify is None:
            return None
        try:
            return checked(classify(error))
        except Exception as broken:  # noqa: BLE001 - as above
            self.runtime.complaints.warning(f"classify of {self.tool} failed", broken)
            return None

    def failure_in(self, result: Any) -> Classification | None:
        """What kind of failure ``result`` is; None for one that is none."""
        rule = self.options.classify_result
        if rule is None:
            return None if type(result) in HARMLESS else failure_in(result)
        try:
            return checked(rule(result))
        except Exception as broken:  # noqa: BLE001 - as above
            self.runtime.complaints.warning(f"classify_result of {self.tool} failed", broken)
            return None
