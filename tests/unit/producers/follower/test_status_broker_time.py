import pytest

from switchgear.follower.status import SAMPLES, BrokerTime
from tests.support.table import table


class Wall:
    def __init__(self, ahead_s):
        self.broker = 1_800_000_000.0
        self.ahead_s = ahead_s

    def __call__(self):
        return self.broker + self.ahead_s


def hear(time, wall, latency_s=0.005):
    """A record is written, and read after its way."""
    written = wall.broker
    wall.broker += latency_s
    time.heard(int(written * 1000))


@table("ahead_s", [600.0, 31.0, 2.0, -2.0, -600.0])
def test_a_clock_that_is_off_is_set_right_by_the_first_record(ahead_s):
    wall = Wall(ahead_s)
    time = BrokerTime(wall)
    assert time() == wall()
    hear(time, wall)
    assert time() == pytest.approx(wall.broker, abs=0.05)


@pytest.mark.parametrize("ahead_s", [0.0, 0.9, -0.9])
def test_ignores_a_clock_difference_of_less_than_a_second(ahead_s):
    wall = Wall(ahead_s)
    time = BrokerTime(wall)
    hear(time, wall)
    assert time() == wall()


def test_a_record_that_was_long_under_way_does_not_set_a_good_clock_back():
    wall = Wall(0.0)
    time = BrokerTime(wall)
    hear(time, wall)
    hear(time, wall, latency_s=40.0)
    assert time() == wall()


def test_a_clock_that_is_corrected_meanwhile_is_believed_with_the_next_record():
    wall = Wall(600.0)
    time = BrokerTime(wall)
    hear(time, wall)
    wall.ahead_s = 0.0
    hear(time, wall)
    assert time() == pytest.approx(wall.broker, abs=0.05)


def test_a_clock_that_jumps_ahead_is_noticed_after_some_records():
    wall = Wall(0.0)
    time = BrokerTime(wall)
    hear(time, wall)
    wall.ahead_s = 100.0
    for _ in range(SAMPLES):
        hear(time, wall)
    assert time() == pytest.approx(wall.broker, abs=0.05)


def test_a_guard_ignores_one_record_from_the_future_and_believes_the_second():
    wall = Wall(0.0)
    time = BrokerTime(wall)
    for _ in range(3):
        hear(time, wall)
    time.heard(int((wall.broker + 3600) * 1000))
    assert time() == wall()
    hear(time, wall)
    assert time() == wall()
    time.heard(int((wall.broker + 3600) * 1000))
    assert time() == pytest.approx(wall() + 3600, abs=0.05)
