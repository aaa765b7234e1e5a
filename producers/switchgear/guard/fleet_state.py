"""What decides while the fleet's state is out of reach.

The state is *stale* when the broker has answered no fetch for :data:`~switchgear.follower.status.STALE_AFTER_S`. Then, by
``on_state_unavailable``:

* ``last_known``: the fleet's last state holds until it is ``state_max_age_s`` old. After that the process's own breakers
  decide alone. They also decide about an open circuit whose wait is over: the fleet can't be asked for a probe.
* ``local``: the process's own breakers decide alone at once.
* ``deny``: every call is refused, also before the state was ever read.

No call checks this: the background thread does once a second, and exchanges what the calls read. A follower over HTTP runs in
processes that may be frozen, as in AWS Lambda. There each call compares the time, because it may come before the thread's next look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

from switchgear.follower.status import STALE_AFTER_S
from switchgear.follower.view import DenyingViews, SilentViews, Views, dated
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.follower.base import Follower


OnStateUnavailable = Literal["last_known", "local", "deny"]
GuardMode = Literal["loading", "fleet", "last_known", "local_only", "deny"]
"""Who decides.

``fleet``: the fleet and the process, with a current state. ``loading``: the process alone, until the circuits were read once.
``last_known`` and ``local_only``: see above. ``deny``: every call is refused.
"""

STATE_MAX_AGE_S: Final = 300.0
"""Five of the default waits in open. An open circuit would have been probed several times since, and a closed one may have
opened and closed again: an older state says less than the process's own breaker."""


def mode_of(
    *,
    loaded: bool,
    age_s: float | None,
    on_state_unavailable: OnStateUnavailable,
    state_max_age_s: float,
    stale_after_s: float = STALE_AFTER_S,
) -> GuardMode:
    """Return who decides, when the circuits were ``loaded`` once and the broker last answered ``age_s`` seconds ago."""
    if loaded and age_s is not None and age_s < stale_after_s:
        return "fleet"
    if on_state_unavailable == "deny":
        return "deny"
    if not loaded:
        return "loading"
    if on_state_unavailable == "local" or age_s is None or age_s >= state_max_age_s:
        return "local_only"
    return "last_known"


class Availability:
    """Checks the age of a follower's state, and makes its table answer accordingly.

    Raises:
        SwitchgearError: ``state_max_age_s`` is less than the follower's ``stale_after_s``.
    """

    def __init__(
        self,
        follower: Follower,
        on_state_unavailable: OnStateUnavailable,
        state_max_age_s: float,
        clock: Callable[[], float],
    ) -> None:
        if not state_max_age_s >= follower.stale_after_s:
            raise SwitchgearError(
                f"state_max_age_s is {state_max_age_s}.", hint=f"Pass {follower.stale_after_s:g} seconds or more."
            )
        self._follower = follower
        self._wanted = on_state_unavailable
        self._max_age_s = state_max_age_s
        self._clock = clock
        self._fresh_at: float | None = None
        self._was_loaded = False
        self._views = Views if follower.expired is None else dated(follower.expired, self.look)
        self.mode: GuardMode = "loading"
        """Who decides, as of the last :meth:`look`."""
        self.look()

    def look(self) -> GuardMode:
        """Check how old the state is, and make the table answer accordingly. Return who decides."""
        follower, now = self._follower, self._clock()
        age = follower.age_s()
        if age is not None:
            self._fresh_at = now - age
        else:
            if follower.loaded and not self._was_loaded:  # read to the end just now; no fetch was answered since
                self._fresh_at = now
            if self._fresh_at is not None:  # also in the child of a fork, whose own connection has not answered yet
                age = max(0.0, now - self._fresh_at)
        self._was_loaded = self._was_loaded or follower.loaded
        mode = self.mode = mode_of(
            loaded=self._was_loaded,
            age_s=age,
            on_state_unavailable=self._wanted,
            state_max_age_s=self._max_age_s,
            stale_after_s=follower.stale_after_s,
        )
        follower.table.views.answer(_ANSWERS.get(mode, self._views))
        # A call of a tool without a circuit has generation 0 once all circuits are known. Alone, the process doesn't know them.
        if mode == "local_only":
            follower.loaded = False
        elif mode == "fleet":
            follower.loaded = True
        return mode


_ANSWERS: Final[dict[GuardMode, type[Views]]] = {"local_only": SilentViews, "deny": DenyingViews}
