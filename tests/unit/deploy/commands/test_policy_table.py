"""``switchgear policy show`` prints a tool's values, and where each is from, as they were written."""

import json
import socket
import time

import pytest

from switchgear.fleet.rows import PolicyOverrides, Row
from switchgear_api.operate import policy_in_force as in_force_module
from switchgear_api.operate.known_state import KnownState
from switchgear_cli.local.ports import any_free_port
from switchgear_cli.main import FAILED, run

pytestmark = pytest.mark.slow

NAMES = ["mcp:calendar:list_events", "mcp:email:send", "[x]", "[bold]y[/bold]:warning:"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "policies.yaml"
    tables = "\n".join(f'  "{name}":\n    fallback: ["b:email:c", "spare"]\n' for name in ("mcp:*", *NAMES[:2]))
    path.write_text(f"tools:\n{tables}")
    return path


@pytest.mark.parametrize("name", NAMES[:2])
def test_names_print_literally_and_whole(file, capsys, name):
    assert run(["policy", "show", name, "--policy-file", str(file), "--no-live"]) == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("fallback"))
    assert f'[tools."{name}"]' in row
    assert "b:email:c" in shown
    assert all(line == line.rstrip() for line in shown.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_of_any_name_gets_an_answer(file, capsys, name):
    assert run(["policy", "show", name, "--policy-file", str(file), "--no-live"]) == 0
    assert "wait_duration_in_open_state_s" in capsys.readouterr().out


@pytest.fixture
def overridden(monkeypatch):
    """A worker's table in which operators have set values over the file's."""
    row = Row(circuit_id="search", tool_name="search", policy=b'{"jitter": 0.5}')
    overrides = PolicyOverrides(partition=0, tables={"s*": b'{"cusum": {"broken_failure_rate": 0.4}, "jitter": 0.25}'})

    async def read_known(_settings, _tools, *, timeout_s):
        assert timeout_s > 0
        return KnownState({"search": row}, {0: overrides})

    monkeypatch.setattr(in_force_module, "read_known", read_known)


def test_show_says_that_operators_have_set_other_values(overridden, capsys):
    assert run(["policy", "show", "search"]) == 0
    printed = capsys.readouterr()
    assert printed.err == (
        "switchgear: `policy set` holds other values of cusum.broken_failure_rate (s*), jitter (search): --live shows them.\n"
    )
    assert "0.5" not in next(line for line in printed.out.splitlines() if line.startswith("jitter"))
    assert run(["policy", "show", "search", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["overridden"] == {"cusum.broken_failure_rate": "s*", "jitter": "search"}
    assert document["policy"]["jitter"] == 0.0


def test_show_live_has_the_values_and_nothing_to_remark(overridden, capsys, tmp_path):
    file = tmp_path / "off.toml"
    file.write_text('[default]\ncusum = "off"\n')
    assert run(["policy", "show", "search", "--live", "--policy-file", str(file)]) == 0
    printed = capsys.readouterr()
    rows = [line.split() for line in printed.out.splitlines()]
    assert ["jitter", "0.5", "policy", "set", "search"] in rows
    assert ["cusum.broken_failure_rate", "0.4", "policy", "set", "s*"] in rows
    assert printed.err == ""


def test_show_says_nothing_where_nothing_is_set_or_with_no_live(overridden, capsys):
    for line in (["policy", "show", "other"], ["policy", "show", "search", "--no-live"]):
        assert run(line) == 0
        assert capsys.readouterr().err == ""
    assert run(["policy", "show", "search", "--no-live", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["overridden"] is None


def test_show_without_kafka_says_that_it_did_not_look_and_live_fails(capsys):
    nowhere = ["--bootstrap-servers", f"127.0.0.1:{any_free_port()}"]
    assert run(["policy", "show", "search", *nowhere]) == 0
    printed = capsys.readouterr()
    assert "wait_duration_in_open_state_s" in printed.out
    assert printed.err.startswith(
        "switchgear: Values set by `policy set` were not looked at: No Kafka broker at 127.0.0.1:"
    )
    assert printed.err.count("\n") == 1
    assert run(["policy", "show", "search", "--live", *nowhere]) == FAILED


def test_show_waits_a_few_seconds_for_a_broker_that_takes_connections_and_says_nothing(capsys):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        assert run(["policy", "show", "search", "--bootstrap-servers", f"127.0.0.1:{silent.getsockname()[1]}"]) == 0
    assert time.monotonic() - began < 15  # three on an idle machine
    assert "were not looked at" in capsys.readouterr().err
