"""What alerts know and what is to be sent, without I/O and clocks.

Records go in by :meth:`Engine.observe`, the time by :meth:`Engine.advance`, results of deliveries by :meth:`Engine.finished`. Messages
come out in :attr:`Engine.outbox`, and everything that a restart needs in :meth:`Engine.take_unsaved`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from switchgear_alerts import incidents
from switchgear_alerts.config import AlertsFile
from switchgear_alerts.digest import DigestCounts
from switchgear_alerts.facts import Seen
from switchgear_alerts.grouping import Storm, after_batch, group
from switchgear_alerts.incidents import CircuitIncidents, Incident
from switchgear_alerts.messages import Change, Facts, Message, Severity, group_id
from switchgear_alerts.routes import Route

MOST_WAITING: Final = 5_000
"""Changes that wait for one receiver. With one more, reading pauses until they are fewer."""
PATIENCE_S: Final = 60.0
"""If a receiver was done with no message for so long, more changes than :data:`MOST_WAITING` go to the dead letters."""
_STEP_BACK_S: Final = 5.0
"""If the clock goes back by more, waits begin again."""
CIRCUIT: Final = "circuit:"
MESSAGE: Final = "message:"
DIGEST: Final = "digest"
STORM: Final = "storm:"


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiver knows of an open incident: its severity, and the thread once the message is made."""

    severity: Severity
    thread: str = ""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A change that waits for its message, in the order of ``sequence``."""

    receiver: str
    sequence: int
    change: Change


class Track(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything about one circuit that must survive a restart."""

    circuit_id: str
    known: CircuitIncidents = CircuitIncidents()
    announced: dict[str, Announced] = {}
    waiting: tuple[Waiting, ...] = ()

    @property
    def idle(self) -> bool:
        """Nothing needs to be remembered."""
        return self.known.idle and not self.waiting


_decode_track: Final = msgspec.json.Decoder(Track).decode
_decode_message: Final = msgspec.json.Decoder(Message).decode
_decode_storm: Final = msgspec.json.Decoder(Storm).decode


class Engine:
    """The incidents of all circuits.

    Args:
        rules: The alerts file.
        now: Seconds since 1970.
        fleet: A part of the ids of new incidents. Those that are open already keep theirs.
    """

    def __init__(self, rules: AlertsFile, now: float, fleet: str = "") -> None:
        self._rules = rules
        self._fleet = fleet
        self._tracks: dict[str, Track] = {}
        self._waiting: Counter[str] = Counter()
        self._since: dict[str, float] = {}
        """Since when changes wait for a receiver."""
        self._announcing: set[str] = set()
        """Receivers for which an opening waits."""
        self._recent: dict[str, list[tuple[float, int]]] = {}
        """When changes became messages within the last ``storm_interval``, and how many, by receiver."""
        self._storms: dict[str, Storm] = {}
        self._now = now
        self._moved_at: dict[str, float] = {}
        """When a receiver was last done with a message."""
        self._sequence = 0
        self._unsaved: dict[str, bytes | None] = {}
        self._digest = None if rules.digest is None else DigestCounts(rules.digest.at, rules.timezone, now)
        self._counted = rules.routes or (Route(receivers=tuple(rules.receivers)),)
        """The digest counts circuits of these."""
        self.outbox: dict[str, dict[str, Message]] = {name: {} for name in rules.receivers}
        """Messages by receiver and id, in the order in which to send them."""
        self.given_up: list[Message] = []
        """Messages for the dead letters that were never tried. Call :meth:`buried` for each that is there."""

    @property
    def open_incidents(self) -> int:
        """The number of open incidents."""
        return sum(track.known.incident is not None for track in self._tracks.values())

    @property
    def waiting(self) -> int:
        """Changes that wait, and changes in messages that are not delivered."""
        return sum(self._waiting.values()) + sum(len(m.changes) for box in self.outbox.values() for m in box.values())

    def restore(self, saved: Mapping[str, bytes], now: float) -> None:
        """Take over what was saved. What belongs to receivers that are no longer in the file is dropped.

        Raises:
            msgspec.DecodeError: A value is not of this program.
        """
        messages: list[Message] = []
        for key, value in saved.items():
            if key.startswith(CIRCUIT):
                self._restore_track(_decode_track(value))
            elif key.startswith(MESSAGE):
                messages.append(_decode_message(value))
            elif key.startswith(STORM):
                storm = _decode_storm(value)
                self._put_storm(key.removeprefix(STORM), replace(storm, batch_at=min(storm.batch_at, now)))
            elif self._digest is not None and key.startswith(DIGEST):
                self._digest.restore(key.removeprefix(DIGEST), value)
        for message in sorted(messages, key=lambda each: each.sequence):
            self._sequence = max(self._sequence, message.sequence)
            if message.receiver in self.outbox:
                self.outbox[message.receiver][message.id] = message
            else:
                self._unsaved[_key(message)] = None
        for name, count in self._waiting.items():
            if count:
                self._since[name] = now

    def observe(self, seen: Seen) -> None:
        """Take a record of a circuit."""
        track = self._tracks.get(seen.facts.circuit_id) or Track(circuit_id=seen.facts.circuit_id)
        track = self._settled(self._advanced(track, seen.changed_at), seen.changed_at)
        known, changes = incidents.observe(track.known, seen, self._rules.flapping, self._fleet)
        self._put(self._with_changes(track, known, changes, seen.changed_at))

    def remove(self, circuit_id: str, at: float) -> None:
        """Take the removal of a circuit."""
        track = self._tracks.get(circuit_id)
        if track is not None:
            track = self._settled(self._advanced(track, at), at)
            known, changes = incidents.remove(track.known, at)
            self._put(self._with_changes(track, known, changes, at))

    def is_open(self, circuit_id: str) -> bool:
        """Return whether the circuit has an open incident."""
        track = self._tracks.get(circuit_id)
        return track is not None and track.known.incident is not None

    @property
    def full(self) -> bool:
        """Whether more changes wait than memory should hold. Read no further records."""
        return any(count > MOST_WAITING for count in self._waiting.values())

    def advance(self, now: float) -> None:
        """Do what is due at ``now``: announcements, ends of flapping, messages, the digest."""
        if now < self._now - _STEP_BACK_S:
            self._go_back(now)
        self._now = max(self._now, now)
        for track in list(self._tracks.values()):
            after = self._settled(self._advanced(track, now), now)
            if after is not track:
                self._put(after)
        self._make_digest(now)
        for name in [name for name, storm in self._storms.items() if now >= storm.over_at]:
            self._put_storm(name, None)
        for name in self._rules.receivers:
            if self._waiting[name] > MOST_WAITING and self._is_away(name, now):
                self._give_up_waiting(name, now)
            self.make_messages(name, now)

    def make_messages(self, receiver: str, now: float) -> None:
        """Make the messages of the changes that wait for a receiver, if it is time.

        While a message is not delivered, changes go on waiting. So a receiver that was away gets one message about many of them.
        More changes than :data:`MOST_WAITING` don't wait for others.
        """
        if not self._waiting[receiver]:
            return
        since = self._since.setdefault(receiver, now)
        grouping, storm = self._rules.grouping, self._storms.get(receiver)
        if self.outbox[receiver]:
            return
        next_at = 0.0 if storm is None else storm.next_at(announcing=receiver in self._announcing)
        if now < max(since + grouping.wait, next_at) and self._waiting[receiver] <= MOST_WAITING:
            return
        changes = self._take_waiting(receiver)
        recent = [each for each in self._recent.get(receiver, ()) if now - each[0] < grouping.storm_interval]
        recent.append((now, len(changes)))
        stormy = storm is not None or sum(count for _, count in recent) >= grouping.storm
        self._recent[receiver] = [] if stormy else recent
        self._put_storm(receiver, after_batch(storm, now, grouping) if stormy else None)
        for message in self._threaded(receiver, group(changes, stormy=stormy), now):
            self.outbox[receiver][message.id] = message
            self._save(message)

    def finished(self, receiver: str, message_id: str) -> None:
        """Forget a message that was delivered or given up."""
        message = self.outbox.get(receiver, {}).pop(message_id, None)
        if message is not None:
            self._moved_at[receiver] = self._now
            self._unsaved[_key(message)] = None

    def buried(self, message: Message) -> None:
        """Forget a message of :attr:`given_up` that is in the dead letters."""
        self.given_up.remove(message)
        self._unsaved[_key(message)] = None

    def firing(self, receiver: str) -> list[Change]:
        """Return the open incidents that a receiver knows, as changes of the kind ``opened``."""
        found = []
        for track in self._tracks.values():
            incident, announced = track.known.incident, track.announced.get(receiver)
            if incident is not None and announced is not None and announced.thread:
                change = incidents.change_of(incident, "opened", incident.opened_at)
                found.append(replace(change, severity=announced.severity, thread=announced.thread))
        return found

    def take_unsaved(self) -> dict[str, bytes | None]:
        """Return what changed since the last call, by key. None: the key is to be removed."""
        found, self._unsaved = self._unsaved, {}
        if self._digest is not None:
            found |= {f"{DIGEST}{key}": value for key, value in self._digest.take_unsaved().items()}
        return found

    def _advanced(self, track: Track, until: float) -> Track:
        """Announce the open incident to the receivers for which it is due by ``until``, unless they have quiet hours now."""
        incident = track.known.incident
        if incident is None or incident.closed_at is not None:  # a flapping circuit that is closed may be well
            return track
        due: dict[str, Severity] = {}
        for route in self._rules.routes:
            if all(name in track.announced for name in route.receivers) or not route.matches(
                incident.facts, incident.held
            ):
                continue
            if route.is_due(incident.opened_at, until, max(until, self._now), self._rules.timezone):
                for name in route.receivers:
                    if name not in track.announced:
                        due.setdefault(name, route.severity)
        if not due:
            return track
        note = f"it opened {len(track.known.openings)} times lately" if incident.flapping else ""
        change = incidents.change_of(incident, "opened", incident.opened_at, note)
        announced = track.announced | {name: Announced(severity=severity) for name, severity in due.items()}
        return self._queued(replace(track, announced=announced), change, due)

    def _settled(self, track: Track, until: float) -> Track:
        """End the incident if the circuit no longer flaps at ``until``."""
        known, changes = incidents.settle(track.known, until, self._rules.flapping)
        return track if known is track.known else self._with_changes(track, known, changes, until)

    def _with_changes(self, track: Track, known: CircuitIncidents, changes: Iterable[Change], at: float) -> Track:
        self._count(track.known.incident, known.incident, at)
        track = replace(track, known=known)
        for change in changes:
            if change.kind == "opened":
                track = self._advanced(replace(track, announced={}), change.at)
                continue
            track = self._queued(track, change, {name: each.severity for name, each in track.announced.items()})
            if change.kind == "resolved":
                track = replace(track, announced={})
        return track

    def _count(self, before: Incident | None, after: Incident | None, at: float) -> None:
        """Count for the digest if the circuit opened or closed at ``at``."""
        was_open = None if before is None else before.open_since
        is_open = None if after is None else after.open_since
        incident = before or after
        if self._digest is None or incident is None or (was_open is None) == (is_open is None):
            return
        if not self._is_counted(incident.facts):
            return
        if was_open is None:
            self._digest.opened(incident.facts.circuit_id)
        else:
            self._digest.closed(incident.facts.circuit_id, was_open, at)

    def _is_counted(self, facts: Facts) -> bool:
        return any(route.is_for(facts) for route in self._counted)

    def _go_back(self, now: float) -> None:
        """Follow a clock that went back: what waits, waits from now on."""
        self._now = now
        self._since = dict.fromkeys(self._since, now)
        self._recent.clear()
        self._moved_at.clear()
        for name, storm in list(self._storms.items()):
            self._put_storm(name, replace(storm, batch_at=min(storm.batch_at, now)))

    def _queued(self, track: Track, change: Change, receivers: Mapping[str, Severity]) -> Track:
        added = []
        for name, severity in receivers.items():
            self._sequence += 1
            announced = track.announced.get(name)
            own = replace(change, severity=severity, thread="" if announced is None else announced.thread)
            added.append(Waiting(receiver=name, sequence=self._sequence, change=own))
            self._waiting[name] += 1
            if change.kind == "opened":
                self._announcing.add(name)
        return replace(track, waiting=(*track.waiting, *added))

    def _put(self, track: Track) -> None:
        """Keep a track and note that it is to be saved."""
        before = self._tracks.get(track.circuit_id)
        if track.idle:
            self._tracks.pop(track.circuit_id, None)
            if before is not None:
                self._unsaved[f"{CIRCUIT}{track.circuit_id}"] = None
            return
        if track == before:
            return
        self._tracks[track.circuit_id] = track
        self._unsaved[f"{CIRCUIT}{track.circuit_id}"] = msgspec.json.encode(track)

    def _take_waiting(self, receiver: str) -> list[Change]:
        taken: list[Waiting] = []
        for track in list(self._tracks.values()):
            mine = [each for each in track.waiting if each.receiver == receiver]
            if mine:
                taken += mine
                self._put(replace(track, waiting=tuple(each for each in track.waiting if each.receiver != receiver)))
        del self._waiting[receiver]
        self._since.pop(receiver, None)
        self._announcing.discard(receiver)
        return [each.change for each in sorted(taken, key=lambda each: each.sequence)]

    def _is_away(self, receiver: str, now: float) -> bool:
        """Return whether the receiver takes nothing for long, and nothing of it still waits for the dead letters."""
        oldest = next(iter(self.outbox[receiver].values()), None)
        if oldest is None or any(message.receiver == receiver for message in self.given_up):
            return False
        return now - max(oldest.created_at, self._moved_at.get(receiver, 0.0)) >= PATIENCE_S

    def _give_up_waiting(self, receiver: str, now: float) -> None:
        """Move what waits for a receiver to the dead letters, so that memory stays bounded.

        The messages are saved until they are there: after a restart before that, they are sent.
        """
        for message in self._threaded(receiver, group(self._take_waiting(receiver), stormy=True), now):
            self.given_up.append(message)
            self._save(message)

    def _threaded(self, receiver: str, groups: list[list[Change]], now: float) -> list[Message]:
        """Return the messages of groups of changes, and remember by what the receiver knows the incidents."""
        threads: dict[str, str] = {}
        for changes in groups:
            if changes[0].kind == "opened":
                thread = changes[0].incident if len(changes) == 1 else group_id(changes)
                threads |= {change.incident: thread for change in changes}
        for changes in groups:
            for change in changes:
                if change.kind == "opened":
                    self._know_thread(receiver, change, threads[change.incident])
        left = Counter(
            each.thread for track in self._tracks.values() if (each := track.announced.get(receiver)) is not None
        )
        threaded = [
            [
                replace(change, thread=change.thread or threads.get(change.incident) or change.incident)
                for change in changes
            ]
            for changes in groups
        ]
        left.update(change.thread for changes in threaded for change in changes if change.kind == "resolved")
        found = []
        for changes in threaded:
            for place, change in enumerate(changes):
                if change.kind == "resolved":
                    left[change.thread] -= 1
                    changes[place] = replace(change, last=left[change.thread] == 0)
            self._sequence += 1
            found.append(
                Message(
                    id=changes[0].id if len(changes) == 1 else group_id(changes),
                    receiver=receiver,
                    kind=changes[0].kind,
                    sequence=self._sequence,
                    created_at=now,
                    changes=tuple(changes),
                )
            )
        return found

    def _know_thread(self, receiver: str, change: Change, thread: str) -> None:
        track = self._tracks.get(change.facts.circuit_id)
        incident: Incident | None = None if track is None else track.known.incident
        if track is None or incident is None or incident.id != change.incident or receiver not in track.announced:
            return
        announced = track.announced | {receiver: replace(track.announced[receiver], thread=thread)}
        self._put(replace(track, announced=announced))

    def _make_digest(self, now: float) -> None:
        if self._digest is None or self._rules.digest is None:
            return
        found = [track.known.incident for track in self._tracks.values() if track.known.incident is not None]
        open_now = [
            (each.facts.circuit_id, since)
            for each in found
            if (since := each.open_since) is not None and self._is_counted(each.facts)
        ]
        digest = self._digest.due(now, open_now)
        if digest is None:
            return
        for name in self._rules.digest.receivers:
            self._sequence += 1
            identifier = f"digest-{int(digest.until)}"
            message = Message(
                id=identifier, receiver=name, kind="digest", sequence=self._sequence, created_at=now, digest=digest
            )
            self.outbox[name][identifier] = message
            self._save(message)

    def _put_storm(self, receiver: str, storm: Storm | None) -> None:
        """Keep the storm of a receiver, or forget it, and note that it is to be saved."""
        if storm is not None:
            self._storms[receiver] = storm
            self._unsaved[f"{STORM}{receiver}"] = msgspec.json.encode(storm)
        elif self._storms.pop(receiver, None) is not None:
            self._unsaved[f"{STORM}{receiver}"] = None

    def _save(self, message: Message) -> None:
        self._unsaved[_key(message)] = msgspec.json.encode(message)

    def _restore_track(self, track: Track) -> None:
        known = self._rules.receivers
        self._sequence = max([self._sequence, *(each.sequence for each in track.waiting)])
        kept = replace(
            track,
            announced={name: each for name, each in track.announced.items() if name in known},
            waiting=tuple(each for each in track.waiting if each.receiver in known),
        )
        self._waiting.update(each.receiver for each in kept.waiting)
        self._announcing.update(each.receiver for each in kept.waiting if each.change.kind == "opened")
        self._tracks[track.circuit_id] = track
        self._put(kept)


def _key(message: Message) -> str:
    return f"{MESSAGE}{message.receiver}:{message.id}"
