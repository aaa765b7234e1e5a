"""The measures of a trial, from its calls."""

from __future__ import annotations

import math

from tests.bench.fleet.agent import Call
from tests.bench.fleet.measures import measure
from tests.bench.fleet.outages import OUTAGES, SIMULATED

DOWN, PARTIAL, ONE_BAD = OUTAGES[0], OUTAGES[1], OUTAGES[-1]
BROKEN, BACK = SIMULATED.healthy_s, SIMULATED.recovers_s


def failed(process, at):
    return Call(process, at, at + 0.1, reached=True, good=False)


def refused(process, at, good=False):
    return Call(process, at, at, reached=False, good=good)


def answered(process, at, seconds=3.0):
    return Call(process, at, at + seconds, reached=True, good=True)


def test_the_time_until_all_refuse_is_from_the_first_failed_call_to_the_last_process():
    calls = [failed(0, BROKEN + 1), refused(0, BROKEN + 2), failed(1, BROKEN + 3), refused(1, BROKEN + 6)]
    assert measure(calls, DOWN, SIMULATED, 2).until_refused_s == 5


def test_a_process_that_never_refuses_makes_it_infinite():
    calls = [failed(0, BROKEN + 1), refused(0, BROKEN + 2), failed(1, BROKEN + 3)]
    found = measure(calls, DOWN, SIMULATED, 2)
    assert math.isinf(found.until_refused_s)
    assert found.probes is None


def test_a_refusal_before_the_first_failed_call_does_not_count():
    calls = [refused(0, BROKEN + 0.5), failed(0, BROKEN + 1)]
    assert math.isinf(measure(calls, DOWN, SIMULATED, 1).until_refused_s)


def test_calls_that_reached_the_broken_tool_are_wasted():
    calls = [failed(0, BROKEN - 1), failed(0, BROKEN + 1), failed(0, BACK - 1), answered(0, BROKEN + 2)]
    assert measure(calls, DOWN, SIMULATED, 1).wasted == 2


def test_refused_calls_that_would_have_succeeded_are_counted_at_any_time():
    calls = [refused(0, BROKEN - 1, good=True), refused(0, BROKEN + 1), refused(0, BACK + 1, good=True)]
    assert measure(calls, DOWN, SIMULATED, 1).good_refused == 2


def test_probes_are_the_calls_before_the_first_answer_of_the_recovered_tool():
    broken = [failed(0, BROKEN + 1), *(refused(each, BROKEN + 2) for each in range(3))]
    recovery = [answered(0, BACK + 1), answered(1, BACK + 2), answered(2, BACK + 5), answered(0, BACK + 6)]
    assert measure(broken + recovery, DOWN, SIMULATED, 3).probes == 2


def test_an_outage_in_which_calls_succeed_has_no_probes():
    calls = [failed(0, BROKEN + 1), refused(0, BROKEN + 2), answered(0, BACK + 1)]
    assert measure(calls, PARTIAL, SIMULATED, 1).probes is None


def test_only_the_bad_process_must_refuse():
    calls = [failed(0, BROKEN + 1), refused(0, BROKEN + 3), answered(1, BROKEN + 1), refused(1, BROKEN + 4, good=True)]
    found = measure(calls, ONE_BAD, SIMULATED, 2)
    assert (found.until_refused_s, found.wasted, found.good_refused, found.calls) == (2, 1, 1, 4)
