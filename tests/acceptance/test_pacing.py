"""Calls by the rate limits that the fleet keeps, by the scenarios that the TypeScript client and the gateway pass too."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from switchgear.fleet import Message
from switchgear.follower.view import UnreadableCircuitError, decode_view
from switchgear.guard.attempts import Pending, PendingTurn
from switchgear.guard.permits import Permit
from switchgear.guard.rejections import Caller, Rejection
from switchgear.testing import InMemoryFleet
from tests.unit.producers.gateway.conftest import Place

FILE = Path(__file__).with_name("pacing_scenarios.json")
SCENARIOS = json.loads(FILE.read_text())["scenarios"]
KEY = b"0123456789abcdef"
TOOL = "search"
NEAR = 1e-6
ACTIONS = {"t", "op", "times", "credential", "outcome", "record", "pace", "note"}


class Fleet:
    """Publishes the records of a scenario. No worker publishes others."""

    def __init__(self) -> None:
        self.fleet = InMemoryFleet()
        self.fleet.stop_worker()
        self.begun = self.fleet.clock.wall()
        self.version = 0

    def record(self, given: dict[str, Any], hashed: Callable[[str], str] = str) -> bytes:
        """Return a record of the tool's circuit, with the times of the scenario as instants."""
        self.version += 1
        fields = {"circuit_id": TOOL, "tool_name": TOOL, "state": "closed", "version": self.version, "generation": 1}
        found = {**fields, "changed_at": self._instant(0), **given}
        for limit in found["pace"]["limits"]:
            for name in ("until", "paused_until"):
                if isinstance(limit.get(name), int | float):
                    limit[name] = self._instant(limit[name])
            if limit.get("credential"):
                limit["credential"] = hashed(limit["credential"])
        return json.dumps(found).encode()

    def unreadable(self, pace: str) -> bytes:
        """Return a record with this text for a pace."""
        value = self.record({"pace": {"limits": []}})
        return value.replace(b'{"limits": []}', pace.encode())

    def deliver(self, gear: Any, value: bytes) -> None:
        """Let a client read a record."""
        message = Message("circuits", 0, self.version, int(self.fleet.clock.wall() * 1000), TOOL.encode(), value)
        self.fleet._connections(gear)[1].deliver([message])

    def move(self, t: float) -> None:
        """Move the clock to a time of the scenario."""
        self.fleet.advance(max(0.0, t - self.fleet.clock.monotonic()))

    def _instant(self, t: float) -> str:
        return datetime.fromtimestamp(self.begun + t, UTC).isoformat()


class Player:
    """Plays the steps of one scenario with a client."""

    def __init__(self) -> None:
        self.place = Fleet()
        self.gear = self.place.fleet.gear(parameters_key=KEY)
        self.decision = self.gear._decision
        assert self.decision.fleet is not None
        self.fleet = self.decision.fleet
        self.waiting: list[tuple[float, Pending, str]] = []
        self.seen: dict[str, Any] = {}
        self.refusal: Rejection | None = None

    def play(self, step: dict[str, Any]) -> None:
        """Play a step and compare what it expects."""
        self.seen = {"passes": 0, "refused": 0}
        self._wait_until(step["t"])
        match step["op"]:
            case "calls":
                for _ in range(step.get("times", 1)):
                    self._call(step.get("credential", ""), step.get("outcome", "success"))
            case "record":
                self.place.deliver(self.gear, self.place.record(step["record"], self._hash))
                self._woken()
            case "unreadable":
                self._unreadable(step["pace"])
            case "silence":
                self.place.fleet.cut(self.gear)
            case "confirm":
                self.place.fleet.mend(self.gear)
            case op:
                assert op == "look"
        self._compare(step)

    def _compare(self, step: dict[str, Any]) -> None:
        status = self.gear.status().paces.get(TOOL)
        self.seen |= {"waiting": len(self.waiting), "open": self.gear.is_open(TOOL)}
        self.seen |= {"share": None if status is None else status.share}
        if self.waiting:
            self.seen["wait_s"] = self.waiting[-1][0] - self.place.fleet.clock.monotonic()
        if self.refusal is not None:
            self.seen |= {"text": self.refusal.text, "retry_after_s": self.refusal.retry_after_s}
            self.seen |= {"source": self.refusal.source, "reason": self.refusal.reason}
        if status is not None:
            self.seen |= {"counted": [status.waited, status.refused], "waited_s": status.waited_s}
        if "asked" in step:
            self.seen["asked"] = self._asked()
        for key in step.keys() - ACTIONS:
            found, expected = self.seen.get(key), step[key]
            near = isinstance(expected, float | int) and not isinstance(expected, bool) and found is not None
            assert found == (pytest.approx(expected, rel=NEAR, abs=NEAR) if near else expected), (key, step)

    def _call(self, credential: str, outcome: str) -> None:
        caller = Caller(credential=self._hash(credential) if credential else "")
        self._take(self.decision.acquire(TOOL, caller), caller, outcome)

    def _take(self, answer: Permit | Rejection | Pending, caller: Caller, outcome: str) -> None:
        if isinstance(answer, Pending):
            assert isinstance(answer, PendingTurn)
            assert answer.wait_s is not None
            self.waiting.append((self.place.fleet.clock.monotonic() + answer.wait_s, answer, outcome))
        elif isinstance(answer, Rejection):
            self.fleet.refusals.refused(answer, caller=caller)
            self.refusal = answer
            self.seen["refused"] += 1
        else:
            self.seen["passes"] += 1
            if outcome == "success":
                answer.success()
            else:
                answer.failure("too many", classification=outcome)

    def _wait_until(self, t: float) -> None:
        """Let time pass. Calls look when their wait ends."""
        while self.waiting:
            due, pending, outcome = min(self.waiting, key=lambda each: each[0])
            if due > t + NEAR:
                break
            self.place.move(due)
            self.waiting.remove((due, pending, outcome))
            self._take(self.decision.after_answer(pending), pending.attempt.caller, outcome)
        self.place.move(t)

    def _woken(self) -> None:
        for each in [each for each in self.waiting if each[1].answer.done()]:
            self.waiting.remove(each)
            self._take(self.decision.after_answer(each[1]), each[1].attempt.caller, each[2])

    def _unreadable(self, pace: str) -> None:
        value = self.place.unreadable(pace)
        with pytest.raises(UnreadableCircuitError):
            decode_view(value)
        self.place.deliver(self.gear, value)

    def _asked(self) -> int:
        events = self.place.fleet.events(TOOL)
        return sum(event.get("metadata", {}).get("asked", event["status"] != "rejected") for event in events)

    def _hash(self, credential: str) -> str:
        return self.decision.reporter.credentials.salted(credential)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each["id"])
def test_scenario(scenario: dict[str, Any]) -> None:
    player = Player()
    for step in json.loads(json.dumps(scenario["steps"])):
        player.play(step)


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.get("gateway")], ids=lambda each: each["id"])
async def test_a_client_of_the_gateway_gets_the_same_answers(scenario: dict[str, Any]) -> None:
    fleet = Fleet()
    place = Place(fleet.fleet)
    client = place.client()
    [gear] = place.gears
    for step in json.loads(json.dumps(scenario["steps"])):
        fleet.move(step["t"])
        seen: dict[str, Any] = {"passes": 0, "refused": 0}
        if step["op"] == "record":
            fleet.deliver(gear, fleet.record(step["record"]))
        elif step["op"] == "unreadable":
            fleet.deliver(gear, fleet.unreadable(step["pace"]))
        for _ in range(step.get("times", 1) if step["op"] == "calls" else 0):
            answer = await client.decide(TOOL)
            seen["passes" if answer["allowed"] else "refused"] += 1
            if answer["allowed"]:
                assert await client.outcome(answer["permit"]) == 204
            else:
                seen |= answer
        for key in step.keys() & seen.keys():
            near = pytest.approx(step[key], rel=1e-3, abs=1e-3) if isinstance(step[key], float | int) else step[key]
            assert seen[key] == near, (key, step)
    gear.close()
