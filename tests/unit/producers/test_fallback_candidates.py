import pytest

from switchgear.fallback import candidates
from tests.support.table import table


@table(
    ("opened", "expected"),
    [("", "abcd"), ("a", "bcd"), ("bd", "ac"), ("abc", "d"), ("abcd", "abcd")],
)
def test_open_targets_are_left_out_unless_none_would_be_left(opened, expected):
    assert candidates("abcd", lambda target: target in opened) == list(expected)


@pytest.mark.parametrize(("percent", "expected"), [(10, "bcd"), (50, "cd"), (75, "d"), (100, "abcd")])
def test_no_more_than_the_allowed_share_is_left_out_and_one_in_any_case(percent, expected):
    assert candidates("abcd", lambda _: True, max_open_percent=percent) == list(expected)
