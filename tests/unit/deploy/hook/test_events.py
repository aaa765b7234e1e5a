"""What the hook answers to the events of Claude Code."""

from __future__ import annotations

import pytest

from switchgear_cli.hook import settings
from switchgear_cli.hook.calls import Options
from switchgear_schemas.families import circuit_name, model_name
from tests.support.table import table
from tests.unit.deploy.hook.conftest import Session

TOOL = "mcp__weather__get_forecast"
REFUSED = "MCP error -32000: Connection closed"


def test_a_call_of_a_tool_without_failures_gets_no_answer_and_leaves_nothing_in_the_file(session, state):
    assert session.call() is None
    assert state.circuits() == []
    assert state.take_permit("toolu_1") is None


def test_five_failures_in_a_row_open_the_circuit_for_all_sessions_of_the_machine(session, another):
    session.outage()
    for one in (session, another):
        reason = one.before()
        assert reason.startswith(
            f"The tool {TOOL} is unavailable (circuit open). The rule consecutive_failures opened it."
        )
        assert "Its last error was a broken connection." in reason
        assert "within the next 60 s" in reason


def test_a_refusal_is_the_json_that_claude_code_reads(session):
    session.outage()
    found = session.send("PreToolUse", tool_name=TOOL, tool_use_id="t", tool_input={})
    assert set(found) == {"hookSpecificOutput"}
    assert found["hookSpecificOutput"]["hookEventName"] == "PreToolUse"
    assert found["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_a_success_ends_a_run_of_failures(session, state):
    for _ in range(2):
        session.call(error=REFUSED)
    assert len(state.circuits()) == 2  # of the tool and of its server
    session.call()
    assert len(state.circuits()) == 2, "the CUSUM is still above zero"
    for _ in range(5):
        session.call()
    assert state.circuits() == []
    for _ in range(2):
        session.call(error=REFUSED)
    session.call()
    for _ in range(4):
        assert session.call(error=REFUSED) is None
    assert session.before() is None


def test_after_the_wait_one_call_probes_and_its_success_closes_the_circuit(session, another):
    session.outage()
    session.now = another.now = session.now + 61
    assert session.before(call="probe") is None
    assert "circuit half open" in another.before(call="second")
    session.after(TOOL, "probe")
    assert another.before(call="third") is None


def test_a_probe_that_fails_opens_the_circuit_again(session):
    session.outage()
    session.now += 61
    assert session.call(error=REFUSED) is None
    assert "circuit open" in session.before()


def test_a_probe_that_is_never_reported_is_free_after_two_minutes(session):
    session.outage()
    session.now += 61
    assert session.before(call="denied by the user") is None
    session.now += 119
    assert session.before(call="b") is not None
    session.now += 62
    assert session.before(call="c") is None


def test_the_second_report_of_a_probe_does_not_count(session, another):
    session.outage()
    session.now = another.now = session.now + 61
    assert session.before(call="probe") is None
    session.after(TOOL, "probe", REFUSED)
    session.after(TOOL, "probe")
    assert another.before() is not None


def test_an_interrupted_call_is_neither_a_success_nor_a_failure(session, state):
    for _ in range(4):
        session.call(error=REFUSED)
    session.call(error="interrupted", is_interrupt=True)
    assert session.call(error=REFUSED) is None
    assert "circuit open" in session.before()


def test_errors_of_the_caller_refuse_the_tool_to_that_session_alone_until_the_arguments_change(session, another):
    for _ in range(3):
        assert session.call(error="No such city: Atlantis", arguments={"city": "Atlantis"}) is None
    reason = session.before(arguments={"city": "Atlantis"})
    assert reason.startswith(f'Your last 3 calls of {TOOL} were rejected: "No such city: Atlantis".')
    assert session.before(arguments={"city": "Bergen"}) is None
    assert another.before(arguments={"city": "Atlantis"}) is None


def test_the_end_of_a_session_forgets_the_errors_of_its_caller_and_keeps_the_circuits(session, another):
    for _ in range(3):
        session.call(error="No such city: Atlantis")
    another.outage("mcp__search__query")
    assert session.send("SessionEnd", reason="other") is None
    assert session.before() is None
    assert session.before("mcp__search__query") is not None


def test_failures_of_several_tools_without_an_answer_open_the_circuit_of_their_server(session):
    for tool in ("a", "b", "a", "b", "a"):
        assert session.call(f"mcp__weather__{tool}", REFUSED) is None
    assert "its server mcp:weather does not answer" in session.before("mcp__weather__never_called")
    assert session.before("mcp__other__tool") is None


def test_the_success_of_a_servers_probe_lets_its_other_tools_be_probed_at_once(session):
    session.outage("mcp__weather__a")
    session.now += 50
    session.call("mcp__weather__b", REFUSED)  # of another tool: now the server's circuit opens
    assert "its server" in session.before("mcp__weather__c")
    session.now += 61
    assert session.call("mcp__weather__c") is None
    assert session.call("mcp__weather__a") is None


@pytest.mark.parametrize(
    "answered",
    [
        {"error": "connect ECONNREFUSED 127.0.0.1:4000"},
        {"error": "HTTP Error 503: Service Unavailable"},
        {"error": "Failed to fetch http://203.0.113.9/: MCP error -32000: Connection closed"},
        {"error": "MCP error -32000: Connection closed\nMCP error -32000: Connection closed"},
        {"error": "Connection closed." + " " * 2_000_000},
        {"error": "\ud800\x00Connection closed"},
        {"tool_response": {"isError": True, "content": [{"type": "text", "text": REFUSED}]}},
        {"tool_response": {"isError": True, "content": [{"type": "text", "text": "connection refused"}]}},
    ],
    ids=lambda answered: repr(answered)[:60],
)
def test_what_a_tool_answers_opens_no_circuit_whatever_its_text_says(state, answered):
    for number in range(6):  # of six sessions, because one would lose the tool by the errors of its caller
        assert Session(state, f"s-{number}").call(**answered) is None
    assert Session(state).before() is None


@pytest.mark.parametrize("error", [REFUSED, "Connection closed", "MCP error -32001: Request timed out\n"])
def test_the_words_of_the_client_open_the_circuit_if_they_are_the_whole_text(session, error):
    for _ in range(5):
        assert session.call(error=error) is None
    assert "circuit open" in session.before()


def test_the_texts_of_a_tool_count_if_the_user_trusts_them(session, monkeypatch):
    monkeypatch.setenv("SWITCHGEAR_OUTAGES_IN_TEXT", "mcp:db:*, mcp:weather:get_*")
    failed = {"isError": True, "content": [{"type": "text", "text": "connection refused"}]}
    for number in range(5):
        sent = {"tool_response": failed} if number % 2 else {"error": "503 Service Unavailable"}
        assert session.call(**sent) is None
    assert "circuit open" in session.before()
    for number in range(5):
        other = Session(session.state, f"other-{number}")
        assert other.call("mcp__weather__read_page", "connection refused") is None
    assert session.before("mcp__weather__read_page") is None


def test_trusted_texts_may_be_named_in_the_settings_file(session, monkeypatch, tmp_path):
    file = tmp_path / "switchgear.toml"
    file.write_text('outages_in_text = "mcp:weather:*"\n')
    monkeypatch.setenv("SWITCHGEAR_CONFIG", str(file))
    settings._from_file.cache_clear()
    try:
        for _ in range(5):
            assert session.call(error="connection refused") is None
        assert "circuit open" in session.before()
    finally:
        settings._from_file.cache_clear()


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit"])
def test_the_context_names_the_tools_that_are_unavailable_by_the_names_of_claude_code(session, event):
    assert session.send(event) is None
    session.outage()
    output = session.send(event)["hookSpecificOutput"]
    assert output["hookEventName"] == event
    said = output["additionalContext"]
    assert said.startswith(f"[tool status] These tools are unavailable: {TOOL}. ")
    session.now += 61
    assert (session.send(event) is None) == (event == "UserPromptSubmit"), "a session that begins again knows nothing"
    session.call()
    session.call()
    session.now += 61
    ended = session.send("UserPromptSubmit")["hookSpecificOutput"]["additionalContext"]
    assert ended == f"[tool status] These tools may be called again: {TOOL}."
    assert session.send("UserPromptSubmit") is None


def test_secrets_in_an_error_are_not_in_the_file(session, state, path):
    session.call(error="HTTP 503 at https://ana:hunter2@example.com?api_key=sk-12345678")
    for row in state.circuits():
        assert "hunter2" not in (row.last_error or "")
    del state
    written = b"".join(each.read_bytes() for each in path.parent.iterdir())
    assert b"hunter2" not in written
    assert b"sk-12345678" not in written


@pytest.mark.parametrize("tool", ["Bash", "Read", "WebFetch", "", None, 7])
def test_a_tool_that_is_not_guarded_is_not_counted(session, state, tool):
    for _ in range(6):
        fields = {"tool_name": tool, "tool_use_id": "t", "tool_input": {}, "error": REFUSED}
        assert session.send("PreToolUse", **fields) is None
        assert session.send("PostToolUseFailure", **fields) is None
    assert state.circuits() == []


def test_built_in_tools_are_guarded_if_a_glob_names_them(session):
    session.options = Options(tools="mcp__github__*, WebFetch")
    session.outage("WebFetch")
    assert "The tool WebFetch is unavailable" in session.before("WebFetch")
    for _ in range(6):
        assert session.call(TOOL, REFUSED) is None


def test_the_session_is_stopped_at_the_number_of_refused_calls_and_can_go_on(session):
    session.options = Options(terminal_after=2)
    session.outage()

    def stopped():
        found = session.send("PreToolUse", tool_name=TOOL, tool_use_id="t", tool_input={})
        assert found["hookSpecificOutput"]["permissionDecision"] == "deny"
        return found.get("continue"), found.get("stopReason", "")

    assert stopped() == (None, "")
    go_on, reason = stopped()
    assert go_on is False
    assert reason.startswith(f"Switchgear refused 2 tool calls in this session. The last: The tool {TOOL}")
    assert stopped() == (None, "")


@pytest.mark.parametrize("event", ["Stop", "Notification", "SomethingNew", "", None])
def test_other_events_get_no_answer(session, event):
    assert session.send(event, tool_name=TOOL) is None


@table(
    ("name", "circuit"),
    [
        ("mcp__weather__get_forecast", "mcp:weather:get_forecast"),
        ("mcp__plugin_my-plugin_db__query", "mcp:plugin_my-plugin_db:query"),
        ("mcp__a__b__c", "mcp:a:b__c"),
        ("mcp__a", "mcp__a"),
        ("mcp____b", "mcp____b"),
        ("Bash", "Bash"),
    ],
)
def test_the_circuit_of_an_mcp_tool_has_the_name_that_other_clients_give_it(name, circuit):
    assert circuit_name(name) == circuit
    assert model_name(circuit) == name
