"""The API's answers as tables of at most 100 columns."""

import io
from typing import Any

import pytest
from rich.console import Console

from switchgear_cli.reads import output, tables
from switchgear_cli.reads.limits import limit_in_words
from tests.support.table import table

NOW = "2026-03-01T12:00:00Z"


def text_of(renderable, width=100) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(renderable, highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined]


def report(name="search", status="healthy", **fields) -> dict[str, Any]:
    return {
        "tool_name": name, "status": status, "success_rate": 0.987, "avg_latency_ms": 151.2, "total_calls": 12345,
        "recent_errors": 160, "issues": [], "recommendations": [], "checked_at": NOW, "rejected_calls": 7,
        "p50_latency_ms": 100.0, "p95_latency_ms": 1500.0, "p99_latency_ms": 2000.0, "circuit_state": "closed",
    } | fields  # fmt: skip


def circuit(name="search", state="open", **fields) -> dict[str, Any]:
    return {
        "circuit_id": name, "tool_name": name, "state": state, "previous_state": "closed", "version": 3,
        "changed_at": "2026-03-01T11:59:00Z", "open_until": "2026-03-01T12:00:30Z", "opens": 2,
        "last_opened_at": "2026-03-01T11:59:00Z", "last_closed_at": None,
        "cause": {"rule": "cusum", "value": 12.345678, "threshold": 12.0, "actor": None, "reason": None},
    } | fields  # fmt: skip


def execution(**fields) -> dict[str, Any]:
    return {
        "recorded_at": NOW, "tool_name": "search", "status": "timeout", "execution_time_ms": 6000.0,
        "error_type": "TimeoutError", "error_class": "timeout", "error_message": "no answer",
    } | fields  # fmt: skip


def system(*reports) -> dict[str, Any]:
    names = ("healthy", "degraded", "unhealthy", "unknown")
    return {
        "hours": 1,
        "status": "degraded",
        "tool_reports": list(reports),
        "summary": {name: sum(each["status"] == name for each in reports) for name in names},
        "checked_at": NOW,
    }


def test_tools_are_listed_worst_first_with_their_figures():
    shown = text_of(tables.tools(system(report(), report("broken", "unhealthy", circuit_state="open"))))
    lines = shown.splitlines()
    assert lines[0] == "System degraded over the last hour: 1 healthy, 1 unhealthy."
    assert [line.split()[0] for line in lines[3:5]] == ["broken", "search"]
    for figure in ("12,345", "160", "98.7 %", "151 ms", "1.50 s", "7", "closed", "open"):
        assert figure in shown


def test_a_tool_that_was_not_called_has_no_rate_and_no_latency():
    never = report("never", "unknown", total_calls=0, recent_errors=0, success_rate=0.0, circuit_state=None)
    row = text_of(tables.tools(system(never))).splitlines()[3].split()
    assert row == ["never", "unknown", "-", "0", "0", "-", "-", "-", "7"]


def test_caller_errors_and_cancelled_calls_have_columns_where_a_tool_has_some():
    plain = text_of(tables.tools(system(report()))).splitlines()[2]
    assert "caller err." not in plain
    assert "cancelled" not in plain
    wrong = report("wrong", "unknown", total_calls=12, recent_errors=0, success_rate=0.0, caller_errors=12)
    heading, _, row = text_of(tables.tools(system(report(), wrong)), width=200).splitlines()[2:]
    assert "failed  caller err.  success" in heading
    assert row.split() == ["wrong", "unknown", "closed", "12", "0", "12", "-", "-", "-", "7"]


def test_circuits_show_state_probe_opens_and_cause():
    shown = text_of(
        tables.circuits({"circuits": [circuit(), circuit("b", "closed", open_until=None)], "checked_at": NOW})
    )
    for part in ("60 s ago", "more calls failed", "in 30 s", "closed"):
        assert part in shown
    assert "cusum" not in shown
    due = circuit(open_until="2026-03-01T11:59:30Z")
    assert "probe due" in text_of(tables.circuits({"circuits": [due], "checked_at": NOW}))


def test_an_operators_command_names_who_and_why():
    forced = circuit(state="forced_open", cause={"rule": "command", "actor": "ops", "reason": "maintenance"})
    shown = text_of(tables.circuits({"circuits": [forced], "checked_at": NOW}), width=200)
    assert "forced open by ops: maintenance" in shown


BREACH = {
    "rule": "cusum", "value": 11.99, "threshold": 11.99, "sample": 8, "failed": 8, "reporters": 2,
    "tolerable_failure_rate": 0.1, "calls_between_false_opens": 1_000_000.0,
}  # fmt: skip
SENTENCE = (
    "8 of the last 8 calls failed; a healthy tool (at most 10 % failures) gets that far less than once in 1,000,000 calls;"
    " reported by at least 2 processes"
)


@table("width", [80, 100, 140])
@table(("table", "more"), [("circuits", "; probe in 30 s"), ("history", "")], ids=["circuits", "history"])
def test_the_sentence_for_a_breach_wraps_without_losing_a_word(width, table, more):
    opened = circuit("mcp:weather:get_forecast", cause=BREACH)
    answer = {"circuits": [opened], "history": [opened], "checked_at": NOW}
    shown = text_of((tables.circuits if table == "circuits" else tables.circuit_history)(answer), width=width)
    assert max(map(len, shown.splitlines())) <= width
    column = shown.splitlines()[0].index("why")
    assert " ".join(line[column:].strip() for line in shown.splitlines()[1:]) == f"{SENTENCE}{more}"


def test_lesser_columns_go_before_a_sentence_becomes_a_narrow_column():
    opened = circuit("mcp:weather:get_forecast", cause=BREACH)
    shown = text_of(tables.circuits({"circuits": [opened], "checked_at": NOW}))
    assert len(shown.splitlines()) <= 8


def local_circuit(**fields) -> dict[str, Any]:
    return {
        "tool_name": "mcp:weather:get_forecast", "service": "planner", "scope": "tool", "state": "open", "processes": 2,
        "since": "2026-03-01T11:59:00Z", "last_refusal_at": "2026-03-01T11:59:48Z", "refusals": 1234,
        "open_until": "2026-03-01T12:00:48Z", "last_error": "ConnectionError: down",
        "cause": {"rule": "consecutive_failures", "value": 5.0, "threshold": 5.0, "sample": 5},
    } | fields  # fmt: skip


def both(*fleets, local) -> dict[str, Any]:
    return {"circuits": list(fleets), "local_circuits": local, "local_within_s": 600.0, "checked_at": NOW}


@pytest.mark.parametrize("width", [80, 100, 140])
def test_circuits_that_processes_opened_are_apart_from_the_fleets_and_say_what_they_are(width):
    shown = text_of(tables.circuits(both(local=[local_circuit()])), width=width)
    assert max(map(len, shown.splitlines())) <= width
    words = " ".join(shown.split())
    assert words.startswith(
        "Fleet: no circuit is open. Opened by processes on their own evidence (last 10 minutes) tool"
    )
    for part in ("mcp:weather:get_forecast", "planner", "processes", " 2 ", "1,234"):
        assert part in words
    assert words.endswith("by its own circuit, not by the fleet's. When a process ends, its circuit is gone.")
    column = shown.splitlines()[3].index("why")
    why = " ".join(line[column:].strip() for line in shown.splitlines()[4:] if line.startswith((" " * column, "mcp:")))
    assert why == "5 calls in a row failed (the limit is 5); last refusal 12 s ago; probe in 48 s"


@pytest.mark.parametrize(
    ("states", "heading"),
    [
        (["closed", "half_open"], "Fleet: no circuit is open."),
        (["open"], "Fleet: 1 circuit is open."),
        (["open", "forced_open", "closed"], "Fleet: 2 circuits are open."),
    ],
)
def test_the_fleets_circuits_are_listed_above_those_of_processes(states, heading):
    fleets = [circuit(f"tool-{place}", one) for place, one in enumerate(states)]
    shown = text_of(tables.circuits(both(*fleets, local=[local_circuit()])))
    assert shown.startswith(heading)
    assert shown.index("tool-0") < shown.index("Opened by processes") < shown.index("mcp:weather:get_forecast")


def test_without_circuits_of_processes_the_fleets_stand_alone():
    alone = {"circuits": [circuit()], "checked_at": NOW}
    assert text_of(tables.circuits(both(circuit(), local=[]))) == text_of(tables.circuits(alone))
    assert "No circuit yet" in text_of(tables.circuits(both(local=[])))


def test_a_circuit_per_user_or_session_says_so():
    shown = text_of(
        tables.circuits(both(local=[local_circuit(scope="session"), local_circuit(scope="user")])), width=200
    )
    assert "get_forecast (per session)" in shown
    assert "get_forecast (per user)" in shown


def test_a_circuit_that_says_nothing_of_itself_is_listed_all_the_same():
    bare = local_circuit(cause=None, open_until=None, service="", last_error=None)
    row = text_of(tables.circuits(both(local=[bare])), width=140).splitlines()[4]
    assert " ".join(row.split()) == (
        "mcp:weather:get_forecast open - 2 1,234 60 s ago (11:59:00Z) last refusal 12 s ago"
    )
    late = local_circuit(cause=None, open_until="2026-03-01T11:59:59Z")
    assert (
        text_of(tables.circuits(both(local=[late])), width=140)
        .splitlines()[4]
        .endswith("last refusal 12 s ago; probe due")
    )


def test_what_a_foreign_producer_sends_can_not_steer_the_terminal():
    shown = text_of(tables.circuits(both(local=[local_circuit(tool_name="a\x1b[2Jb", service="s\x07")])), width=140)
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_one_tools_report_shows_the_circuits_that_processes_opened():
    answer = one_tool("search") | {"circuits": [], "local_circuits": [local_circuit()], "local_within_s": 600.0}
    shown = text_of(tables.tool(answer))
    assert "Fleet: no circuit is open." in shown
    assert "Opened by processes on their own evidence (last 10 minutes)" in shown
    assert "1,234" in shown


def test_a_record_of_an_older_version_is_explained_from_its_counts():
    older = circuit(
        cause={"rule": "cusum", "value": 11.99, "threshold": 11.99, "sample": 8}, counts={"calls": 8, "failed": 7}
    )
    assert "7 of the last 8 calls failed" in text_of(
        tables.circuits({"circuits": [older], "checked_at": NOW}), width=200
    )


def test_the_history_shows_each_change():
    shown = text_of(tables.circuit_history({"history": [circuit()], "checked_at": NOW}), width=140)
    assert "60 s ago (11:59:00Z)" in shown
    assert "closed → open" in shown


LONG_MESSAGE = "upstream https://weather.example.com/v2/forecast answered 503 Service Unavailable after 3 tries; the last one took 30.2 s"


@pytest.mark.parametrize(
    ("width", "absolute", "took"), [(80, False, False), (100, False, True), (130, True, True), (200, True, True)]
)
def test_a_narrow_terminal_shows_relative_times_and_no_error_message_takes_more_than_four_lines(width, absolute, took):
    call = execution(tool_name="mcp:weather:get_forecast", error_message=LONG_MESSAGE)
    shown = text_of(tables.executions([call], ""), width=width)
    assert len(shown.splitlines()) <= 1 + 4
    assert (" ago" in shown, "2026-03-01 12:00:00Z" in shown, "6.00 s" in shown) == (True, absolute, took)


def test_the_slowest_calls_show_how_long_they_took_on_any_terminal():
    call = execution(tool_name="mcp:weather:get_forecast", error_message=LONG_MESSAGE)
    assert "6.00 s" in text_of(tables.executions([call], "", by_duration=True), width=80)


def test_calls_show_when_what_and_how_long():
    shown = text_of(tables.executions([execution()], "nothing"))
    for part in ("2026-03-01 12:00:00Z", "search", "timeout", "6.00 s", "TimeoutError", "no answer"):
        assert part in shown


@pytest.mark.parametrize(
    ("renderable", "word"),
    [
        (tables.tools(system()), "No tool has been called yet"),
        (tables.circuits({"circuits": [], "checked_at": NOW}), "No circuit yet"),
        (tables.circuit_history({"history": [], "checked_at": NOW}), "No circuit has changed"),
        (tables.executions([], "No errors are stored."), "No errors are stored."),
    ],
)
def test_an_empty_report_is_shown_as_a_sentence(renderable, word):
    assert word in text_of(renderable)


@pytest.mark.parametrize(
    "renderable",
    [
        tables.tools(system(report("mcp:" + "very-long-server-name" * 8, "degraded", circuit_state="metrics_only"))),
        tables.circuits({"circuits": [circuit("c" * 200, "half_open")], "checked_at": NOW}),
        tables.circuit_history({"history": [circuit("c" * 200)], "checked_at": NOW}),
        tables.executions([execution(tool_name="t" * 200, error_message="m " * 400, error_type="E" * 90)], ""),
    ],
    ids=["tools", "circuits", "history", "executions"],
)
def test_whatever_the_names_a_table_fits_a_hundred_columns(renderable):
    shown = text_of(renderable)
    assert max(map(len, shown.splitlines())) <= 100


def test_names_are_never_cut_only_folded():
    name = "".join(f"part{n}:" for n in range(30))
    shown = text_of(tables.circuits({"circuits": [circuit(name)], "checked_at": NOW}))
    assert "part29" in shown.replace(" ", "").replace("\n", "")


def test_markup_in_a_message_is_text():
    shown = text_of(tables.executions([execution(error_message="[red]x[/red] [link=http://evil]y[/link]")], ""))
    assert "[red]x[/red]" in shown


def rows(*cells, kinds=("UInt64", "String"), truncated=False) -> dict[str, Any]:
    columns = [{"name": f"c{n}", "type": kind} for n, kind in enumerate(kinds)]
    return {"columns": columns, "rows": [list(each) for each in cells], "row_count": len(cells), "truncated": truncated}


def test_rows_of_a_query_are_printed_in_full_and_plainly(capsys):
    long = "x" * 300
    output.show_rows(rows((110649, "a\nb"), (18446744073709551615, long)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["c0", "c1"]
    assert lines[2].split() == ["110649", "a\\u000ab"]
    assert lines[3] == f"18446744073709551615  {long}"
    assert lines[2].index("110649") + 6 == lines[3].index("  "), "numbers are aligned right"


def test_values_other_than_text_are_printed_unchanged(capsys):
    output.show_rows(
        rows((None, True, [1, "ü"], {"a": 0.5}, 0.1), kinds=("Nullable(Int8)", "Bool", "Array", "Map", "Float64"))
    )
    assert capsys.readouterr().out.splitlines()[2] == 'NULL  true  [1, "ü"]  {"a": 0.5}  0.1'


def test_the_number_of_omitted_rows_is_printed(capsys):
    output.show_rows(rows((1, "a"), truncated=True))
    assert "only the first 1 rows" in capsys.readouterr().out


def test_a_table_without_rows_says_so_under_its_headings(capsys):
    output.show_rows(rows())
    assert capsys.readouterr().out.splitlines() == ["c0  c1", "──  ──", "No rows."]


NAMES = ["mcp:calendar:list_events", "[x]", "mcp:email:send", "[bold]mcp[/bold]:warning:", "a" * 45]
EVERY_TABLE = {
    "tools": lambda name: tables.tools(system(report(name, "unhealthy", circuit_state="half_open"))),
    "circuits": lambda name: tables.circuits({"circuits": [circuit(name)], "checked_at": NOW}),
    "history": lambda name: tables.circuit_history({"history": [circuit(name)], "checked_at": NOW}),
    "executions": lambda name: tables.executions(
        [execution(tool_name=name, error_message="the upstream did not answer within thirty seconds " * 3)], ""
    ),
    "tool": lambda name: tables.tool(one_tool(name)),
}


def one_tool(name) -> dict[str, Any]:
    stats = {f"{each}_time_ms": 100.0 for each in ("avg", "p50", "p95", "p99", "max")}
    stats |= {"total_calls": 9, "success_rate": 0.5, "error_count": 4, "timeout_count": 0, "rejected_count": 1}
    template = {"error_type": f"{name}Error", "count": 4, "last_seen": NOW, "template": f"{name} said no"}
    return {
        "hours": 1, "report": report(name, issues=[f"{name} fails"], recommendations=[f"Ask {name}"]), "stats": stats,
        "circuits": [circuit(name)], "errors": {"templates": [template]}, "last_success": NOW, "last_failure": NOW,
        "last_error": f"{name} said no", "stored_calls": 9,
    }  # fmt: skip


@table("table", EVERY_TABLE)
@table("name", NAMES)
def test_a_name_up_to_45_columns_is_printed_whole_and_literally_at_a_hundred(table, name):
    shown = text_of(EVERY_TABLE[table](name))
    assert any(name in line.split() for line in shown.splitlines())
    assert max(map(len, shown.splitlines())) <= 100


def test_a_longer_name_is_whole_where_the_terminal_has_the_room():
    name = "mcp:" + "n" * 90
    assert name in text_of(EVERY_TABLE["circuits"](name), width=220)
    assert name not in text_of(EVERY_TABLE["circuits"](name), width=100)


def test_sentences_wrap_at_words_and_lose_none():
    sentence = "the upstream did not answer within thirty seconds"
    shown = text_of(tables.executions([execution(tool_name="t" * 45, error_message=sentence)], ""))
    column = shown.splitlines()[0].index("error")
    assert " ".join(line[column:].strip() for line in shown.splitlines()[1:]) == f"TimeoutError: {sentence}"


def test_lesser_columns_go_only_where_a_hundred_columns_do_not_suffice():
    def headings(name, width):
        return text_of(EVERY_TABLE["circuits"](name), width=width).splitlines()[0]

    assert "last closed" in headings("search", 100)
    assert "last closed" not in headings("a" * 45, 100)
    assert "last closed" in headings("a" * 45, 160)
    for always in ("circuit", "state", "since", "opens 24 h", "why"):
        assert always in headings("a" * 45, 100)


def test_an_error_names_its_type_once():
    shown = text_of(tables.executions([execution(error_message="TimeoutError: late")], ""))
    assert shown.count("TimeoutError") == 1
    assert "TimeoutError" in text_of(tables.executions([execution(error_message=None)], ""))
    assert "timeout" in text_of(
        tables.executions([execution(error_type=None, error_message="late", status="error")], "")
    )


def test_a_long_message_wraps_before_a_long_name_folds():
    long = execution(tool_name="t" * 60, error_message="words and " * 60)
    assert "t" * 60 in text_of(tables.executions([long], ""), width=140)


def test_a_circuit_that_recovers_is_listed_with_its_share():
    cause = {"rule": "recovery_ramp", "value": 0.25, "threshold": None, "actor": None, "reason": None}
    one = circuit(state="closed", open_until=None, admitted_share=0.25, cause=cause)
    shown = text_of(tables.circuits({"circuits": [one], "checked_at": NOW}), 160)
    assert "recovering 25 %" in shown
    assert "25 % of calls are admitted while the tool recovers" in shown
    done = text_of(tables.circuits({"circuits": [circuit(state="closed", admitted_share=1.0)], "checked_at": NOW}))
    assert "recovering" not in done
    history = text_of(tables.circuit_history({"history": [one], "checked_at": NOW}), 160)
    assert "closed → recovering 25 %" in history


def limit(**fields) -> dict[str, Any]:
    return {
        "credential": "", "rate": 100 / 60, "granted": 1.5, "period_s": 60.0, "asked": 40, "until": NOW, "limited": 0, "refused": 0,
        "waited": 0, "waited_s": 0.0, "paused_until": None,
    } | fields  # fmt: skip


PACED = [
    ("enforce", [limit()], 12, "keeps 100 calls per 60 s with 12 processes"),
    ("enforce", [limit()], 1, "keeps 100 calls per 60 s with 1 process"),
    ("enforce", [limit(refused=3, waited=5)], 2,
        "keeps 100 calls per 60 s with 2 processes; 40 asked for in 5 s, 5 waited, 3 refused"),
    ("enforce", [limit(paused_until="2026-03-01T12:00:30Z")], 2,
        "keeps 100 calls per 60 s with 2 processes; paused, goes on in 30 s"),
    ("learn", [limit()], 12, "takes 100 calls per 60 s"),
    ("learn", [limit(credential="a", rate=1.0), limit(), limit(credential="b")], 12,
        "takes 100 calls per 60 s (and 2 more limits by credential)"),
    ("enforce", [], 12, ""),
]  # fmt: skip


@table("mode, limits, processes, words", PACED)
def test_a_circuit_says_the_rate_limit_of_its_tool(mode, limits, processes, words):
    paced = circuit(state="closed", pace={"mode": mode, "wait_s": 5, "limits": limits}, active_processes=processes)
    assert limit_in_words(paced, NOW) == words
    shown = " ".join(text_of(tables.circuits({"circuits": [paced], "checked_at": NOW}), width=300).split())
    assert words in shown


def test_an_older_api_knows_no_limits():
    assert limit_in_words(circuit(), NOW) == ""
