"""The counter of caller errors, and which errors are the same mistake."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from switchgear.guard.caller_errors import MOST_ARGUMENTS, CallerErrorLimit, CallerErrors, normalised
from switchgear.guard.rejections import Rejection
from tests.support.table import table

NO_CITY = "no such city: 'Osloo'"
DENIED = "the file may only be read by its owner"


def failing(errors: CallerErrors, *arguments: str | None, session: str = "s", message: str = NO_CITY) -> CallerErrors:
    for each in arguments:
        errors.failed(session, "t", "ValueError", message, each)
    return errors


def asked(errors: CallerErrors, arguments: str | None = None, *, session: str = "s", most: int = 3) -> str:
    """Return what became of a call: ``free``, ``trial`` or ``refused``."""
    answer = errors.admit(session, "t", most, None if arguments is None else lambda: arguments)
    if isinstance(answer, Rejection):
        return "refused"
    return "free" if answer is None else "trial"


# -- in a row -------------------------------------------------------------------------------------------------------------


def test_the_call_after_three_caller_errors_in_a_row_is_refused_whatever_its_arguments() -> None:
    for arguments in ("a", "new", None):
        errors = CallerErrors()
        assert asked(failing(errors, "a", "b"), arguments) == "free"
        assert asked(failing(errors, "c"), arguments) == "refused"
        assert errors.refusals == 1


@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_limit_is_what_the_caller_of_the_counter_says(most: int) -> None:
    errors = CallerErrors()
    for number in range(most):
        assert asked(errors, most=most) == "free"
        failing(errors, str(number))
    assert asked(errors, most=most) == "refused"


def test_the_hash_of_the_arguments_is_not_computed_before_the_limit_is_reached() -> None:
    errors = failing(CallerErrors(), "a", "b")
    assert errors.admit("s", "t", 3, lambda: pytest.fail("it was computed")) is None


def test_a_success_starts_afresh() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    errors.start_afresh("s", "t")
    assert (errors.count("s", "t"), asked(errors, "a"), len(errors)) == (0, "free", 0)


def test_another_session_and_another_tool_are_counted_apart() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    assert asked(errors, "a", session="other") == "free"
    assert errors.admit("s", "other tool", 3, lambda: "a") is None
    errors.start_afresh("other", "t")
    assert asked(errors, "a") == "refused"


# -- the same mistake -----------------------------------------------------------------------------------------------------


@table(
    ("first", "second"),
    [
        ("no such city: 'Osloo'", "no such city: 'Ber gen'"),
        ("line 12: expected , at 4711", "Line 7: expected , at 3"),
        (
            "order 3f2b7c1e-8d5a-4b6f-9a1c-2e4d6f8a0b1c is unknown",
            "order c0ffee00-1234-4b6f-9a1c-2e4d6f8a0b1d is unknown",
        ),
        ('the field "name" is missing', 'the field "a longer name" is missing'),
        ("you can't use `a` here", "you can't use `bcd` here"),
        ("", ""),
    ],
)
def test_numbers_ids_quoted_parts_and_capitals_make_no_other_error(first: str, second: str) -> None:
    assert normalised(first) == normalised(second)


def test_an_apostrophe_quotes_nothing() -> None:
    assert normalised("you can't: it isn't there") == "you can't: it isn't there"


def test_similar_texts_are_the_same_error() -> None:
    errors = failing(CallerErrors(), "a", message="no such city: Osloo")
    assert failing(errors, "b", message="no such city: Bergn").count("s", "t") == 2


def test_a_notably_different_text_starts_a_new_run_at_one() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    assert asked(failing(errors, "d", message=DENIED), "a") == "free"
    assert errors.count("s", "t") == 1


def test_another_type_of_exception_starts_a_new_run_at_one() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    errors.failed("s", "t", "KeyError", NO_CITY, "d")
    assert errors.count("s", "t") == 1


def test_the_similarity_is_that_to_the_last_error() -> None:
    errors = CallerErrors()
    for message in ("abcdef", "abcdxy", "abuvxy", "stuvxy"):
        failing(errors, None, message=message)
    assert errors.count("s", "t") == 4
    failing(errors, None, message="abcdef")
    assert errors.count("s", "t") == 1


# -- trials ---------------------------------------------------------------------------------------------------------------


def test_after_a_refusal_other_arguments_are_tried_once() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    assert [asked(errors, each) for each in ("d", "a", "b", "c")] == ["refused"] * 4
    assert [asked(errors, each) for each in ("e", "e", "f", "a")] == ["trial", "refused", "trial", "refused"]


def test_arguments_that_were_refused_before_the_model_knew_are_tried_later() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    assert [asked(errors, each) for each in ("d", "d", "d")] == ["refused", "trial", "refused"]


def test_arguments_whose_trial_failed_with_the_same_error_stay_refused() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    assert [asked(errors, "a"), asked(errors, "d")] == ["refused", "trial"]
    failing(errors, "d")
    assert [asked(errors, each) for each in ("d", "e")] == ["refused", "trial"]
    assert errors.count("s", "t") == 4


def test_a_trial_that_is_given_back_may_be_tried_again() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    assert [asked(errors, "a"), asked(errors, "d")] == ["refused", "trial"]
    errors.give_back("s", "t", "d")
    assert asked(errors, "d") == "trial"


def test_without_known_arguments_every_second_call_is_a_trial() -> None:
    errors = failing(CallerErrors(), None, None, None)
    found = []
    for _ in range(6):
        found.append(asked(errors))
        if found[-1] == "trial":
            failing(errors, None)
    assert found == ["refused", "trial"] * 3


def test_a_trial_without_known_arguments_that_is_given_back_is_free_for_the_next_call() -> None:
    errors = failing(CallerErrors(), None, None, None)
    assert [asked(errors), asked(errors)] == ["refused", "trial"]
    errors.give_back("s", "t", "")
    assert asked(errors) == "trial"


def test_a_trial_given_back_after_a_success_changes_nothing() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    errors.start_afresh("s", "t")
    errors.give_back("s", "t", "d")
    errors.give_back("s", "t", "")
    assert len(errors) == 0


def test_would_refuse_is_true_from_the_limit_to_the_first_refusal_and_changes_nothing() -> None:
    errors = failing(CallerErrors(), "a", "b")
    assert not errors.would_refuse("s", "t", 3)
    failing(errors, "c")
    assert [errors.would_refuse("s", "t", 3) for _ in range(3)] == [True] * 3
    assert asked(errors, "a") == "refused"
    assert not errors.would_refuse("s", "t", 3)


# -- memory ---------------------------------------------------------------------------------------------------------------


def test_the_run_that_was_used_longest_ago_is_forgotten_first() -> None:
    errors = CallerErrors(limit=2)
    failing(errors, "a", session="1")
    failing(errors, "a", session="2")
    failing(errors, "a", session="1")
    failing(errors, "a", session="3")
    assert [errors.count(session, "t") for session in "123"] == [2, 0, 1]


def test_the_arguments_of_a_run_are_bounded() -> None:
    errors = failing(CallerErrors(), *map(str, range(MOST_ARGUMENTS + 1)))
    assert [asked(errors, each) for each in ("1", "0", str(MOST_ARGUMENTS))] == ["refused", "trial", "refused"]


def test_the_end_of_a_session_forgets_its_runs_only() -> None:
    errors = failing(CallerErrors(), "a", session="1")
    failing(errors, "a", session="2")
    errors.forget("1")
    assert [errors.count(session, "t") for session in "12"] == [0, 1]


# -- the refusal ----------------------------------------------------------------------------------------------------------


def test_the_refusal_shows_the_last_error_without_secrets_and_how_many_calls_failed() -> None:
    errors = failing(CallerErrors(), "a", "b", "c", message=f"password=hunter2\n is no city. {'x' * 5_000}")
    refused = errors.admit("s", "t", 3, None)
    assert isinstance(refused, Rejection)
    assert (refused.source, refused.failures, refused.reason) == ("caller", 3, "3 caller errors in a row")
    assert refused.text.startswith(
        r'Your last 3 calls of t were rejected: "ValueError: password=[redacted]\n is no city. xxx'
    )
    assert refused.text.endswith(". Change the arguments or use another tool.")
    assert (refused.text.isprintable(), len(refused.text) < 450) == (True, True)


def test_the_text_of_a_single_rejected_call_without_a_message_has_no_gaps() -> None:
    errors = CallerErrors()
    errors.failed("s", "t", None, "")
    refused = errors.admit("s", "t", 1, None)
    assert isinstance(refused, Rejection)
    assert refused.text == "Your last call of t was rejected. Change the arguments or use another tool."
    assert refused.error().message == "Calls of t were rejected again and again (1 caller error in a row)."


def test_a_refusal_after_a_failed_trial_shows_the_error_of_the_trial() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    assert [asked(errors, "a"), asked(errors, "d")] == ["refused", "trial"]
    failing(errors, "d", message="no such city: 'Bergn'")
    refused = errors.admit("s", "t", 3, lambda: "d")
    assert isinstance(refused, Rejection)
    assert refused.text.startswith("Your last 4 calls of t were rejected: \"ValueError: no such city: 'Bergn'\".")


# -- the limit of a session, and threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error_class", ["tool", "invalid_input"])
def test_failures_of_the_classes_tool_and_invalid_input_count(error_class: str) -> None:
    errors = CallerErrors()
    CallerErrorLimit(errors, "s", 3).ended("t", None, error_class, None, "no", None)  # type: ignore[arg-type]
    assert errors.count("s", "t") == 1


@table(
    ("error_class", "left"),
    [("cancelled", 1), ("policy", 1), ("transport", 0), ("timeout", 0), ("server", 0), ("auth", 0), (None, 0)],
)
def test_a_cancelled_or_ignored_call_changes_nothing_and_any_other_end_starts_afresh(
    error_class: str | None, left: int
) -> None:
    errors = failing(CallerErrors(), "a")
    CallerErrorLimit(errors, "s", 3).ended("t", None, error_class, None, "no", None)  # type: ignore[arg-type]
    assert errors.count("s", "t") == left


def test_a_cancelled_trial_may_be_tried_again() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    limit = CallerErrorLimit(errors, "s", 3)
    assert isinstance(limit.admit("t", lambda: "a"), Rejection)
    assert limit.admit("t", lambda: "d") == "d"
    limit.ended("t", "d", "cancelled", None, None, None)
    assert limit.admit("t", lambda: "d") == "d"


def test_of_many_threads_with_the_same_new_arguments_one_gets_the_trial() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    limit = CallerErrorLimit(errors, "s", 3)
    limit.admit("t", lambda: "a")
    answers: list[object] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        answers.extend(limit.admit("t", partial(str, number)) for number in range(50))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trials = [answer for answer in answers if isinstance(answer, str)]
    assert sorted(trials) == sorted(str(number) for number in range(50))
    assert limit.refused == {"t": 1 + 8 * 50 - 50}
    assert errors.refusals == 1 + 8 * 50 - 50


# -- in another process -----------------------------------------------------------------------------------------------


def test_a_run_goes_on_from_its_saved_bytes_with_what_the_model_knows_and_which_arguments_failed() -> None:
    errors = failing(CallerErrors(), "a", "b", "c")
    assert asked(errors, "a") == "refused"
    saved = errors.saved("s", "t")
    assert saved is not None
    other = CallerErrors()
    other.load("s", "t", saved)
    assert other.count("s", "t") == 3
    assert asked(other, "b") == "refused"
    assert asked(other, "d") == "trial"
    assert asked(failing(other, "d"), "d") == "refused"


def test_without_caller_errors_there_is_nothing_to_save() -> None:
    assert CallerErrors().saved("s", "t") is None
