"""How a consumer group gets on, from look to look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from switchgear_api.console.groups import GroupLook, Progress, described, lag_of

AT = datetime(2026, 11, 28, 6, 0, tzinfo=UTC)


def looks(*rows):
    """The groups after looks every 5 s: records done, and records that wait."""
    progress = Progress()
    return [
        progress.after(GroupLook(1, True, done, lag), AT + timedelta(seconds=5 * number), 5.0 * number)
        for number, (done, lag) in enumerate(rows)
    ]


def test_a_group_without_new_records_stands_still_for_no_time_however_long():
    assert [each.stands_s for each in looks((10, 0), (10, 0), (10, 0), (10, 0))] == [0, 0, 0, 0]


def test_a_group_stands_still_from_the_first_record_that_it_does_not_take():
    found = looks((10, 0), (12, 0), (12, 3), (12, 3), (12, 9))
    assert [each.stands_s for each in found] == [0, 0, 0, 5, 10]
    assert {each.moved_at for each in found[1:]} == {AT + timedelta(seconds=5)}


def test_a_group_that_gets_on_again_does_not_stand_still():
    assert [each.stands_s for each in looks((10, 0), (10, 3), (10, 5), (11, 5), (11, 5))] == [0, 0, 5, 0, 0]


def test_a_mark_of_a_transaction_at_the_end_that_no_group_commits_is_not_work_that_waits():
    assert [each.stands_s for each in looks((10, 1), (10, 1), (10, 1), (10, 1))] == [0, 0, 0, 0]


def test_how_far_a_group_is_behind_follows_from_how_fast_it_gets_on():
    found = looks((0, 100_000), (50_000, 100_000), (60_000, 200_000))
    assert [each.behind_s for each in found] == [None, 10, 100]


def test_offsets_that_were_set_back_are_no_sign_of_work():
    found = looks((10, 0), (12, 0), (4, 8))
    assert (found[2].moved_at, found[2].stands_s) == (AT + timedelta(seconds=5), 0)


def test_a_group_that_the_broker_does_not_know_has_no_members_and_was_never_used():
    answer = SimpleNamespace(API_VERSION=3, groups=[(0, "worker", "Stable", "consumer", "range", ["a", "b"], 0)])
    assert described([answer], "worker") == (2, "Stable")
    assert described([answer], "alerts") == (0, "Dead")
    older = SimpleNamespace(API_VERSION=1, groups=[(0, "worker", "Empty", "consumer", "range", [])])
    assert described([older], "worker") == (0, "Empty")


def test_a_partition_counts_from_its_first_record_that_is_still_there():
    committed = {"a": SimpleNamespace(offset=5), "b": SimpleNamespace(offset=2), "gone": SimpleNamespace(offset=1)}
    assert lag_of(committed, {"a": 0, "b": 10}, {"a": 9, "b": 12}) == 6
