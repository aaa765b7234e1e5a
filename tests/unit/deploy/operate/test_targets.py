"""The operators' command lines: what they are made into, and what is refused before anything is sent."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta

import pytest

from switchgear.fleet.rows import PolicyOverrides, Row
from switchgear_api.operate import send_command as send_command_module
from switchgear_api.operate.command_result import CommandResult
from switchgear_api.operate.known_state import KnownState
from switchgear_api.operate.send_command import this_person
from switchgear_cli.main import FAILED, INTERRUPTED, WRONG_USAGE, run
from switchgear_cli.operate import over_kafka as over_kafka_module
from switchgear_cli.reads.client import ApiClient, ApiUnavailableError
from switchgear_schemas.errors import BrokerUnavailableError

pytestmark = pytest.mark.slow


class Fleet:
    """What is known, without Kafka and without an API; and what was sent."""

    def __init__(self) -> None:
        self.rows = {name: Row(circuit_id=name, tool_name=name) for name in ("x", "mcp:x")}
        self.overrides: dict[int, PolicyOverrides] = {}
        self.unread = False
        self.down = False
        self.sent: list[tuple] = []
        self.refusing: set[str] = set()

    def add(self, circuit_id: str, **fields: object) -> None:
        tool, _, whose = circuit_id.partition("|")
        scope = whose.partition("=")[0] or "tool"
        self.rows[circuit_id] = Row(circuit_id=circuit_id, tool_name=tool, scope=scope, **fields)  # type: ignore[arg-type]

    async def read_known(self, _settings, _tools=None, **_limits) -> KnownState:
        if self.down:
            raise BrokerUnavailableError("The topic could not be read.", hint="Check that its broker is up.")
        return KnownState(self.rows, self.overrides)

    async def commands_wait(self, _settings) -> bool:
        return self.unread

    def api(self) -> dict[str, object]:
        raise ApiUnavailableError("The API at http://api:8620 cannot be reached.", hint="Start it.")

    async def send_command(self, settings, commands, *, wait_s) -> list[CommandResult]:
        self.sent += [(settings, command, wait_s) for command in commands]
        return [
            CommandResult(command, "refused", reason="no.")
            if command.tool_name in self.refusing
            else CommandResult(command, "sent")
            for command in commands
        ]

    @property
    def tools(self) -> list[str]:
        return [command.tool_name for _, command, _ in self.sent]


@pytest.fixture
def fleet(monkeypatch) -> Fleet:
    found = Fleet()
    for name in ("read_known", "commands_wait"):
        monkeypatch.setattr(over_kafka_module, name, getattr(found, name))
    monkeypatch.setattr(ApiClient, "known", lambda _api: found.api())
    monkeypatch.setattr(send_command_module, "send_command", found.send_command)
    return found


@pytest.fixture
def commands_sent(fleet):
    """The commands that would have been sent, with how long they would be waited for."""
    return fleet.sent


@pytest.fixture
def terminal(monkeypatch):
    """``terminal("y")``: a person at a terminal answers so."""

    class Keyboard(io.StringIO):
        def isatty(self) -> bool:
            return True

    def sit_down(answer: str) -> None:
        monkeypatch.setattr(sys, "stdin", Keyboard(answer + "\n"))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return sit_down


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("open", "force_open"),
        ("close", "close"),
        ("reset", "reset"),
        ("disable", "disable"),
        ("metrics-only", "metrics_only"),
        ("auto", "auto"),
    ],
)
def test_every_verb_is_a_command_with_reason_and_actor(commands_sent, name, verb):
    assert run([name, "mcp:x", "--reason", "drill", "--actor", "ada"]) == 0
    (_, command, wait_s) = commands_sent[0]
    assert (command.tool_name, command.verb, command.reason, command.actor) == ("mcp:x", verb, "drill", "ada")
    assert (wait_s, command.until, command.circuit_id) == (10.0, None, None)


def test_the_actor_is_the_person_at_this_machine(commands_sent):
    run(["open", "x"])
    assert commands_sent[0][1].actor == this_person()
    assert "@" in this_person()


def test_the_option_for_is_an_instant_from_now(commands_sent):
    before = datetime.now(UTC)
    run(["open", "x", "--for", "10m", "--timeout", "2.5"])
    command = commands_sent[0][1]
    assert timedelta(minutes=10) <= command.until - before < timedelta(minutes=11)
    assert commands_sent[0][2] == 2.5


@pytest.mark.parametrize(
    ("options", "circuit_id"),
    [
        (["--user", "u1"], "x|user=u1"),
        (["--session", "s1"], "x|session=s1"),
        (["--circuit", "x|user=u2"], "x|user=u2"),
    ],
)
def test_one_circuit_alone_is_named_by_user_session_or_id(commands_sent, options, circuit_id):
    run(["close", "x", *options, "--create"])
    assert commands_sent[0][1].circuit_id == circuit_id


def test_a_command_without_a_wait_reports_that_it_was_sent(commands_sent, capsys):
    assert run(["open", "x", "--no-wait"]) == 0
    assert commands_sent[0][2] is None
    assert capsys.readouterr().out == "x: sent, not waited for.\n"


@pytest.mark.slow
def test_a_policy_carries_what_was_named_and_clear_carries_nothing(fleet):
    fleet.unread = True
    run(["policy", "set", "mcp:*", "minimum_reporters=3", "--reason", "calm"])
    run(["policy", "clear", "mcp:*"])
    first, second = (command for _, command, _ in fleet.sent)
    assert first.policy.model_dump(exclude_unset=True) == {"minimum_reporters": 3}
    assert second.policy.model_fields_set == set()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["open", "x", "--for", "soon"], "'soon' is not a duration"),
        (["close", "x", "--for", "3m"], "--for"),
        (["open"], "TOOL"),
        (["open", "x", "mcp:x", "--circuit", "x"], "--circuit names one circuit of one tool. Name that tool alone."),
        (["open", ""], "tool_name: Expected `str` of length >= 1"),
        (["open", "x", "--timeout", "0"], "timeout"),
        (["open", "x", "--user", "a", "--circuit", "b"], "name one circuit each"),
        (["policy", "set", "x", "minimum_reporter=3"], "Did you mean minimum_reporters?"),
        (["policy", "set", "x"], "No value is named"),
    ],
)
def test_wrong_usage_sends_nothing_and_says_why(commands_sent, capsys, line, message):
    assert run(line) == WRONG_USAGE
    assert message in capsys.readouterr().err
    assert commands_sent == []


def test_several_tools_may_be_named_and_each_is_commanded_once(fleet):
    assert run(["open", "mcp:x", "x", "mcp:x"]) == 0
    assert fleet.tools == ["mcp:x", "x"]


@pytest.mark.slow
def test_a_glob_means_the_known_tools_that_it_matches(fleet, capsys):
    fleet.add("mcp:y|user=u1")
    fleet.add("mcp:z")
    assert run(["open", "mcp:*", "--yes"]) == 0
    assert fleet.tools == ["mcp:x", "mcp:z"]
    assert capsys.readouterr().out == "mcp:x: sent, not waited for.\nmcp:z: sent, not waited for.\n"


@pytest.mark.slow
def test_without_a_terminal_a_glob_lists_what_it_would_change_and_sends_nothing(fleet, capsys):
    fleet.add("mcp:y", state="half_open")
    assert run(["close", "mcp:*"]) == WRONG_USAGE
    assert capsys.readouterr().err == (
        "mcp:* matches 2 tools:\n  mcp:x  closed\n  mcp:y  half open\n"
        "switchgear: Nothing was sent. Add --yes to close 2 tools.\n"
    )
    assert fleet.sent == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "sent", "code"), [("y", True, 0), ("YES", True, 0), ("n", False, 1), ("", False, 1)]
)
def test_at_a_terminal_a_glob_is_asked_about(fleet, terminal, capsys, answer, sent, code):
    terminal(answer)
    assert run(["open", "mcp:?"]) == code
    assert fleet.tools == (["mcp:x"] if sent else [])
    error = capsys.readouterr().err
    assert "Run `switchgear open` on 1 tool? [y/N] " in error
    assert ("Nothing was sent." in error) is not sent


@pytest.mark.slow
def test_a_long_list_of_tools_is_cut(fleet, capsys):
    for number in range(300):
        fleet.add(f"many:{number}")
    run(["open", "many:*"])
    error = capsys.readouterr().err
    assert error.count("  closed\n") == 200
    assert "  … and 100 more\n" in error
    assert "Add --yes to open 300 tools." in error


@pytest.mark.slow
def test_a_glob_that_matches_nothing_names_some_known_tools(fleet, capsys):
    assert run(["open", "nosuch:*", "--yes"]) == WRONG_USAGE
    assert capsys.readouterr().err == ("switchgear: 'nosuch:*' matches no known tool. Known tools: mcp:x, x.\n")
    fleet.rows.clear()
    assert run(["open", "nosuch:*", "--yes", "--create"]) == WRONG_USAGE
    assert "No tool is known yet." in capsys.readouterr().err
    assert fleet.sent == []


@pytest.mark.slow
def test_a_known_name_with_wildcards_in_it_means_that_tool_alone(fleet, capsys):
    fleet.add("db[x]")
    fleet.add("dbx")
    assert run(["open", "db[x]"]) == 0
    assert fleet.tools == ["db[x]"]
    assert "'db[x]' is the name of a tool: 1 other that it matches is not meant." in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["open", "close", "reset", "disable", "metrics-only", "auto"])
def test_a_name_that_nothing_knows_is_not_sent_and_the_nearest_is_named(fleet, capsys, name):
    fleet.add("mcp:weather:get_forecast")
    assert run([name, "mcp:weather:get_forcast", "x"]) == WRONG_USAGE
    assert capsys.readouterr().err == (
        "switchgear: No circuit or policy knows 'mcp:weather:get_forcast' (did you mean "
        "mcp:weather:get_forecast?). Nothing was sent. Give --create if the name is right.\n"
    )
    assert fleet.sent == []


def test_create_sends_a_name_that_nothing_knows_without_a_look_up(fleet):
    fleet.down = True
    assert run(["open", "new", "--create"]) == 0
    assert fleet.tools == ["new"]


@pytest.mark.slow
def test_a_policy_files_plain_names_are_known_and_its_globs_are_not_names(fleet, tmp_path, monkeypatch):
    file = tmp_path / "policies.toml"
    file.write_text('[tools."planned"]\njitter = 0.5\n[tools."mcp:*"]\njitter = 0.5\n')
    monkeypatch.setenv("SWITCHGEAR_POLICY_FILE", str(file))
    assert run(["open", "planned"]) == 0
    assert run(["open", "mcp:unplanned"]) == WRONG_USAGE
    file.write_text("[[")
    assert run(["open", "planned"]) == WRONG_USAGE
    assert run(["open", "x"]) == 0
    assert fleet.tools == ["planned", "x"]


def test_a_table_that_cannot_be_read_is_an_error_with_what_to_do(fleet, capsys):
    fleet.down = True
    assert run(["open", "x"]) == FAILED
    assert "With --create, names are not looked up." in capsys.readouterr().err


@pytest.mark.slow
def test_a_user_or_session_of_a_glob_means_the_circuits_that_exist(fleet, capsys):
    for circuit_id in ("mcp:x|session=s1", "mcp:y", "mcp:y|session=s2"):
        fleet.add(circuit_id)
    assert run(["open", "mcp:*", "--session", "s1", "--yes"]) == 0
    assert [(command.tool_name, command.circuit_id) for _, command, _ in fleet.sent] == [("mcp:x", "mcp:x|session=s1")]
    assert run(["open", "mcp:*", "--session", "s3", "--yes"]) == WRONG_USAGE
    assert "none of them has a circuit of that user or session. Give --create to make one." in capsys.readouterr().err
    assert run(["open", "mcp:y", "--session", "s1"]) == WRONG_USAGE
    assert "'mcp:y|session=s1' (did you mean" in capsys.readouterr().err
    assert run(["open", "mcp:y", "--session", "s1", "--create"]) == 0


def test_each_outcome_is_printed_and_one_that_is_not_applied_is_exit_code_1(fleet, capsys):
    fleet.refusing = {"mcp:x"}
    assert run(["open", "mcp:x", "x"]) == FAILED
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("x: sent, not waited for.\n", "mcp:x: no.\n")


def test_json_is_one_object_a_line(fleet, capsys):
    assert run(["open", "mcp:x", "x", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["tool_name"] for line in lines] == ["mcp:x", "x"]


@pytest.mark.slow
def test_a_policy_by_glob_is_sent_as_it_is_and_a_tools_own_wants_a_known_name(fleet, capsys):
    assert run(["policy", "set", "nosuch:*", "jitter=0.5"]) == 0
    assert run(["policy", "set", "nosuch", "jitter=0.5"]) == WRONG_USAGE
    assert "knows 'nosuch'" in capsys.readouterr().err
    assert run(["policy", "set", "nosuch", "jitter=0.5", "--create"]) == 0
    assert fleet.tools == ["nosuch:*", "nosuch"]


@pytest.mark.slow
def test_clearing_what_is_not_set_sends_nothing_and_says_what_is(fleet, capsys):
    assert run(["policy", "clear", "x"]) == FAILED
    assert "Nothing is set for 'x': there is nothing to clear, and nothing was sent. No values are set" in (
        capsys.readouterr().err
    )
    fleet.overrides = {0: PolicyOverrides(partition=0, tables={"mcp:*": b"{}"})}
    assert run(["policy", "clear", "mcp:?"]) == FAILED
    assert "Values are set for mcp:*." in capsys.readouterr().err
    assert fleet.sent == []
    assert run(["policy", "clear", "mcp:*"]) == 0
    fleet.add("x", policy=b"{}")
    assert run(["policy", "clear", "x"]) == 0
    assert fleet.tools == ["mcp:*", "x"]


def test_clearing_is_sent_where_commands_wait_to_be_read(fleet):
    fleet.unread = True
    assert run(["policy", "clear", "x"]) == 0
    assert fleet.tools == ["x"]


def test_ctrl_c_while_it_waits_says_what_becomes_of_what_was_sent(fleet, monkeypatch, capsys):
    async def interrupted(_settings, _commands, *, wait_s):
        assert wait_s == 10.0
        raise KeyboardInterrupt

    monkeypatch.setattr(send_command_module, "send_command", interrupted)
    assert run(["open", "x"]) == INTERRUPTED
    assert "What was sent is applied as soon as a worker reads it." in capsys.readouterr().err
