"""The session's limits and the circuits, which every call asks."""

from __future__ import annotations

from switchgear.guard.call import Call, Step
from switchgear.guard.decision import PendingProbe
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Rejection


class Circuit(Step):
    """Takes a permit, or refuses."""

    def before(self, call: Call) -> Rejection | PendingProbe | None:
        """Ask for a permit."""
        answer = call.plan.runtime.ask(call.tool)
        if isinstance(answer, Permit):
            call.permitted(answer)
            return None
        return answer
