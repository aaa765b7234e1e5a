import random

import pytest

from switchgear.breaker.windows import DEFAULT_PANES, CountWindow, TimeWindow


def test_a_window_has_a_pane_a_second_up_to_the_default():
    panes = [TimeWindow(size, None, 0.0).panes for size in (0.5, 1.0, 10.0, 60.0, 3600.0)]
    assert panes == [1, 1, 10, DEFAULT_PANES, DEFAULT_PANES]
    assert TimeWindow(60.0, 7, 0.0).panes == 7


def test_a_pane_leaves_as_a_whole_when_its_time_is_over():
    window = TimeWindow(10.0, 10, 0.0)
    window.add_failed(0.9, True, 5)
    window.add(1.0, False)
    window.roll(9.99)
    assert (window.calls, window.failed, window.slow, window.tokens) == (2, 1, 1, 5)
    window.roll(10.0)
    assert (window.calls, window.failed, window.slow, window.tokens) == (1, 0, 0, 0)
    window.roll(11.0)
    assert window.calls == 0


def test_a_single_pane_starts_empty_at_each_multiple_of_its_size():
    window = TimeWindow(30.0, 1, 0.0)
    window.add(29.9, False)
    assert window.fixed
    assert window.calls == 1
    window.add(30.0, False)
    assert window.calls == 1


def test_a_clock_that_goes_back_counts_into_the_newest_pane():
    window = TimeWindow(10.0, 10, 100.0)
    window.add(105.0, False)
    window.add_failed(101.0, False, 0)
    window.roll(50.0)
    assert (window.calls, window.failed) == (2, 1)


@pytest.mark.parametrize("panes", [1, 3, 10, 120])
def test_running_totals_are_the_sum_of_the_panes_whatever_happens(panes):
    chance = random.Random(panes)
    window, now = TimeWindow(20.0, panes, 0.0), 0.0
    for _ in range(3000):
        now += chance.choice([0.0, 0.01, 0.5, 3.0, 19.0, 40.0])
        if chance.random() < 0.1:
            window.add_ignored(now)
        elif chance.random() < 0.5:
            window.add(now, chance.random() < 0.3)
        else:
            window.add_failed(now, chance.random() < 0.3, chance.randrange(100))
        sums = [sum(column) for column in zip([0] * 5, *[pane[1:] for pane in window.dump()], strict=True)]
        assert sums == [window.calls, window.failed, window.slow, window.ignored, window.tokens]


def test_an_hour_of_calls_takes_no_more_memory_than_ten_seconds():
    short, long = TimeWindow(20.0, DEFAULT_PANES, 0.0), TimeWindow(3600.0, DEFAULT_PANES, 0.0)
    for second in range(3600):
        short.add_failed(float(second), True, 10**6)
        long.add_failed(float(second), True, 10**6)
    assert len(long.dump()) == len(short.dump()) == DEFAULT_PANES


def test_a_huge_number_of_tokens_does_not_overflow():
    window = TimeWindow(10.0, 10, 0.0)
    for _ in range(1000):
        window.add_failed(0.0, False, 10**12)
    assert window.tokens == 10**15


def test_a_count_window_holds_the_last_calls_only():
    window = CountWindow(3)
    window.add_failed(0.0, True, 7)
    window.add(0.0, True)
    window.add(0.0, False)
    assert (window.calls, window.failed, window.slow, window.tokens) == (3, 1, 2, 7)
    window.add(0.0, False)
    assert (window.calls, window.failed, window.slow, window.tokens) == (3, 0, 1, 0)
    window.add_failed(0.0, False, 2)
    assert (window.calls, window.failed, window.slow, window.tokens) == (3, 1, 0, 2)


@pytest.mark.slow
def test_a_count_window_agrees_with_a_list():
    chance = random.Random(3)
    window, calls = CountWindow(7), []
    for _ in range(2000):
        failed, slow, tokens = chance.random() < 0.5, chance.random() < 0.5, chance.randrange(3)
        if failed:
            window.add_failed(0.0, slow, tokens)
        else:
            window.add(0.0, slow)
        calls.append((failed, slow, tokens if failed else 0))
        last = calls[-7:]
        sums = (len(last), sum(c[0] for c in last), sum(c[1] for c in last), sum(c[2] for c in last))
        assert (window.calls, window.failed, window.slow, window.tokens) == sums
        assert [(flags & 1, flags >> 1, t) for flags, t in window.dump()] == [tuple(map(int, c)) for c in last]


def test_ignored_calls_do_not_enter_a_count_window():
    window = CountWindow(2)
    window.add(0.0, False)
    window.add_ignored(0.0)
    assert (window.calls, window.ignored) == (1, 1)


@pytest.mark.parametrize("window", [TimeWindow(10.0, 10, 0.0), CountWindow(5)])
def test_a_loaded_window_goes_on_where_it_was_dumped(window):
    copy = copy_of(window)
    for second in range(7):
        window.add_failed(float(second), second % 2 == 0, second)
        window.add(float(second), False)
    copy.load(window.stamp, window.dump())
    for second in range(7, 12):
        for each in (window, copy):
            each.add_failed(float(second), True, 1)
        assert (copy.stamp, copy.calls, copy.failed, copy.slow, copy.tokens) == (
            window.stamp,
            window.calls,
            window.failed,
            window.slow,
            window.tokens,
        )
        assert copy.dump() == window.dump()


def copy_of(window):
    return TimeWindow(window.size, window.panes, 0.0) if window.panes else CountWindow(window.size)
