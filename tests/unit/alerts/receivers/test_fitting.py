"""Lists of circuits keep the limits of receivers."""

import pytest

from switchgear_alerts.receivers.fitting import LONGEST_LINE, fitted, json_bytes
from tests.support.table import table


@pytest.mark.slow
@table(
    ("lines", "longest", "shown"),
    [
        (["aaa", "bbb"], 8, ["aaa", "bbb"]),
        (["aaa", "bbb"], 7, ["… and 2 more"]),
        (["a" * 12, "b" * 12, "c" * 12], 38, ["a" * 12, "… and 2 more"]),
        (["a" * 12, "b" * 12, "… and 230 more"], 41, ["a" * 12, "b" * 12, "… and 230 more"]),
        (["a" * 12, "b" * 12, "… and 230 more"], 40, ["a" * 12, "… and 231 more"]),
        ([], 0, []),
        (["x" * 9999], 9999, ["x" * (LONGEST_LINE - 1) + "…"]),
    ],
)
def test_whole_lines_are_left_out_and_counted(lines, longest, shown):
    assert fitted(lines, longest) == shown


def test_the_bytes_of_a_line_are_those_that_are_sent():
    assert json_bytes('工"\\') == 9
    assert fitted(["工" * 10, "工" * 10], 66, json_bytes) == ["工" * 10, "工" * 10]
    assert fitted(["工" * 10, "工" * 10], 65, json_bytes) == ["工" * 10, "… and 1 more"]
