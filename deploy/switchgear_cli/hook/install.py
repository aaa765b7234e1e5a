"""Write the hooks into Claude Code's settings, and take them out again. Hooks of others stay."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from switchgear_cli.hook.calls import Options
from switchgear_cli.own_command import own_command
from switchgear_schemas import json_file
from switchgear_schemas.claude_code import DEFAULT_TOOLS
from switchgear_schemas.json_file import JsonFileError

SETTINGS: Final = Path(".claude/settings.json")
BACKUP: Final = ".switchgear-backup"
TIMEOUT_S: Final = 10
"""After this Claude Code goes on without an answer."""
_OF_TOOLS: Final = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_OF_SESSIONS: Final = ("UserPromptSubmit", "SessionEnd")
_OURS: Final = re.compile(r"\bswitchgear(_cli)?['\"]? hook claude-code\b")
_WAY_OUT: Final = "`switchgear hook claude-code --print` prints what to add."


def section(options: Options, state_file: Path | None = None) -> dict[str, Any]:
    """Return the object ``hooks`` of Claude Code's settings."""
    words = [*own_command(), "hook", "claude-code"]
    if options.tools != DEFAULT_TOOLS:
        words += ["--tools", options.tools]
    if options.terminal_after is not None:
        words += ["--terminal-after", str(options.terminal_after)]
    if state_file is not None:
        words += ["--state-file", str(state_file.absolute())]
    handler = {"type": "command", "command": shlex.join(words), "timeout": TIMEOUT_S}
    of_tool = {"matcher": matcher(options.tools), "hooks": [handler]}
    return copy.deepcopy(
        {event: [of_tool] for event in _OF_TOOLS} | {event: [{"hooks": [handler]}] for event in _OF_SESSIONS}
    )


def matcher(tools: str) -> str:
    """Return Claude Code's matcher, a regular expression of JavaScript, for globs. So no process starts for other tools.

    It may match more: the hook compares the name again.
    """
    return "|".join(f"^{_expression(glob.strip())}$" for glob in tools.split(","))


def _expression(glob: str) -> str:
    plain, bracket, _ = glob.partition("[")
    found = re.escape(plain).replace(r"\*", ".*").replace(r"\?", ".")
    return f"{found}.*" if bracket else found


def install(path: Path, hooks: Mapping[str, Any]) -> Path:
    """Add the hooks to a file of settings, in place of those of an earlier installation. Return the file that was written.

    Raises:
        JsonFileError: The file can't be read, understood or written. It is unchanged.
    """
    file = json_file.read(path, way_out=_WAY_OUT, may_be_missing=True)
    value = without(file.value, path)
    known = value.setdefault("hooks", {})
    for event, groups in hooks.items():
        known[event] = [*known.get(event, []), *groups]
    _replace(file, value)
    return file.path


def uninstall(path: Path) -> bool:
    """Remove the hooks from a file of settings. Return whether there were any.

    Raises:
        JsonFileError: See :func:`install`.
    """
    file = json_file.read(path, way_out=_WAY_OUT, may_be_missing=True)
    value = without(file.value, path)
    if value == file.value:
        return False
    _replace(file, value)
    return True


def without(settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return settings without our hooks, and without what would be empty then.

    Raises:
        JsonFileError: The hooks have another shape than Claude Code's.
    """
    value = copy.deepcopy(dict(settings))
    hooks = value.get("hooks")
    if hooks is None:
        return value
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise JsonFileError(
            f"The hooks in {path} are not lists by event. The file is unchanged.", hint=f"Correct them. {_WAY_OUT}"
        )
    for event, groups in list(hooks.items()):
        kept = [left for group in groups if (left := _others(group)) is not None]
        if kept != groups:
            hooks[event] = kept
            if not kept:
                del hooks[event]
    if not hooks and settings["hooks"]:
        del value["hooks"]
    return value


def _others(group: Any) -> Any:
    """Return a matcher's group without our handlers; None if it has no others."""
    handlers = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(handlers, list):
        return group
    kept = [each for each in handlers if not (isinstance(each, dict) and _OURS.search(str(each.get("command"))))]
    if kept == handlers:
        return group
    return group | {"hooks": kept} if kept else None


def _replace(file: json_file.JsonFile, value: dict[str, Any]) -> None:
    if file.data:
        backup = file.path.with_name(file.path.name + BACKUP)
        try:
            json_file.write(backup, file.data, like=file.path)
        except OSError as error:
            raise JsonFileError(
                f"{file.path} was not changed, because its backup {backup} can't be written: {error.strerror}."
            ) from None
    file.replace(file.rendered(value))


def snippet(hooks: Mapping[str, Any]) -> str:
    """Return the hooks as JSON, as they are written in the settings."""
    return json.dumps({"hooks": hooks}, indent=2)
