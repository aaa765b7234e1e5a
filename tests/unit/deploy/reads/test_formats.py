"""How values read in a table."""

from switchgear_cli.reads.formats import ago, clock, count, duration, plain, share, state
from tests.support.table import table

NOW = "2026-03-01T12:00:00Z"


@table(
    ("milliseconds", "text"),
    [
        (0, "0 ms"), (0.04, "0.0 ms"), (0.4, "0.4 ms"), (9.94, "9.9 ms"), (10, "10 ms"), (150.4, "150 ms"),
        (999.4, "999 ms"), (999.6, "1.00 s"), (1250, "1.25 s"), (9994, "9.99 s"), (10_000, "10 s"), (95_000, "95 s"),
        (120_000, "2 min"), (3_600_000, "60 min"),
    ],
)  # fmt: skip
def test_a_duration_has_the_unit_it_is_read_in(milliseconds, text):
    assert duration(milliseconds) == text


@table(
    ("value", "text"),
    [(1, "100 %"), (0.9996, "99.9 %"), (0.99999, "99.9 %"), (0.95, "95.0 %"), (0.0, "0.0 %"), (0.8765, "87.6 %")],
)
def test_a_share_below_all_is_not_rounded_to_all(value, text):
    assert share(value) == text


def test_counts_have_thousands_separators():
    assert count(1_234_567) == "1,234,567"


@table(
    ("moment", "text"),
    [
        (None, "-"),
        ("2026-03-01T12:00:00Z", "0 s ago"),
        ("2026-03-01T11:59:18.4Z", "42 s ago"),
        ("2026-03-01T11:30:00+00:00", "30 min ago"),
        ("2026-03-01T05:00:00Z", "7 h ago"),
        ("2026-02-20T12:00:00Z", "9 d ago"),
        ("2026-03-01T12:00:30Z", "in 30 s"),
    ],
)
def test_times_are_shown_by_how_long_ago(moment, text):
    assert ago(moment, NOW) == text


def test_a_clock_time_is_utc():
    assert clock("2026-03-01T14:00:00.5+02:00") == "2026-03-01 12:00:00"
    assert clock(None) == "-"


def test_states_are_shown_by_name_in_their_colours():
    assert (state("forced_open").plain, state("forced_open").style) == ("forced open", "bold red")
    assert state(None).plain == "-"
    assert state("some new state").style == ""


@table(
    ("value", "text"),
    [
        ("a\nb\t c", "a b c"),
        ("\x1b[31mred\x1b[0m", "\\u001b[31mred\\u001b[0m"),
        ("right\u202eleft", "right\\u202eleft"),
        ("[bold]not markup[/]", "[bold]not markup[/]"),
        (None, ""),
        (7, "7"),
    ],
)
def test_untrusted_text_cannot_command_the_terminal(value, text):
    assert plain(value) == text
