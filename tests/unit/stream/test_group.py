"""How the group's partitions are shared among the workers."""

from __future__ import annotations

from typing import Any

from switchgear_schemas.settings import load_settings
from switchgear_stream.app import build_app


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
