import argparse
import asyncio
import json
from typing import Any, ClassVar

import httpx
import pytest

from tests.bench.benefit.__main__ import main
from tests.bench.benefit.faults import Failed
from tests.bench.benefit.live.agent import schema_of
from tests.bench.benefit.live.chat import PatientModel, Said
from tests.bench.benefit.live.options import add_options
from tests.bench.benefit.live.run import run_all
from tests.bench.benefit.tokens import Spent
from tests.bench.benefit.worlds import bfcl
from tests.unit.bench.benefit.live_server import Script, scripted_endpoint

pytestmark = pytest.mark.slow  # each starts a server

HURRY = 200
"""How much shorter all waits are, those of tools and of retries: a live run waits in real time."""


class Hurried(asyncio.SelectorEventLoop):
    def call_later(self, delay, callback, *args, context=None):
        return super().call_later(delay / HURRY, callback, *args, context=context)


def hurried(work):
    with asyncio.Runner(loop_factory=Hurried) as runner:
        return runner.run(work)


FORMATS = ["openai", "anthropic"]
SCRIPT: Script = [[("put", {"what": "book"})], [("count", {})], []]
"""The model puts a book on the shelf, counts, and answers."""


class Shelf:
    """An API in the manner of BFCL's."""

    def __init__(self) -> None:
        self.things: list[str] = []

    def put(self, what: str) -> dict[str, str]:
        self.things.append(what)
        return {"put": what}

    def count(self) -> dict[str, int]:
        return {"count": len(self.things)}


def _described(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "description": name, "parameters": {"type": "dict", "properties": properties}}


DESCRIBED = {"Shelf": {"put": _described("put", what={"type": "string"}), "count": _described("count")}}


@pytest.fixture(autouse=True)
def _shelf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bfcl, "_class", {"Shelf": Shelf}.__getitem__)


def _truth() -> bfcl.GroundTruth:
    calls = tuple(bfcl.Call.parse(text) for text in ("put(what='book')", "count()"))
    return bfcl.GroundTruth(bfcl.Scenario("shelf", ("Shelf",), {}, calls, ("Put the book on the shelf.",), ()))


def _options(kind: str, url: str, *arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(["--live", kind, "--url", url, "--model", "scripted", "--agents", "1", *arguments])


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(f"{request.param.upper()}_API_KEY", "secret")
    return str(request.param)


def test_a_model_behind_an_endpoint_does_a_task_with_tools_that_work(kind):
    with scripted_endpoint(SCRIPT) as endpoint:
        given = _options(kind, endpoint.url, "--arms", "nothing", "Switchgear", "--fault", "none")
        found = hurried(run_all(given, [_truth()], DESCRIBED))
    for outcome in found.values():
        assert (outcome.tasks, outcome.done, outcome.exposed_turns, outcome.broken_calls) == (1, 1, 3, 0)
        assert outcome.spent == Spent(read=60, written=30, output=15)
    assert "secret" in " ".join(endpoint.headers[0].values())


def test_a_broken_tool_leaves_the_task_undone_and_the_model_sees_the_error(kind):
    with scripted_endpoint(SCRIPT) as endpoint:
        given = _options(kind, endpoint.url, "--arms", "nothing")
        outcome = hurried(run_all(given, [_truth()], DESCRIBED))["nothing"]
    assert (outcome.exposed, outcome.exposed_done, outcome.broken_calls) == (1, 0, 1)
    assert "connection refused" in json.dumps(endpoint.requests[-1])


def test_a_fallback_does_the_task_although_the_tool_is_broken(kind):
    with scripted_endpoint(SCRIPT) as endpoint:
        given = _options(kind, endpoint.url, "--arms", "retries + fallback", "--fault", "expired token")
        outcome = hurried(run_all(given, [_truth()], DESCRIBED))["retries + fallback"]
    assert (outcome.exposed_done, outcome.broken_calls) == (1, 3)


def test_a_model_is_told_in_the_conversation_that_a_tool_is_down(kind):
    with scripted_endpoint([*[[("put", {"what": "book"})]] * 12, []]) as endpoint:
        given = _options(kind, endpoint.url, "--arms", "Switchgear + stable list")
        outcome = hurried(run_all(given, [_truth()], DESCRIBED))["Switchgear + stable list"]
    assert outcome.refused > 0
    assert json.dumps(endpoint.requests[-1]).count("[tool status]") == 1


def test_a_tool_says_which_arguments_a_malformed_call_lacks(kind):
    with scripted_endpoint([[("put", {})], []]) as endpoint:
        given = _options(kind, endpoint.url, "--arms", "nothing", "--fault", "none")
        outcome = hurried(run_all(given, [_truth()], DESCRIBED))["nothing"]
    assert outcome.done == 0
    assert "missing 1 required positional argument" in json.dumps(endpoint.requests[-1])


async def test_a_busy_endpoint_is_asked_again_and_one_that_refuses_is_not():
    class Busy:
        statuses: ClassVar = [529, 429, 401]
        asked = 0

        async def turn(self, system, tools, messages):
            self.asked += 1
            error = Failed(self.statuses.pop(0), "no")
            raise error()

    busy = Busy()
    with pytest.raises(httpx.HTTPStatusError, match="401"):
        await PatientModel(busy, first_wait_s=0.0).turn("", [], [Said("hello")])
    assert busy.asked == 3


def test_the_tools_have_json_schemas():
    schema = schema_of(_described("put", price={"type": "float"}, tags={"type": "array", "items": {"type": "dict"}}))
    assert schema["parameters"] == {
        "type": "object",
        "properties": {"price": {"type": "number"}, "tags": {"type": "array", "items": {"type": "object"}}},
    }


def test_without_a_key_a_sentence_says_which(monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["--live", "openai", "--model", "m"]) == 2
    assert capsys.readouterr().out == "There is no key in OPENAI_API_KEY.\n"
