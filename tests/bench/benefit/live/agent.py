"""A real model at a task of BFCL: it gets what the users say, turn by turn, and calls the tools by an arm."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from tests.bench.benefit.agent import Result as TaskResult
from tests.bench.benefit.arms.arm import RefusedError, ToolCaller
from tests.bench.benefit.live.chat import Message, Model, Result, Said, ToolCall
from tests.bench.benefit.shared_tools import SharedTools
from tests.bench.benefit.tokens import Spent
from tests.bench.benefit.worlds.bfcl import ApiState, GroundTruth, tool_name

SYSTEM: Final = (
    "You carry out what the user asks with the tools. Call tools until all of it is done, then answer in one sentence. "
    "Ask nothing back."
)
MOST_TURNS: Final = 15
"""Turns of the model for one turn of the user."""

Description = Mapping[str, Any]


class LiveAgent:
    """An agent in a process of its own.

    Args:
        model: Decides.
        process: Makes the calls.
        tools: Break.
        described: BFCL's descriptions of the tools, by API and method.
    """

    def __init__(
        self,
        model: Model,
        process: ToolCaller,
        tools: SharedTools,
        described: Mapping[str, Mapping[str, Description]],
    ) -> None:
        self._model = model
        self._process = process
        self._tools = tools
        self._described = described

    async def work(self, truth: GroundTruth, rng: Random, *, exposed: bool) -> TaskResult:
        """Work on a task, and return how it went."""
        scenario = truth.scenario
        now = asyncio.get_running_loop().time
        began, turns, spent = now(), 0, Spent()
        state = ApiState(scenario)
        messages: list[Message] = []
        circuits = {
            method: tool_name(api, method)
            for api in scenario.apis
            for method in self._described[api]
            if method not in scenario.excluded
        }
        for question in scenario.questions:
            messages.append(Said(question))
            for _ in range(MOST_TURNS):
                names = list(circuits.values())
                told = self._process.message(names, scenario.task_id)
                if told:
                    messages.append(Said(told))
                offered = set(self._process.offered(names, scenario.task_id))
                listed = [
                    schema_of(self._described[api][method])
                    for api in scenario.apis
                    for method in self._described[api]
                    if circuits.get(method) in offered
                ]
                system = f"{SYSTEM} {self._process.notice(names)}".strip()
                turn = await self._model.turn(system, listed, messages)
                turns += 1
                spent.add(turn.spent)
                messages.append(turn)
                if not turn.calls:
                    break
                messages += [Result(call.call_id, await self._call(call, circuits, state, rng)) for call in turn.calls]
        return TaskResult(truth.done(state), exposed, now() - began, turns, spent)

    async def _call(self, call: ToolCall, circuits: Mapping[str, str], state: ApiState, rng: Random) -> str:
        circuit = circuits.get(call.name)
        if circuit is None:
            return f"Error: there is no tool {call.name}."

        async def make(tool: str) -> str:
            return await self._tools.call(
                tool, state, lambda: state.call(call.name, (), call.arguments), '{"result": null}', rng
            )

        try:
            return str(await self._process.call(circuit, make))
        except RefusedError as refusal:
            self._tools.note_refusal(circuit)
            return str(refusal)
        except Exception as error:  # noqa: BLE001 - the model gets whatever the tool's client raises
            return f"Error: {error}"


def schema_of(description: Description) -> dict[str, Any]:
    """Return BFCL's description of a tool with a JSON schema in place of BFCL's own types."""
    return {
        "name": description["name"],
        "description": description["description"],
        "parameters": _as_json_schema(description["parameters"]),
    }


_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "any": "string"}


def _as_json_schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_as_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _as_json_schema(value) for key, value in schema.items()}
    kind = found.get("type")
    return {**found, "type": _TYPES.get(kind, kind)} if isinstance(kind, str) else found
