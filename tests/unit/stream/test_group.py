"""Only workers that place tools in the same partitions can be in one group."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from switchgear_schemas.settings import load_settings
from switchgear_stream import group
from switchgear_stream.app import build_app
from switchgear_stream.group import protocol_name, wait_for_group

SETTINGS = load_settings()
OWN = protocol_name(SETTINGS.family_pattern)


def test_the_protocol_names_the_placement_of_tools():
    assert OWN == protocol_name(" mcp:*:*") == "switchgear-families-54e1a33c"
    assert protocol_name("") != OWN
    app, _, _ = build_app(SETTINGS)
    assert app.assignor.name == OWN
    assert build_app(load_settings(family_pattern=""))[0].assignor.name == protocol_name("")


class Cluster:
    """Topics and how many partitions each has."""

    def __init__(self, **counts: int) -> None:
        self.counts = {topic.replace("_", "-"): count for topic, count in counts.items()}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self.counts[topic])) if topic in self.counts else None


def assigned(assignors: list[Any], cluster: Cluster) -> list[dict[str, set[int]]]:
    """Let the first member assign, let all of them take their part, and return these parts."""
    members = {str(number): each.metadata(set(cluster.counts)) for number, each in enumerate(assignors)}
    parts = assignors[0].assign(cluster, members)
    for number, each in enumerate(assignors):
        each.on_assignment(parts[str(number)])
    return [
        {topic: set(numbers) for topic, numbers in parts[str(number)].assignment} for number in range(len(assignors))
    ]


def test_added_partitions_go_to_the_worker_that_has_the_rows_of_their_tools():
    settings = load_settings(topic_partitions=4)
    assignors = [build_app(settings)[0].assignor for _ in range(2)]
    for executions in (4, 8, 6, 8):
        parts = assigned(assignors, Cluster(executions=executions, commands=4))
        for part in parts:
            assert len(part["commands"]) == 2
            assert {number % 4 for number in part["executions"]} == part["commands"]
        assert sorted(number for part in parts for number in part["executions"]) == list(range(executions))


def test_a_topic_with_too_few_partitions_is_assigned_by_itself():
    app, _, _ = build_app(load_settings(topic_partitions=4))
    (part,) = assigned([app.assignor], Cluster(executions=1, commands=4))
    assert part == {"executions": {0}, "commands": {0, 1, 2, 3}}


class Admin:
    """Answers with one group description after the other; the last one stays."""

    def __init__(self, *answers: tuple[int, str, str, int]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def describe_consumer_groups(self, groups: list[str]) -> Any:
        assert groups == [SETTINGS.topics.worker_group]
        self.asked += 1
        code, state, protocol, members = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [SimpleNamespace(groups=[(code, groups[0], state, "consumer", protocol, [()] * members, 0)])]


@pytest.fixture
def heard(monkeypatch):
    """Return ``heard(*answers)``: what the wait said, with a broker that answers so."""
    monkeypatch.setattr(group, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(group, "LONGEST_PAUSE_S", 0.002)

    async def run(*answers: tuple[int, str, str, int]) -> list[str | None]:
        said: list[str | None] = []
        monkeypatch.setattr(group, "AIOKafkaAdminClient", lambda **_: Admin(*answers))
        await asyncio.wait_for(wait_for_group(SETTINGS, said.append), 5)
        return said

    return run


@pytest.mark.parametrize("answer", [(0, "Dead", "", 0), (0, "Empty", "", 0), (0, "Stable", OWN, 2)])
async def test_begins_at_once_if_the_group_is_empty_or_places_tools_alike(heard, answer):
    assert await heard(answer) == [None]


async def test_waits_while_workers_of_another_placement_are_in_the_group(heard):
    said = await heard((0, "Stable", "faust", 1), (0, "Stable", "faust", 1), (0, "Empty", "", 0))
    assert [each is None for each in said] == [False, False, True]
    assert "family_pattern" in said[0]


async def test_looks_again_while_members_join_or_the_coordinator_moves(heard):
    said = await heard((0, "PreparingRebalance", "", 1), (15, "", "", 0), (0, "Stable", OWN, 1))
    assert said == [None] * 3
