"""The options ``on_duplicate`` and ``duplicate_after``: an agent that makes the very same call again and again is in a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from switchgear.guard.call import Call, Step
from switchgear.guard.rejections import Rejection
from switchgear.sessions.session import session_of
from switchgear_schemas.enums import DEFAULT_COUNTED

if TYPE_CHECKING:
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
            if options.on_duplicate is not None:
                from switchgear.caching.repeated_calls import Duplicate  # noqa: PLC0415 - loaded by the stores

                try:
                    options.on_duplicate(Duplicate(call.tool, session_id, call.repeats))
                except Exception as error:  # noqa: BLE001 - a user's function may fail; the call must not
                    runtime.complaints.warning(f"on_duplicate of {call.tool} failed", error)
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
