"""The option ``cache``: results of earlier calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from switchgear.guard.call import Call, Step
from switchgear.guard.deferred_results import serves_once

if TYPE_CHECKING:
    from switchgear.caching.cache import CachePolicy
    from switchgear_schemas.enums import ErrorClass


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
