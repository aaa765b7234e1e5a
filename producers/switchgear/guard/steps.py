"""The steps of the options ``cache``, ``on_duplicate`` and ``duplicate_after``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from switchgear.caching.repeated_calls import Duplicate
from switchgear.guard.call import Call, Step
from switchgear.guard.deferred_results import serves_once
from switchgear.guard.rejections import Rejection
from switchgear.sessions.session import session_of
from switchgear_schemas.enums import DEFAULT_COUNTED

if TYPE_CHECKING:
    from switchgear.caching.cache import CachePolicy
    from switchgear_schemas.enums import ErrorClass

WORTH_REPEATING: Final = DEFAULT_COUNTED | {"policy"}
"""Classes of failures after which the same call may succeed: the tool is broken, or another one that it needs was refused."""


class RepeatedCalls(Step):
    """Counts equal calls of a session, and refuses them or notifies the user's function."""

    def before(self, call: Call) -> Rejection | None:
        """Count the call."""
        key, options = call.key, call.plan.options
        if key is None or key.call is None:
            return None
        runtime = call.plan.runtime
        session = session_of(runtime)
        session_id = "" if session is None else session.session_id
        if options.on_duplicate is None and not (runtime.sends_hash and session_id):
            return None
        call.repeats = runtime.stores.duplicates.noted(session_id, call.tool, key.call)
        call.noted_in = session_id
        if call.repeats >= options.duplicate_after:
            if options.on_duplicate == "refuse":
                return Rejection(call.tool, "open", "duplicate", f"the same call was made {call.repeats} times")
            notify = options.on_duplicate
            if notify is not None:
                repeated = Duplicate(call.tool, session_id, call.repeats)
                runtime.attempt(f"on_duplicate of {call.tool} failed", lambda: notify(repeated))
        return None

    def ended(self, call: Call, error_class: ErrorClass | None) -> None:
        """Take the call back if repeating it makes sense."""
        if error_class in WORTH_REPEATING:
            self.not_made(call)

    def not_made(self, call: Call) -> None:
        """Take the call back: repeating it is no repetition."""
        session_id, call.noted_in = call.noted_in, None
        if session_id is not None and call.key is not None and call.key.call is not None:
            call.plan.runtime.stores.duplicates.taken_back(session_id, call.plan.tool, call.key.call)


class CachedResults(Step):
    """Answers with fresh results, and with stale ones if the call is refused. Keeps the results of successes."""

    def __init__(self, policy: CachePolicy) -> None:
        self._policy = policy

    def before(self, call: Call) -> None:
        """Answer with a fresh result."""
        hooks = call.plan.runtime.hooks
        if self._answer(call, stale=False) and hooks is not None:
            hooks.on_cached(call.tool, None)

    def answer_instead(self, call: Call) -> bool:
        """Answer with a fresh or stale result."""
        return self._answer(call, stale=True)

    def ended(self, call: Call, error_class: ErrorClass | None) -> None:
        """Keep the result of the tool itself, unless its first reader uses it up."""
        key, plan = call.key, call.plan
        if error_class is not None or call.served_by != "call" or key is None or key.call is None:
            return
        if serves_once(call.value):
            kind = type(call.value).__name__
            plan.runtime.complaints.warning(f"results of {plan.tool} serve once and are not kept: {kind}")
            return
        plan.runtime.stores.cache(plan.tool, self._policy).put(key.call, call.value)

    def _answer(self, call: Call, *, stale: bool) -> bool:
        key, plan = call.key, call.plan
        if key is None or key.call is None:
            return False
        found = plan.runtime.stores.cache(plan.tool, self._policy).get(key.call, stale=stale, tool=plan.tool)
        if found is None:
            return False
        call.answered(found.value, age_s=found.age_s, stale=found.stale)
        return True
