"""What the fleet's circuit says to a call: a pure function of its view, the time, and who asks.

``open_until`` and a lease's ``expires_at`` are instants by the broker's clock, compared with this machine's. A clock that is
ahead asks too early: the owner grants nothing, the call is refused, and the next may ask a second later. One that is behind
asks later than it could. Neither makes a probe too many.
"""

from __future__ import annotations

from enum import Enum

from switchgear.follower.view import CircuitView, LeaseView


class Verdict(Enum):
    """Beside a LeaseView, which is the permission to probe."""

    PASS = "closed, or not enforced"  # noqa: S105 - not a password
    REFUSE = "open"
    ASK = "a probe may go: ask the owner for a lease"


def judge(view: CircuitView, now: float, emitter_id: str) -> Verdict | LeaseView:
    """Decide for a call at ``now`` (seconds since 1970) of the process ``emitter_id``."""
    if view.passes:
        return Verdict.PASS
    for lease in view.leases:
        if lease.emitter_id == emitter_id and now < lease.expires_at:
            return lease
    if view.state == "half_open" and not view.forced:
        # Others probe. Without a live lease the probe is lost or done, and the next one is free.
        taken = view.permits_left <= 0 and any(now < lease.expires_at for lease in view.leases)
        return Verdict.REFUSE if taken else Verdict.ASK
    if view.open_until is None:
        return Verdict.REFUSE if view.forced else Verdict.ASK
    return Verdict.REFUSE if now < view.open_until else Verdict.ASK
