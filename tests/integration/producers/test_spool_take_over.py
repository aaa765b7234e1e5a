"""Many dead processes' spools, taken over one at a time: every event arrives, in order, also when a process is killed meanwhile."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from switchgear import Emitter
from switchgear.emitter.record_batch import RecordBatch
from switchgear_schemas.ids import mint_metric_id
from tests.support.delivered import assert_each_arrived, is_marked
from tests.support.processes import python
from tests.support.sinking import read_topic
from tests.support.spooling import databases, descriptors_in, events_in, opened
from tests.support.waiting import until

pytestmark = pytest.mark.deep

DEAD = 100
RECORDS = 20

SENDING = """
import sys, time
from switchgear import Emitter
bootstrap, prefix, folder = sys.argv[1:]
emitter = Emitter(bootstrap, topic_prefix=prefix, spool_dir=folder)
assert emitter.connect(40)
while emitter.status().acknowledged < 500:
    time.sleep(0.0005)
print("sending", flush=True)
time.sleep(600)
"""


def leave_behind(root: Path) -> None:
    """What a hundred short-lived processes left, each with a tool of its own."""
    spools = [opened(root) for _ in range(DEAD)]
    for process, spool in enumerate(spools):
        tool = f"t{process}"
        for number in range(RECORDS):
            value = {"tool_name": tool, "status": "success", "metric_id": mint_metric_id(), "metadata": {"n": number}}
            spool.append([RecordBatch(tool, [json.dumps(value).encode()])])
    for spool in spools:
        spool.close()


def place_of(record: Any) -> tuple[str, int]:
    """The tool of an event, which names the process that emitted it, and its number there."""
    return record.key.decode(), json.loads(record.value)["metadata"]["n"]


def test_a_hundred_dead_processes_events_arrive_with_few_descriptors_in_use(settings, tmp_path) -> None:
    root = tmp_path / "spool"
    leave_behind(root)
    arguments = (settings.kafka_bootstrap_servers, settings.topic_prefix, str(root))
    with python(SENDING, *arguments, log=tmp_path / "child.log") as child:
        child.wait_for_output("sending")
        child.kill9()
    for path in databases(root):
        if not events_in(path):  # the killed process had sent them, and would have deleted it next
            path.unlink()
    left = len(databases(root))
    waiting = sum(len(events_in(path)) for path in databases(root))
    emitter = Emitter(settings.kafka, topic_prefix=settings.topic_prefix, spool_dir=root)
    try:
        assert emitter.connect(40)
        most = 0

        def all_taken_over() -> bool:
            nonlocal most
            most = max(most, descriptors_in(root))
            spool = emitter.status().spool
            return spool is not None and spool.taken_over == waiting

        until(all_taken_over, 60, lambda: (emitter.status(), databases(root)))
        assert most < 10
        until(lambda: emitter.flush(1) and not emitter.status().spooled)
        status = emitter.status()
        assert (status.emitted, status.acknowledged, status.dropped, status.failed) == (*[status.emitted] * 2, 0, 0)
    finally:
        assert emitter.close()
    assert list(root.iterdir()) == [], f"nothing of the {left} files is left"

    records = asyncio.run(read_topic(settings, settings.topics.executions))
    emitted = [(f"t{process}", number) for process in range(DEAD) for number in range(RECORDS)]
    assert_each_arrived(records, emitted, by=place_of)
    again = {place_of(record) for record in records if is_marked(record)}
    assert len(again) <= RECORDS, "only what the killed process had on its way"
    first: dict[str, list[int]] = {}
    for record in sorted(records, key=lambda each: each.offset):
        number = json.loads(record.value)["metadata"]["n"]
        if number not in (seen := first.setdefault(record.key.decode(), [])):
            seen.append(number)
    assert all(numbers == sorted(numbers) for numbers in first.values()), "in order within a file"
