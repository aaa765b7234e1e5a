import pytest

from switchgear.testing import FakeClock, MemoryLog
from switchgear.testing.log import NoSuchPartitionError
from switchgear_schemas.partitioner import owner_partition


@pytest.fixture
def clock():
    return FakeClock(start=1_000.0)


@pytest.fixture
def log(clock):
    made = MemoryLog(clock.wall)
    made.create("calls", 4)
    return made


def test_append_returns_offset_and_time(log, clock):
    clock.advance(0.25)
    message = log.append("calls", b"search", b"{}", headers=[("a", b"1")])
    assert message.partition == owner_partition("search", 4)
    assert (message.topic, message.offset, message.timestamp, message.key) == ("calls", 0, 1_000_250, b"search")
    assert message.headers == [("a", b"1")]
    assert log.append("calls", b"search", b"{}").offset == 1


def test_append_takes_a_partition(log):
    assert log.append("calls", None, b"x", partition=3).partition == 3
    assert [message.value for message in log.read("calls", 3, 0)] == [b"x"]


def test_time_never_decreases_within_a_partition(clock):
    times = iter([5.0, 4.0, 6.0])
    log = MemoryLog(lambda: next(times))
    log.create("calls", 1)
    assert [log.append("calls", b"k", b"v").timestamp for _ in range(3)] == [5_000, 5_000, 6_000]


def test_read_starts_at_an_offset_and_may_be_bounded(log):
    for number in range(5):
        log.append("calls", b"k", b"%d" % number, partition=0)
    assert [message.value for message in log.read("calls", 0, 3)] == [b"3", b"4"]
    assert [message.value for message in log.read("calls", 0, 1, 2)] == [b"1", b"2"]
    assert log.read("calls", 0, 5) == []
    assert log.end("calls", 0) == 5


def test_compacted_returns_the_newest_record_of_each_key(log):
    log.create("states", 2)
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (None, b"x")):
        log.append("states", key, value, partition=1)
    assert {key: message.value for key, message in log.compacted("states").items()} == {b"a": b"2"}


def test_error_names_the_missing_topic_and_the_existing_ones(log):
    with pytest.raises(NoSuchPartitionError, match=r"topic cals has no partition 0.*calls \(4\)"):
        log.append("cals", b"k", b"v", partition=0)
    with pytest.raises(NoSuchPartitionError, match="topic calls has no partition 9"):
        log.read("calls", 9, 0)
