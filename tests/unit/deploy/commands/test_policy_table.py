"""``switchgear policy show`` prints a tool's values, and where each is from, as they were written."""

import pytest

from switchgear_cli.main import run

NAMES = ["mcp:calendar:list_events", "mcp:email:send", "[x]", "[bold]y[/bold]:warning:"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "policies.yaml"
    tables = "\n".join(f'  "{name}":\n    fallback: ["b:email:c", "spare"]\n' for name in ("mcp:*", *NAMES[:2]))
    path.write_text(f"tools:\n{tables}")
    return path


@pytest.mark.parametrize("name", NAMES[:2])
def test_names_print_literally_and_whole(file, capsys, name):
    assert run(["policy", "show", name, "--file", str(file)]) == 0
    shown = capsys.readouterr().out
    row = next(line for line in shown.splitlines() if line.startswith("fallback"))
    assert f'[tools."{name}"]' in row
    assert "b:email:c" in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_of_any_name_gets_an_answer(file, capsys, name):
    assert run(["policy", "show", name, "--file", str(file)]) == 0
    assert "wait_duration_in_open_state_s" in capsys.readouterr().out
