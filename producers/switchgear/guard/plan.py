"""Plan: one tool's options, made ready for its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from switchgear.classify import Classification
from switchgear.classify.checked import checked
from switchgear.guard.options import Adapter, GuardOptions
from switchgear.guard.result_failure import HARMLESS, failure_in
from switchgear.guard.stand_ins import resolved
from switchgear.usage import NOTHING, Usage, usage_of

if TYPE_CHECKING:
    from switchgear.cache import Cached
    from switchgear.guard.runtime import Runtime


class Plan:
    """What a user's function does wrong here is logged, a minute at a time, and the call goes on without it.

    Args:
        runtime: What the client's calls share.
        tool: Whose calls.
        options: Of its guard.
        receiver: The first argument is the object it is a method of, and no parameter.
    """

    __slots__ = ("_stored", "_watched", "group", "keyed", "options", "receiver", "runtime", "timeout", "tool", "usage")

    def __init__(self, runtime: Runtime, tool: str, options: GuardOptions, *, receiver: bool = False) -> None:
        self.runtime = runtime
        self.tool = tool
        self.options, self.group = resolved(runtime, options)
        self.receiver = receiver
        self.timeout = options.timeout
        self.usage = options.usage
        self._stored = options.cache
        self._watched = options.on_duplicate is not None
        self.keyed = runtime.sends_hash or self._watched or self._stored is not None or options.single_flight

    def key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """A hash of what identifies the call; None where it has none."""
        parameters = args[1:] if self.receiver and args else args
        chosen = self.options.parameters
        try:
            if chosen is None:
                return self.runtime.hash(parameters, kwargs)
            return self.runtime.hash((chosen(*parameters, **kwargs),))
        except Exception as error:  # noqa: BLE001 - a user's object may fail in any way; the call must not
            self.runtime.complaints.warning(f"parameters of {self.tool} have no hash", error)
            return None

    def cached(self, key: str | None, *, refused: bool) -> Cached | None:
        """A result kept for ``key``; a stale one only where the call was ``refused``."""
        if self._stored is None or key is None:
            return None
        found = self.runtime.stores.cache(self.tool, self._stored).get(key)
        return found if found is not None and (refused or not found.stale) else None

    def keep(self, key: str | None, result: Any) -> None:
        """Remember a result."""
        if self._stored is not None and key is not None:
            self.runtime.stores.cache(self.tool, self._stored).put(key, result)

    def noted(self, session_id: str, key: str | None) -> int:
        """How often this session made this very call lately; tells ``on_duplicate``. 0 where nobody watches."""
        options = self.options
        if key is None or not (self._watched or (self.runtime.sends_hash and session_id)):
            return 0
        count = self.runtime.stores.duplicates.noted(session_id, self.tool, key)
        if count >= options.duplicate_after and callable(options.on_duplicate):
            from switchgear.duplicates import Duplicate  # noqa: PLC0415 - loaded by the watch

            try:
                options.on_duplicate(Duplicate(self.tool, session_id, count))
            except Exception as error:  # noqa: BLE001 - as above
                self.runtime.complaints.warning(f"on_duplicate of {self.tool} failed", error)
        return count

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
