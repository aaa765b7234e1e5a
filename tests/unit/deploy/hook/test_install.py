"""The hooks in Claude Code's settings."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from switchgear_cli.hook.calls import Options
from switchgear_cli.hook.install import install, matcher, section, uninstall
from switchgear_cli.hook.run import parsed
from switchgear_cli.main import FAILED, run
from switchgear_schemas.globs import any_matches
from switchgear_schemas.json_file import JsonFileError
from tests.support.table import table

OTHERS = {
    "permissions": {"allow": ["mcp__weather__*"]},
    "hooks": {
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check.sh hook claude-code"}]}],
        "Stop": [],
    },
}


@pytest.fixture
def settings(tmp_path):
    return tmp_path / ".claude" / "settings.json"


def written(settings, value=OTHERS):
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps(value, indent=4) + "\n")
    return settings


def commands(settings):
    hooks = json.loads(settings.read_text())["hooks"]
    return [handler["command"] for groups in hooks.values() for group in groups for handler in group["hooks"]]


def test_the_hooks_are_written_for_calls_prompts_and_the_end_of_sessions(settings, capsys):
    assert run(["hook", "claude-code", "--install", "--settings", str(settings)]) == 0
    hooks = json.loads(settings.read_text())["hooks"]
    assert list(hooks) == ["PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionEnd"]
    assert hooks["PreToolUse"][0]["matcher"] == "^mcp__.*$"
    assert hooks["PreToolUse"][0]["hooks"][0]["timeout"] == 10
    assert "matcher" not in hooks["UserPromptSubmit"][0]
    assert str(settings) in capsys.readouterr().out


def test_an_installed_command_is_one_that_the_quick_way_understands(settings, tmp_path):
    install(settings, section(Options("Web*,mcp__*", 3), tmp_path / "with space.db"))
    for command in commands(settings):
        words = shlex.split(command)
        line = parsed(words[words.index("hook") :])
        assert line == (Options("Web*,mcp__*", 3), tmp_path / "with space.db")


def test_other_hooks_and_settings_stay_and_uninstalling_restores_the_file(settings):
    before = written(settings).read_bytes()
    install(settings, section(Options()))
    value = json.loads(settings.read_text())
    assert value["permissions"] == OTHERS["permissions"]
    assert value["hooks"]["PreToolUse"][0] == OTHERS["hooks"]["PreToolUse"][0]
    assert uninstall(settings) is True
    assert settings.read_bytes() == before
    assert uninstall(settings) is False


def test_installing_again_replaces_the_hooks_of_the_first_time(settings):
    install(settings, section(Options()))
    install(settings, section(Options(terminal_after=4)))
    assert len(commands(settings)) == 5
    assert all(command.endswith("hook claude-code --terminal-after 4") for command in commands(settings))


def test_comments_of_the_person_stay(settings):
    settings.parent.mkdir()
    settings.write_text('{\n  // mine\n  "model": "opus", // the best\n}\n')
    before = settings.read_text()
    install(settings, section(Options()))
    assert settings.read_text().startswith('{\n  // mine\n  "model": "opus",')
    assert "// the best" in settings.read_text()
    uninstall(settings)
    assert settings.read_text() == before


def test_uninstalling_keeps_another_handler_of_the_same_matcher(settings):
    install(settings, section(Options()))
    value = json.loads(settings.read_text())
    value["hooks"]["PreToolUse"][0]["hooks"].append({"type": "command", "command": "mine.sh"})
    written(settings, value)
    assert uninstall(settings) is True
    assert commands(settings) == ["mine.sh"]


def test_the_former_content_is_in_a_backup(settings):
    before = written(settings).read_bytes()
    install(settings, section(Options()))
    assert settings.with_name("settings.json.switchgear-backup").read_bytes() == before


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is not valid JSON"),
        ("[]", "holds no JSON object"),
        ('{"hooks": []}', "are not lists by event"),
        ('{"hooks": {"PreToolUse": {}}}', "are not lists by event"),
        ('{"a": 1, "a": 2}', 'has the key "a" twice'),
    ],
)
def test_a_file_that_can_not_be_understood_is_unchanged_and_one_sentence_says_why(settings, capsys, content, sentence):
    settings.parent.mkdir()
    settings.write_text(content)
    assert run(["hook", "claude-code", "--install", "--settings", str(settings)]) == FAILED
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert [each.name for each in settings.parent.iterdir()] == ["settings.json"]
    assert settings.read_text() == content


def test_printing_writes_no_file(settings, capsys, monkeypatch):
    monkeypatch.chdir(settings.parent.parent)
    assert run(["hook", "claude-code", "--print", "--tools", "mcp__github__*"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value == {"hooks": section(Options("mcp__github__*"))}
    assert not settings.exists()


@pytest.mark.slow
def test_a_wrong_option_does_not_end_with_the_code_that_blocks_a_tool_call(capsys):
    for line in (["--tols", "x"], ["--terminal-after", "0"], ["--terminal-after"], ["--install", "--print"], ["x"]):
        assert run(["hook", "claude-code", *line]) == FAILED
        assert capsys.readouterr().err.count("\n") == 1
    assert run(["hook", "claude-cod"]) == FAILED


@table(
    ("tools", "matched", "other"),
    [
        ("mcp__*", "mcp__a__b", "Bash"),
        ("mcp__*,WebFetch", "WebFetch", "WebFetcher"),
        ("mcp__a.b__*", "mcp__a.b__c", "mcp__axb__c"),
        ("mcp__*__get_?", "mcp__a__get_x", "mcp__a__get_xy"),
        ("mcp__[ab]__*", "mcp__a__x", "Bash"),
    ],
)
def test_the_matcher_starts_the_hook_for_the_tools_of_the_globs(tools, matched, other):
    assert any_matches(tools, matched)
    assert re.search(matcher(tools), matched)
    assert not re.search(matcher(tools), other)


def test_a_folder_that_can_not_be_written_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(JsonFileError, match="can't be"):
        install(Path(file / "settings.json"), section(Options()))
