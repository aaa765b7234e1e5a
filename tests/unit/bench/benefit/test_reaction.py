from collections import Counter
from random import Random

import pytest

from tests.bench.benefit import reaction
from tests.bench.benefit.reaction import DEFAULT, Reaction
from tests.bench.benefit.worlds import recordings


@pytest.mark.shared
def test_the_shares_are_those_of_the_recordings(shared):
    found = recordings.reactions(recordings.runs(shared / "data" / recordings.PATH.name))
    assert (found.errors, found.again, found.came_back, found.left, found.ended) == (
        reaction.ERRORS,
        reaction.AGAIN,
        reaction.CAME_BACK,
        reaction.LEFT,
        reaction.ENDED,
    )


def test_what_follows_an_error_is_counted_by_the_next_call_of_the_tool():
    def calls(*names: str) -> list[dict[str, str]]:
        return [
            {"tool_name": name.strip("!"), "status": "error" if name.endswith("!") else "success"} for name in names
        ]

    found = recordings.reactions([calls("a!", "a"), calls("a!", "b", "a"), calls("a!", "b"), calls("b", "a!")])
    assert found == recordings.Reactions(errors=4, again=1, came_back=1, left=1, ended=1)


def test_the_measured_share_of_repeated_calls_is_the_default():
    assert DEFAULT.again == 0.42


def test_an_agent_reacts_to_errors_in_the_stated_shares():
    rng = Random(1)
    found = Counter(DEFAULT.after_error(1, rng) for _ in range(20_000))
    assert found["end"] / 20_000 == pytest.approx(DEFAULT.end, abs=0.01)
    assert found["again"] / (20_000 - found["end"]) == pytest.approx(0.42, abs=0.01)
    assert found["later"] / (found["later"] + found["leave"]) == pytest.approx(DEFAULT.later, abs=0.01)


def test_an_agent_leaves_a_step_after_its_last_try():
    rng = Random(1)
    found = {Reaction(end=0.0, again=1.0, tries=3).after_error(3, rng) for _ in range(100)}
    assert found == {"leave"}


def test_an_agent_that_obeys_leaves_the_step_and_one_that_can_wait_waits():
    rng = Random(1)
    assert {Reaction(obeys=1.0, waits=0.0).after_refusal(1, 20.0, rng) for _ in range(100)} == {"leave"}
    assert {Reaction(obeys=1.0, waits=1.0).after_refusal(1, 20.0, rng) for _ in range(100)} == {"wait"}


@pytest.mark.parametrize("wait_s", [None, 61.0])
def test_nobody_waits_for_a_time_that_is_unknown_or_too_long(wait_s):
    rng = Random(1)
    assert {Reaction(obeys=1.0, waits=1.0).after_refusal(1, wait_s, rng) for _ in range(100)} == {"leave"}


def test_an_agent_that_does_not_obey_takes_a_refusal_for_an_error():
    reaction_of = Reaction(obeys=0.0, again=1.0, end=0.0)
    assert {reaction_of.after_refusal(1, 20.0, Random(seed)) for seed in range(100)} == {"again"}
