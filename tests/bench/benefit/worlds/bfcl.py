"""BFCL's multi-turn tasks (Apache-2.0), on BFCL's own simulated APIs.

The wheel is put on the import path, so calls run BFCL's code: file system, trading, travel, vehicle, tickets, messages, posts, math.
A task is done by BFCL's own two rules: the state of every API equals that after the ground truth, and every result of the ground
truth was seen.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from zipfile import ZipFile

from tests.bench.benefit.tasks import Step, Task, World
from tests.bench.benefit.wheels import wheel

_DATA: Final = "bfcl_eval/data"
_APIS: Final = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
MODULES: Final = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""The module of each API in the wheel, which is also the name of its tools' descriptions."""
SYSTEM_CHARS: Final = 600
"""BFCL has no system prompt. This is a short one."""


@dataclass(frozen=True)
class Call:
    """A call of the ground truth."""

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    text: str

    @classmethod
    def parse(cls, text: str) -> Call:
        """Read a call whose arguments are literals."""
        node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise ValueError(f"{text} is not a call of a function")  # noqa: TRY004 - the text is wrong, not a type
        args = tuple(ast.literal_eval(each) for each in node.args)
        kwargs = {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
        return cls(node.func.id, args, kwargs, text)


@dataclass(frozen=True)
class Scenario:
    """A task of BFCL with its APIs and where they begin."""

    task_id: str
    apis: tuple[str, ...]
    begin: dict[str, Any]
    calls: tuple[Call, ...]
    questions: tuple[str, ...]
    """What the user says, turn by turn."""
    excluded: tuple[str, ...]
    """Tools that the agent is not offered."""


class ApiState:
    """Instances of the APIs of one attempt."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.apis: dict[str, Any] = {name: _class(name)() for name in scenario.apis}
        for name, api in self.apis.items():
            if hasattr(api, "_load_scenario"):
                api._load_scenario(copy.deepcopy(scenario.begin.get(name, {})))
        self.results: Counter[str] = Counter()

    def call(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Call a method, and return its result as text. An API that raises has answered with the error."""
        api = next((each for each in self.apis.values() if hasattr(each, method)), None)
        try:
            result = getattr(api, method)(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the model gets whatever an API raises, as in BFCL
            result = f"Error during execution: {error}"
        text = result if isinstance(result, str) else json.dumps(result, default=str)
        self.results[text] += 1
        return text

    def same(self, other: ApiState) -> bool:
        """Return whether the public attributes of every API are equal."""
        return all(
            getattr(self.apis[name], attribute) == value
            for name, api in other.apis.items()
            for attribute, value in vars(api).items()
            if not attribute.startswith("_")
        )


class GroundTruth:
    """What a task's calls lead to. It is the same for all attempts."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.state = self._after_all_calls()

    def repeatable(self) -> bool:
        """Return whether the same calls lead to the same again."""
        return self.done(self._after_all_calls())

    def done(self, state: ApiState) -> bool:
        """Return whether ``state`` has every result, and the same APIs."""
        return self.state.results <= state.results and state.same(self.state)

    def _after_all_calls(self) -> ApiState:
        state = ApiState(self.scenario)
        for call in self.scenario.calls:
            state.call(call.method, call.args, call.kwargs)
        return state


class ScriptedAttempt:
    """An attempt whose calls are those of the ground truth."""

    def __init__(self, truth: GroundTruth) -> None:
        self._truth = truth
        self._state = ApiState(truth.scenario)

    def make(self, step: int) -> int:
        call = self._truth.scenario.calls[step]
        return len(self._state.call(call.method, call.args, call.kwargs))

    def done(self) -> bool:
        return self._truth.done(self._state)


@cache
def _class(name: str) -> Any:
    return getattr(importlib.import_module(f"{_APIS}.{MODULES[name]}"), name)


def scenarios() -> list[Scenario]:
    """Return BFCL's 200 multi-turn tasks.

    Raises:
        NoTasksError: The wheels were not downloaded.
    """
    archive, mpmath = wheel("bfcl_eval"), wheel("mpmath")
    for path in (str(archive), str(mpmath)):
        if path not in sys.path:
            sys.path.append(path)
    with ZipFile(archive) as data:
        questions = _lines(data, "BFCL_v4_multi_turn_base.json")
        answers = {each["id"]: each for each in _lines(data, "possible_answer/BFCL_v4_multi_turn_base.json")}
    found = []
    for each in questions:
        turns = answers[each["id"]]["ground_truth"]
        said = ["\n".join(part["content"] for part in turn) for turn in each["question"]]
        found.append(
            Scenario(
                each["id"],
                tuple(each["involved_classes"]),
                each["initial_config"],
                tuple(Call.parse(text) for turn in turns for text in turn),
                tuple(said),
                tuple(each.get("excluded_function", ())),
            )
        )
    return found


def descriptions() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the descriptions of all tools by API and method."""
    with ZipFile(wheel("bfcl_eval")) as data:
        return {
            name: {each["name"]: each for each in _lines(data, f"multi_turn_func_doc/{module}.json")}
            for name, module in MODULES.items()
        }


def tool_name(api: str, method: str) -> str:
    """Return the circuit's name of a method: each API is a server."""
    return f"mcp:{api.lower()}:{method}"


def load() -> list[World]:
    """Return one world of all tasks. Two of the 200 are left out: the results of their calls are not the same the second time.

    Raises:
        NoTasksError: The wheels were not downloaded.
    """
    described = descriptions()
    truths = [GroundTruth(scenario) for scenario in scenarios()]
    return [World("BFCL", tuple(_task(truth, described) for truth in truths if truth.repeatable()))]


def _task(truth: GroundTruth, described: dict[str, dict[str, dict[str, Any]]]) -> Task:
    scenario = truth.scenario
    api_of = {method: api for api in scenario.apis for method in described[api]}
    each_turn = sum(len(text) for text in scenario.questions) // max(1, len(scenario.calls))
    steps = tuple(
        Step(tool_name(api_of[call.method], call.method), len(call.text), each_turn) for call in scenario.calls
    )
    tools = {
        tool_name(api, method): len(json.dumps(description))
        for api in scenario.apis
        for method, description in described[api].items()
        if method not in scenario.excluded
    }
    return Task(scenario.task_id, steps, tools, SYSTEM_CHARS, lambda: ScriptedAttempt(truth))


def _lines(data: ZipFile, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.read(f"{_DATA}/{name}").splitlines() if line.strip()]
