"""MemoryWorker folds as the real worker. It may crash at any point, and its successor recovers."""

import msgspec
import pytest

from switchgear.fleet import Row
from switchgear.testing import FakeClock, MemoryFollower, MemoryLog, MemoryWorker
from switchgear.testing.fleet import ByTool
from switchgear.testing.worker import create_topics
from switchgear_schemas import BreakerPolicy
from switchgear_schemas.partitioner import owner_partition
from switchgear_schemas.topics import TopicNames
from tests.support.crashes import crash

NAMES = TopicNames(prefix="t.")
THREE = BreakerPolicy(consecutive_failures=3, wait_duration_in_open_state_s=60)
CRASHES = ("before_rows", "during_rows", "after_rows", "after_outputs")


class Place:
    def __init__(self, partitions=4):
        self.clock = FakeClock()
        self.log = MemoryLog(self.clock.wall)
        create_topics(self.log, NAMES, partitions)
        self.partitions = partitions

    def worker(self, owned=None):
        made = MemoryWorker(self.log, ByTool(THREE), names=NAMES)
        made.assign(range(self.partitions) if owned is None else owned)
        return made

    def say(self, status="error", tool="search", partition=None, **fields):
        value = msgspec.json.encode({"tool_name": tool, "status": status, "error_class": "server", **fields})
        self.log.append(NAMES.executions, tool.encode(), value, partition=partition)

    def circuits(self):
        """Return the circuits as a guard sees them."""
        follower = MemoryFollower(self.clock.monotonic)
        for number in range(self.partitions):
            follower.deliver(self.log.read(NAMES.circuits, number, 0))
        return follower.table.views

    def row(self, tool="search"):
        return Row.decode(self.log.compacted(NAMES.changelog)[tool.encode()].value)

    def records(self, tool="search"):
        found = self.log.read(NAMES.circuits, owner_partition(tool, self.partitions), 0)
        return [msgspec.json.decode(message.value) for message in found if message.key == tool.encode()]


@pytest.fixture
def place():
    return Place()


def test_worker_folds_new_records_and_acknowledges_them(place):
    worker = place.worker()
    for _ in range(3):
        place.say()
    assert worker.step() == 3
    assert place.circuits()["search"].state == "open"
    assert place.row().total_calls == 3
    assert worker.step() == 0


@pytest.mark.parametrize("point", CRASHES)
def test_next_worker_counts_each_call_once_after_a_crash(place, point):
    worker = place.worker()
    place.say()
    worker.step()
    for _ in range(2):
        place.say()
    place.say("success", tool="other")
    crash(worker, worker.hold(), point)
    assert worker.owned == ()
    place.clock.advance(8)
    place.worker().step()
    assert (place.row().total_calls, place.row("other").total_calls) == (3, 1)
    assert [record["version"] for record in place.records()][-1] == 1
    assert {record["state"] for record in place.records()} == {"open"}


def test_takeover_publishes_a_record_that_a_crash_lost(place):
    worker = place.worker()
    for _ in range(3):
        place.say()
    crash(worker, worker.hold(), "after_rows")
    assert place.records() == []
    place.worker()
    assert [(record["state"], record["version"]) for record in place.records()] == [("open", 1)]


def test_replaced_worker_that_resumes_changes_nothing_for_readers(place):
    paused = place.worker()
    for _ in range(3):
        place.say()
    changes = paused.hold()
    place.clock.advance(8)
    successor = place.worker()
    successor.step()
    place.clock.advance(60)
    place.say("rejected", probe_requested=True, emitter_id="p1", error_class=None)
    successor.step()
    assert place.circuits()["search"].version == 2
    crash(paused, changes, "after_outputs")
    assert paused.owned == ()
    circuit = place.circuits()["search"]
    assert (circuit.version, circuit.state, circuit.leases[0].emitter_id) == (2, "half_open", "p1")
    recovered = place.worker()
    assert Row.decode(recovered.rows[b"search"]).version == 2


def test_finish_writes_what_hold_returned(place):
    worker = place.worker()
    for _ in range(3):
        place.say()
    changes = worker.hold()
    assert place.records() == []
    worker.finish(changes)
    assert place.row().total_calls == 3
    assert worker.step() == 0


def test_worker_forwards_a_call_in_the_wrong_partition(place):
    worker = place.worker()
    wrong = (owner_partition("search", 4) + 1) % 4
    for _ in range(3):
        place.say(partition=wrong)
    while worker.step():
        pass
    assert place.row().total_calls == 3
    assert place.circuits()["search"].state == "open"


def test_invalid_execution_becomes_a_dead_letter(place):
    worker = place.worker()
    place.log.append(NAMES.executions, b"search", b"not json", partition=0)
    assert worker.step() == 1
    (letter,) = place.log.compacted(NAMES.dead).values()
    assert letter.value == b"not json"
    assert letter.key == b"t.executions-0-0"


def test_two_workers_share_partitions_and_take_over(place):
    one, other = place.worker(owned=[0, 1]), place.worker(owned=[2, 3])
    tools = [f"tool-{number}" for number in range(12)]
    for tool in tools:
        for _ in range(3):
            place.say(tool=tool)
    assert one.step() + other.step() == 36
    assert not set(one.rows) & set(other.rows)
    one.revoke()
    other.assign(range(4))
    assert {key.decode() for key in other.rows} == set(tools)
    assert {circuit.state for circuit in place.circuits().values()} == {"open"}
    assert all(len(place.records(tool)) == 1 for tool in tools)
