"""All limits of one tool, and when their record is news. The owner of the tool's circuit keeps it in the tool's row."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from switchgear.breaker.values import Count, Instant
from switchgear.pacing.active import ActiveProcesses
from switchgear.pacing.limit import Limit, Observed
from switchgear.pacing.share import LITTLE
from switchgear_schemas.enums import MAX_CREDENTIAL_LENGTH
from switchgear_schemas.pacing import DEMAND_S, Pace, RateLimit, StatedLimit, read_limit

if TYPE_CHECKING:
    from switchgear_schemas.plain_policy import Policy

MOST_CREDENTIALS: Final = 32
"""Credentials of a tool with limits of their own. A further one shares the limit of the calls without one."""
PUBLISH_EVERY_S: Final = 1.0
"""Of a tool whose limits are kept."""
SHOW_EVERY_S: Final = 10.0
"""Of a tool whose limits are only shown."""
KEPT_NEWS: Final = 0.02
SHOWN_NEWS: Final = 0.1
"""By how much a rate must change to be news."""

Credential = Annotated[str, Meta(max_length=MAX_CREDENTIAL_LENGTH)]


class Told(msgspec.Struct, array_like=True):
    """What the last record said of a limit."""

    rate: float
    granted: float
    asked: Count
    paused_until: Instant


class Pacing(msgspec.Struct, array_like=True):
    """The limits of a tool. A row holds it as it is. Append new fields with a default: older rows then still load."""

    active: ActiveProcesses
    limits: dict[Credential, Limit] = {}
    told_at: Instant = 0.0
    """When the last record was published."""
    told: dict[Credential, Told] = {}

    @classmethod
    def begin(cls, now: float) -> Pacing:
        """Return the pacing of a tool of which nothing is known."""
        return cls(ActiveProcesses(now))

    def add(self, now: float, event: Observed, policy: Policy) -> None:
        """Count what an event says, and learn from it. ``now`` is the broker's time of the event."""
        stated = stated_limit(policy)
        key = self._key(event) if stated is None and policy.pace == "enforce" else ""
        limit = self.limits.get(key)
        if limit is None:
            limit = self.limits[key] = Limit(now, now)
        limit.add(now, stated, event)
        if event.process:
            self.active.add(limit.clock, event.process)

    def _key(self, event: Observed) -> str:
        """Return whose limit counts an event. A credential has one of its own from its first 429 on."""
        credential = event.credential
        if credential in self.limits or (event.limited and len(self.limits) <= MOST_CREDENTIALS):
            return credential
        return ""

    @property
    def idle(self) -> bool:
        """Whether no 429 has shown a limit for an hour."""
        return all(limit.forgettable() for limit in self.limits.values())

    def tell(self, now: float, policy: Policy) -> tuple[Pace | None, int | None]:
        """Return what the circuit's record says that is published now, and how many processes are active. None: nothing."""
        pace = self._pace(now, policy)
        self.told_at = now
        self.told = {
            each.credential: Told(each.rate, each.granted, each.asked, self.limits[each.credential].paused_until)
            for each in (() if pace is None else pace.limits)
        }
        return pace, None if pace is None else self.active.count(now)

    def is_news(self, now: float, policy: Policy) -> bool:
        """Return whether processes should know more than the last record said: once a second at most."""
        keeps = policy.pace == "enforce"
        since_s = now - self.told_at
        if policy.pace == "off" or 0 <= since_s < (PUBLISH_EVERY_S if keeps else SHOW_EVERY_S):
            return False
        until = int(now)
        known = {credential for credential, limit in self.limits.items() if limit.rate is not None}
        if keeps and since_s >= DEMAND_S and any(self._shifts(self.limits[each], until) for each in known):
            return True
        return known != self.told.keys() or any(
            self._differs(self.limits[credential], self.told[credential], until, keeps=keeps) for credential in known
        )

    def _pace(self, now: float, policy: Policy) -> Pace | None:
        if policy.pace == "off":
            return None
        until = int(now)
        limits = tuple(
            RateLimit(
                credential=credential,
                rate=limit.rate,
                granted=granted,
                period_s=limit.period_s,
                asked=found.asked,
                until=datetime.fromtimestamp(until, UTC),
                limited=found.limited,
                refused=found.refused,
                waited=found.waited,
                waited_s=found.waited_ms / 1000,
                paused_until=datetime.fromtimestamp(limit.paused_until, UTC) if limit.paused_until > now else None,
            )
            for credential, limit in sorted(self.limits.items())
            if limit.rate is not None and (granted := limit.granted) is not None
            for found in (limit.sums(until),)
        )
        if not limits and policy.pace == "learn":
            return None
        return Pace(policy.pace, float(policy.pace_wait_s), limits)

    def _differs(self, limit: Limit, told: Told, until: int, *, keeps: bool) -> bool:
        granted = limit.granted
        if granted is None or limit.rate is None:
            return True
        least = KEPT_NEWS if keeps else SHOWN_NEWS
        if abs(limit.rate - told.rate) > least * told.rate or limit.paused_until != told.paused_until:
            return True
        return keeps and (abs(granted - told.granted) > least * told.granted or limit.sums(until).asked != told.asked)

    @staticmethod
    def _shifts(limit: Limit, until: int) -> bool:
        """Return whether a limit is used so much that processes need to know of a demand that moved from one to another."""
        return limit.rate is not None and limit.sums(until).asked >= LITTLE * limit.rate * DEMAND_S


def stated_limit(policy: Policy) -> StatedLimit | None:
    """Return the limit that a policy states."""
    return None if policy.pace_limit is None else read_limit(policy.pace_limit)


def rate_of(pace: Pace) -> float | None:
    """Return the calls a second that all processes may make: those of all its limits. None if no limit is known."""
    return sum(each.rate for each in pace.limits) or None
