from tests.simulator.invariants.recount import Call, breached


def calls(pattern, *, every_ms=1_000, emitters=3, start=1_800_000_000_000):
    """Return calls of the emitters in turn: ``x`` is a failure, ``.`` a success."""
    return [
        Call(start + number * every_ms, mark == "x", f"p{number % emitters}", None, None, 0.0)
        for number, mark in enumerate(pattern)
    ]


def opens(rule, found, commanded=False):
    return breached(rule, found, found[-1].at_ms, commanded=commanded)


def test_eight_failures_in_a_row_breach_the_sum_and_seven_do_not():
    assert opens("cusum", calls("xxxxxxxx"))
    assert not opens("cusum", calls("xxxxxxx"))


def test_successes_take_the_sum_down_but_not_below_zero():
    assert opens("cusum", calls("." * 50 + "xxxxxxxx"))
    assert not opens("cusum", calls("xxxx" + "...." + "xxxx"))


def test_half_of_twenty_calls_breach_the_rate():
    assert opens("failure_rate", calls(".x" * 10))
    assert not opens("failure_rate", calls(".x" * 9))
    assert not opens("failure_rate", calls("..x" * 10))


def test_the_rate_counts_only_the_last_sixty_seconds():
    assert not opens("failure_rate", calls(".x" * 10, every_ms=10_000))


def test_failures_of_one_process_among_several_are_not_enough_but_of_the_only_one_are():
    one_of_two = [call._replace(emitter="p0" if call.failed else "p1") for call in calls("." + "x" * 8)]
    assert not opens("cusum", one_of_two)
    assert opens("cusum", calls("x" * 8, emitters=1))


def test_the_breach_must_be_at_the_very_instant_unless_a_command_has_it():
    found = calls("x" * 8 + "." * 9)
    assert not opens("cusum", found)
    assert breached("cusum", found, found[7].at_ms, commanded=False)
    assert not breached("cusum", found, found[7].at_ms + 1, commanded=False)
    assert breached("cusum", found, found[7].at_ms + 1, commanded=True)


def test_an_unknown_rule_is_never_breached():
    assert not opens("full_moon", calls("x" * 30))
