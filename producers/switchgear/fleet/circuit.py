"""LiveCircuit: one row with its breaker awake, so that a batch decodes neither again for each event."""

from __future__ import annotations

from datetime import UTC, datetime

from switchgear.breaker import Breaker, Transition
from switchgear.fleet.log import Published
from switchgear.fleet.rows import MAX_COMMANDS, Row
from switchgear_schemas import BreakerPolicy, Cause, Circuit, Lease, Verb


class LiveCircuit:
    """A row, its breaker and the policy that holds for it."""

    __slots__ = ("breaker", "policy", "row")

    def __init__(self, row: Row, breaker: Breaker, policy: BreakerPolicy) -> None:
        self.row = row
        self.breaker = breaker
        self.policy = policy

    def encode(self) -> bytes:
        """The row with the breaker as it is now."""
        self.row.breaker = self.breaker.snapshot()
        return self.row.encode()

    def remembers(self, command_id: str) -> bool:
        """The command was applied before."""
        return command_id in self.row.commands

    def remember(self, command_id: str) -> None:
        """Note an applied command, forgetting the oldest beyond the bound."""
        self.row.commands = (*self.row.commands, command_id)[-MAX_COMMANDS:]

    def differs_from_record(self) -> bool:
        """What readers were told last is not what holds (a policy file changed, or nothing was told of a pinned circuit)."""
        row, breaker, policy = self.row, self.breaker, self.policy
        if row.record is None:
            return breaker.state != "closed" or policy.mode != "enforce"
        return (row.state, row.mode, row.fallback) != (breaker.state, policy.mode, policy.fallback)

    def publish(self, now: float, cause: Cause | None = None) -> Published:
        """The circuit's next record: one version up, kept in the row until the next one.

        Args:
            now: broker time in seconds, for the window's counts.
            cause: overrides the breaker's, where a command changed no state.
        """
        row, breaker, policy = self.row, self.breaker, self.policy
        row.version += 1
        counts = breaker.counts(now).model_copy(
            update={"rejected": row.rejected, "total_calls": row.total_calls, "total_failed": row.total_failed}
        )
        record = Circuit(
            circuit_id=row.circuit_id,
            tool_name=row.tool_name,
            scope=row.scope,
            state=breaker.state,
            previous_state=breaker.previous_state,
            version=row.version,
            generation=breaker.generation,
            cause=cause or (None if breaker.cause is None else breaker.cause.for_record()),
            changed_at=_instant(breaker.changed_at),
            open_until=None if breaker.open_until is None else _instant(breaker.open_until),
            attempt=breaker.attempt,
            leases=tuple(
                Lease(lease_id=lease.lease_id, emitter_id=lease.emitter_id, expires_at=_instant(lease.expires_at))
                for lease in breaker.leases
            ),
            permits_left=breaker.remaining_probes,
            counts=counts,
            last_error=row.last_error,
            mode=policy.mode,
            fallback=policy.fallback,
            stands_until=None if row.command_until is None else _instant(row.command_until),
        )
        value = record.model_dump_json().encode()
        row.record, row.state, row.mode, row.fallback = value, breaker.state, policy.mode, policy.fallback
        return Published(row.circuit_id, row.tool_name, breaker.state, row.version, value)

    def follow(self, transition: Transition, now: float) -> Published:
        """Publish a transition; the refusals counted so far belong to the state that ended."""
        published = self.publish(now)
        if transition.previous != transition.state:
            self.row.rejected = 0
        return published

    def command(
        self, verb: Verb, now: float, *, actor: str, reason: str, until: float | None, policy: BreakerPolicy | None
    ) -> Published | None:
        """Apply an operator's command; null where nothing changed.

        ``until`` of ``disable`` and ``metrics_only`` is kept in the row, and :meth:`end_standing` acts on it. So is that of ``force_open``
        for a tool whose circuits are its users' or sessions': no probe ever closes its own one.
        """
        if verb == "set_policy":
            assert policy is not None
            self.policy = policy
            self.breaker.set_policy(policy, now)
            return self.publish(now, Cause(rule="set_policy", actor=actor, reason=reason or None))
        row = self.row
        before, row.command_until = row.command_until, None
        if verb != "force_open" or (row.scope == "tool" and self.policy.scope != "tool"):
            row.command_until = until
        timed = None if verb != "force_open" and until is not None else until
        transition = self.breaker.command(verb, now, actor=actor, reason=reason, until=timed)
        if transition is not None:
            return self.follow(transition, now)
        if row.command_until == before:
            return None
        return self.publish(now, Cause(rule="command", actor=actor, reason=reason or None))

    def end_standing(self, now: float) -> Published | None:
        """Give the circuit back to its policy where an operator's time is over; null where it isn't, or there is none."""
        until = self.row.command_until
        if until is None or now < until:
            return None
        cause = self.breaker.cause
        actor = (cause and cause.actor) or "switchgear"
        return self.command("auto", now, actor=actor, reason="the time given is over", until=None, policy=None)


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
