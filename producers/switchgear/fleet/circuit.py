"""A circuit in memory: its row, its breaker and its policy. A batch then decodes none of them again for each event."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from switchgear.breaker import Breaker, Transition
from switchgear.breaker.values import is_split
from switchgear.fleet.durations import Durations, is_news, overdue_after_ms
from switchgear.fleet.log import LogRecord, Published, observed
from switchgear.fleet.rows import MAX_COMMANDS, Row
from switchgear.fleet.run import Run
from switchgear.pacing.pacing import Pacing, rate_of
from switchgear_schemas import BreakerPolicy, Cause, Circuit, Lease, Verb
from switchgear_schemas.wire import Execution

LIMIT_EVERY_S: Final = 60.0
"""How often a circuit's record may change because calls take longer or shorter than before."""
BACK_S: Final = 60.0
"""Brokers' clocks differ by milliseconds. If an execution is so much older than its circuit's time, an earlier record's broker was ahead."""


class LiveCircuit:
    """A row with its breaker, the policy in force and the family of its tool."""

    __slots__ = ("announces", "breaker", "durations", "family", "policy", "resumes", "row", "run", "run_family")

    def __init__(self, row: Row, breaker: Breaker, policy: BreakerPolicy, family: str | None = None) -> None:
        self.row = row
        self.breaker = breaker
        self.policy = policy
        self.family = family
        self.run: Run | None = None
        self.run_family: LiveCircuit | None = None
        """The circuit that counts each call of the run too. None for the run of a family, or of a tool without one."""
        self.resumes = False
        self.durations = Durations(row.durations)
        self.announces = row.record is None and self._keeps_targets_apart()
        """The tool's next event publishes a record, although the circuit is closed: readers need the policy's ``target``."""

    def begin_run(self, record: LogRecord, generation: int | None, family: LiveCircuit | None = None) -> None:
        """After an event was applied, count further successes together, as far as they change no decision.

        Args:
            record: The event.
            generation: Of the circuit when it permitted that call.
            family: The circuit of the tool's family, which counts them too.
        """
        breaker, row = self.breaker, self.row
        if generation is not None and generation < breaker.generation:  # the breaker has dropped it
            return
        steady = None if self.paces else breaker.steady()
        if steady is not None:
            self.run = Run(steady, breaker.generation, record, row.clock, row.limit_at + LIMIT_EVERY_S)
            self.run_family = family

    def pause_run(self, now: float) -> None:
        """End the run because an event is counted on its own. :attr:`resumes` then says whether the run was open for it."""
        self.resumes = self.run is not None and self.run.is_open(now)
        self.end_run()

    def end_run(self) -> None:
        """Apply what was counted together, before anything else looks at the circuit."""
        self.apply_run()
        self.run = None

    def apply_run(self) -> None:
        """Apply what was counted together so far. The run goes on."""
        run = self.run
        if run is None or not run.count:
            return
        row = self.row
        row.fences[run.partition] = run.offset
        row.applied += run.count
        row.total_calls += run.count
        row.clock = run.clock
        self.breaker.add_successes(run.clock, run.count)
        self.durations.add_all(run.durations)
        run.count = 0
        run.durations.clear()

    def follow_clock(self, arrived: float) -> Published | None:
        """Set the circuit's time to that of an execution. It goes back only if it was ahead by more than :data:`BACK_S`.

        Returns:
            The record for readers who hold an instant that moved back with it, or None.
        """
        row = self.row
        if row.clock - arrived <= BACK_S:
            row.clock = max(row.clock, arrived)
            return None
        self.end_run()
        ahead, row.clock = row.clock - arrived, arrived
        if row.outage_at is not None:
            row.outage_at = min(row.outage_at, arrived)
        row.limit_at = min(row.limit_at, arrived)
        if not self.breaker.set_back(arrived) or row.record is None:
            return None
        commanded = self.breaker.cause is not None and self.breaker.cause.rule == "command"
        return self.next_record(arrived, None if commanded else Cause(rule="clock_set_back", value=ahead))

    def renew_limit(self, now: float) -> Published | None:
        """Return the record to publish if processes must learn after how long calls are overdue. Look once a minute at most."""
        row = self.row
        row.limit_at = now
        found = overdue_after_ms(self.policy, self.durations)
        return self.next_record(now) if is_news(self.policy, row.overdue_after_ms, found) else None

    @property
    def paces(self) -> bool:
        """Whether each call of the tool counts for its pace: a limit of it is known, stated, or to be kept."""
        policy = self.policy
        if policy.pace == "off" or self.row.scope != "tool":
            return False
        return self.row.pacing is not None or policy.pace == "enforce" or policy.pace_limit is not None

    def pace(self, event: Execution, now: float) -> Published | None:
        """Learn from a call of the tool how many it takes. Return the record to publish if processes must know more.

        ``now`` is the broker's time of the event.
        """
        row, policy, found = self.row, self.policy, observed(event)
        if found is None or policy.pace == "off":
            return None
        if row.pacing is None:
            row.pacing = Pacing.begin(now)
        pacing = row.pacing
        pacing.add(now, found, policy)
        keeps = policy.pace == "enforce"
        if not keeps and policy.pace_limit is None and pacing.idle:
            row.pacing = None
            return self.next_record(row.clock, only_pace=True) if pacing.told else None
        news = self.breaker.state == "closed" and ((keeps and not row.paced) or pacing.is_news(now, policy))
        return self.next_record(max(now, row.clock), only_pace=True) if news else None

    def encode(self) -> bytes:
        """Return the bytes of the row, with the breaker as it is now."""
        self.apply_run()
        self.row.breaker = self.breaker.snapshot()
        return self.row.encode()

    def remember(self, command_id: str) -> None:
        """Note an applied command. Beyond :data:`MAX_COMMANDS`, forget the oldest."""
        self.row.commands = (*self.row.commands, command_id)[-MAX_COMMANDS:]

    def differs_from_record(self) -> bool:
        """Return whether readers hold another state, admitted share, mode, fallback or target than the one in force.

        This happens when the policy file changed, and for a new circuit that does not start closed or keeps targets apart. Readers may
        also keep limits that they need no longer keep.
        """
        row, breaker, policy = self.row, self.breaker, self.policy
        if row.record is None:
            return breaker.state != "closed" or policy.mode != "enforce" or self._keeps_targets_apart()
        held = (row.state, row.admitted_share, row.mode, row.fallback, row.target)
        now = (breaker.state, breaker.admitted_share, policy.mode, policy.fallback, policy.target)
        return held != now or (row.paced and policy.pace != "enforce")

    def _keeps_targets_apart(self) -> bool:
        return self.row.scope == "tool" and self.policy.target is not None

    def next_record(self, now: float, cause: Cause | None = None, *, only_pace: bool = False) -> Published:
        """Return the circuit's next record, one version up, and keep it in the row.

        Args:
            now: Broker time in seconds, for the counts of the window.
            cause: Used in place of the breaker's, where the state did not change.
            only_pace: Nothing but the tool's limits changed.
        """
        row, breaker, policy = self.row, self.breaker, self.policy
        row.version += 1
        row.overdue_after_ms = limit_ms = overdue_after_ms(policy, self.durations)
        pace, processes = (None, None) if row.pacing is None else row.pacing.tell(now, policy)
        counts = msgspec.structs.replace(
            breaker.counts(now), rejected=row.rejected, total_calls=row.total_calls, total_failed=row.total_failed
        )
        record = Circuit(
            circuit_id=row.circuit_id,
            tool_name=row.tool_name,
            family=self.family,
            scope=row.scope,
            state=breaker.state,
            previous_state=breaker.previous_state,
            version=row.version,
            generation=breaker.generation,
            cause=cause or breaker.cause,
            changed_at=_instant(breaker.changed_at),
            open_until=None if breaker.open_until is None else _instant(breaker.open_until),
            attempt=breaker.attempt,
            admitted_share=breaker.admitted_share,
            leases=tuple(
                Lease(lease_id=lease.lease_id, emitter_id=lease.emitter_id, expires_at=_instant(lease.expires_at))
                for lease in breaker.leases
            ),
            permits_left=breaker.remaining_probes,
            counts=counts,
            last_error=row.last_error,
            last_error_class=row.last_error_class,
            mode=policy.mode,
            fallback=policy.fallback,
            stands_until=None if row.command_until is None else _instant(row.command_until),
            overdue_after_ms=limit_ms,
            target=policy.target,
            admitted_rate=None if pace is None else rate_of(pace),
            active_processes=processes,
            pace=pace,
            news="pace" if only_pace else "state",
        )
        value = record.to_bytes()
        row.record, row.state, row.mode, row.fallback = value, breaker.state, policy.mode, policy.fallback
        row.admitted_share, row.target = breaker.admitted_share, policy.target
        row.paced = pace is not None and pace.mode == "enforce"
        self.announces = False
        return Published(row.circuit_id, row.tool_name, breaker.state, row.version, value, only_pace)

    def follow(self, transition: Transition, now: float) -> Published:
        """Return the record of a transition. The rejections counted so far belong to the state that ended."""
        record = self.next_record(now)
        if transition.previous != transition.state:
            self.row.rejected = 0
        return record

    def command(
        self, verb: Verb, now: float, *, actor: str, reason: str, until: float | None, policy: BreakerPolicy | None
    ) -> Published | None:
        """Apply an operator's command. Return the record to publish, or None if nothing changed.

        The row keeps ``until`` of ``disable`` and ``metrics_only``, and :meth:`end_command` acts on it. It also keeps that of
        ``force_open`` for a tool that is counted per user, session or target, because no probe ever closes the tool's own circuit.
        """
        row = self.row
        if verb == "set_policy":
            assert policy is not None
            self.policy = policy
            self.breaker.set_policy(policy, now)
            return self.next_record(now, Cause(rule="set_policy", actor=actor, reason=reason or None))
        before, row.command_until = row.command_until, None
        if verb != "force_open" or (row.scope == "tool" and is_split(self.policy)):
            row.command_until = until
        open_until = until if verb == "force_open" else None
        transition = self.breaker.command(verb, now, actor=actor, reason=reason, until=open_until)
        if transition is not None:
            row.outage_at = None
            return self.follow(transition, now)
        if row.command_until == before:
            return None
        return self.next_record(now, Cause(rule="command", actor=actor, reason=reason or None))

    def end_command(self, now: float) -> Published | None:
        """Give the circuit back to its policy if the time of a command is over. Return the record to publish, if any."""
        until = self.row.command_until
        if until is None or now < until:
            return None
        cause = self.breaker.cause
        actor = (cause and cause.actor) or "switchgear"
        return self.command("auto", now, actor=actor, reason="the time given is over", until=None, policy=None)

    def take_over_command(self, tool: LiveCircuit, now: float) -> None:
        """Put this new circuit of a user, session or target into the state that an operator commanded for its tool."""
        state, cause = tool.breaker.state, tool.breaker.cause
        verb: Verb
        if state == self.breaker.state:
            return
        if state == "forced_open" or (state == "open" and cause is not None and cause.rule == "command"):
            verb = "force_open"  # an open circuit: by a command for a time, which probes end
        elif state in {"disabled", "metrics_only"}:
            verb = "disable" if state == "disabled" else "metrics_only"
            self.row.command_until = tool.row.command_until
        else:
            return
        actor, reason = (cause and cause.actor) or "policy", (cause and cause.reason) or ""
        self.breaker.command(verb, now, actor=actor, reason=reason, until=tool.breaker.open_until)


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
