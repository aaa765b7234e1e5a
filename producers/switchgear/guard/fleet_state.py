"""What decides while the fleet's state is out of reach: the last known state, the process alone, or a refusal.

The state is *stale* when the broker has answered no fetch for :data:`~switchgear.follower.follower.STALE_AFTER_S`. Then:

* ``last_known``: the fleet's last words hold until they are ``state_max_age_s`` old, after that the process's own breakers
  decide alone. An open circuit whose wait is over is not probed for the fleet meanwhile: the process's own breaker decides.
* ``local``: the process's own breakers decide alone at once.
* ``deny``: every call is refused, also before the state was ever read.

Nothing of this is asked in a call: the background looks once a second and exchanges what the calls read. A client that is closed
has no background and hears nothing more, so its calls look themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

from switchgear.follower.status import STALE_AFTER_S
from switchgear.follower.view import AgingViews, DenyingViews, SilentViews, Views
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.follower.follower import CircuitFollower


OnStateUnavailable = Literal["last_known", "local", "deny"]
GuardMode = Literal["loading", "fleet", "last_known", "local_only", "deny"]
"""Who decides: ``fleet`` (both, with a current picture), ``loading`` (the process alone, until the circuits are read for the
first time), ``last_known``, ``local_only``, or ``deny`` (nobody: every call is refused)."""

STATE_MAX_AGE_S: Final = 300.0
"""Five of the default waits in open: a circuit that was open then would have been probed several times since, and one that
was closed may have opened and closed again. Older words say more about the past than the process's own breaker does."""


def mode_of(
    *, loaded: bool, age_s: float | None, on_state_unavailable: OnStateUnavailable, state_max_age_s: float
) -> GuardMode:
    """Who decides, given what is known.

    Args:
        loaded: The circuits were read to the end once.
        age_s: Seconds since the broker last answered; None for never.
        on_state_unavailable: See above.
        state_max_age_s: See above, in seconds.
    """
    if loaded and age_s is not None and age_s < STALE_AFTER_S:
        return "fleet"
    if on_state_unavailable == "deny":
        return "deny"
    if not loaded:
        return "loading"
    if on_state_unavailable == "local" or age_s is None or age_s >= state_max_age_s:
        return "local_only"
    return "last_known"


class Availability:
    """Watches one follower, and has its table answer accordingly.

    Args:
        follower: Whose picture it is.
        on_state_unavailable: See above.
        state_max_age_s: Seconds, at least :data:`~switchgear.follower.follower.STALE_AFTER_S`.
        clock: Monotonic seconds: an age must not change when the machine's clock is set.

    Raises:
        SwitchgearError: an impossible argument; the message names it.
    """

    def __init__(
        self,
        follower: CircuitFollower,
        on_state_unavailable: OnStateUnavailable,
        state_max_age_s: float,
        clock: Callable[[], float],
    ) -> None:
        if on_state_unavailable not in {"last_known", "local", "deny"}:
            raise SwitchgearError(
                f"on_state_unavailable is {on_state_unavailable!r}.", hint="Give it last_known, local or deny."
            )
        if not state_max_age_s >= STALE_AFTER_S:
            raise SwitchgearError(
                f"state_max_age_s is {state_max_age_s}.", hint=f"Give it {STALE_AFTER_S:g} seconds or more."
            )
        self._follower = follower
        self._wanted = on_state_unavailable
        self._max_age_s = state_max_age_s
        self._clock = clock
        self._fresh_at: float | None = None
        self._was_loaded = False
        self._ended = False
        self._mode: GuardMode = "loading"
        self.look()

    @property
    def mode(self) -> GuardMode:
        """As of the last :meth:`look`, which is now where nobody looks every second."""
        return self.look() if self._ended else self._mode

    def end(self) -> None:
        """The background looks no more: from here on every call does."""
        self._ended = True
        self._follower.table.views.look = self.look
        self.look()

    def look(self) -> GuardMode:
        """See how old the picture is, and have the table answer accordingly."""
        follower, now = self._follower, self._clock()
        age = follower.age_s()
        if age is not None:
            self._fresh_at = now - age
        else:
            if follower.loaded and not self._was_loaded:  # read to the end just now, and no fetch was answered since
                self._fresh_at = now
            if self._fresh_at is not None:  # also in a forked child: its own connection has not answered yet
                age = max(0.0, now - self._fresh_at)
        self._was_loaded = self._was_loaded or follower.loaded
        mode = self._mode = mode_of(
            loaded=self._was_loaded,
            age_s=age,
            on_state_unavailable=self._wanted,
            state_max_age_s=self._max_age_s,
        )
        follower.table.views.answer(_ANSWERS.get(mode, AgingViews if self._ended else Views))
        # A call that finds no circuit says generation 0 where all circuits are known: here they are not.
        if mode == "local_only":
            follower.loaded = False
        elif mode == "fleet":
            follower.loaded = True
        return mode


_ANSWERS: Final[dict[GuardMode, type[Views]]] = {"local_only": SilentViews, "deny": DenyingViews}
