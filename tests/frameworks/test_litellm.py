"""The adapter of LiteLLM passes the suite: a tool of the suite is a model of a provider, and a router calls it."""

from __future__ import annotations

import asyncio
import os
from typing import ClassVar

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise it is fetched at the import

import litellm
import openai
from litellm import CustomLLM, Router
from litellm.llms.custom_llm import CustomLLMError

from switchgear import CircuitOpenError
from switchgear.integrations.litellm import GuardedModels
from switchgear.testing import InMemoryFleet
from switchgear.testing.adapter_suite import BACKUP, FORECAST, AdapterDriver, AdapterSuite, SuiteRun, SuiteTool
from switchgear_schemas import BreakerPolicy
from tests.frameworks.examples import expect_example

litellm.suppress_debug_info = True


class Provider(CustomLLM):
    """Answers with what the suite's tools do."""

    def __init__(self, tools):
        super().__init__()
        self.tools = {each.name: each for each in tools}

    def asked(self, messages):
        if not messages:
            raise CustomLLMError(status_code=400, message="messages must not be empty")
        return messages[-1]["content"]

    async def acompletion(self, model, messages, *_, **__):
        try:
            return answer(messages, await self.tools[model].acall(self.asked(messages)))
        except TimeoutError as error:  # as the clients of real providers do
            raise litellm.Timeout(str(error), model, "suite") from error

    def completion(self, model, messages, *_, **__):
        return answer(messages, self.tools[model].call(self.asked(messages)))

    async def astreaming(self, model, messages, *_, **__):
        found = await self.tools[model].acall(self.asked(messages))
        for word in str(found).split():
            yield chunk(f"{word} ")
            if isinstance(found, Exception):  # in the middle
                raise found
        yield chunk("", "stop")


def answer(messages, text):
    return litellm.mock_completion(model="gpt-4o", messages=messages, mock_response=str(text))


def chunk(text, finish=""):
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12} if finish else None
    return {
        "text": text, "is_finished": bool(finish), "finish_reason": finish, "index": 0, "tool_use": None, "usage": usage,
    }  # fmt: skip


def router_of(*tools, **options):
    litellm.custom_provider_map = [{"provider": "suite", "custom_handler": Provider(tools)}]
    litellm.utils.custom_llm_setup()  # LiteLLM does it at the first completion, but the router of older versions needs it before
    models = [{"model_name": each.name, "litellm_params": {"model": f"suite/{each.name}"}} for each in tools]
    return Router(model_list=models, disable_cooldowns=True, retry_after=0, **{"num_retries": 0, **options})


def messages_of(city):
    return [{"role": "user", "content": city}]


class LiteLLMDriver(AdapterDriver):
    framework = "litellm"
    not_possible: ClassVar = {
        "error_as_a_value_counts_as_the_tools_error": "A model's API answers or fails; it has no errors as values.",
        "error_as_a_value_counts_by_its_text_if_the_user_trusts_it": "A model's API has no errors as values.",
        "interrupt_or_deferral_does_not_count": "A completion can't be paused.",
        "probe_of_an_interrupted_call_is_released": "A completion can't be paused.",
        "list_stays_as_it_is_while_a_tool_is_down": "No model sees the list: the program asks which models it can call now.",
        "outage_is_told_once_in_the_conversation_and_so_is_its_end": "The program chooses the model, so no prompt lists the models.",
        "terminal_refusal_ends_the_run": "There is no agent whose run could end.",
        "guarded_function_is_counted_once_and_its_circuit_filters": "A model is a name, without a function of the program.",
    }

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        router = router_of(*tools, num_retries=retries)
        models = router if gear is None else GuardedModels(gear, router, circuit_of=str)
        names, run = [each.name for each in tools], SuiteRun()

        async def result(call):
            messages = messages_of(call.arguments["city"]) if "city" in call.arguments else []
            try:
                if not all(each.is_async for each in tools):
                    found = await asyncio.to_thread(models.completion, call.tool, messages)
                elif stream:
                    chunks = await models.acompletion(call.tool, messages, stream=True)
                    return "".join([each.choices[0].delta.content or "" async for each in chunks])
                else:
                    found = await models.acompletion(call.tool, messages)
            except Exception as error:
                return str(error)
            return found.choices[0].message.content

        for calls in [*turns, ()]:
            run.offered.append(set(names if gear is None else models.available(names)))
            run.requests += 1
            run.results += await asyncio.gather(*map(result, calls))
        return run

    def interrupt(self):
        raise NotImplementedError


class TestLiteLLM(AdapterSuite):
    driver = LiteLLMDriver()


CITY = messages_of("Oslo")
MODEL = "model:gpt-4o"


def broken(name, error):
    def fail(_city):
        raise error

    return SuiteTool(name, fail)


async def test_tokens_and_cost_of_a_completion_count_in_the_session():
    fleet = InMemoryFleet()
    gear = fleet.gear()
    with gear.session("s-1") as session:
        await GuardedModels(gear).acompletion("gpt-4o", CITY, mock_response="hello there")
        status = session.status()
    (event,) = fleet.events(MODEL)
    assert (event["status"], event["session_id"]) == ("success", "s-1")
    assert status.tokens > 0
    assert status.cost_usd > 0


async def test_outcome_of_a_stream_is_reported_at_its_end_with_its_tokens():
    fleet = InMemoryFleet()
    gear = fleet.gear()
    models = GuardedModels(gear, router_of(SuiteTool()), circuit_of=str)
    with gear.session("s-1") as session:
        chunks = await models.acompletion(FORECAST, CITY, stream=True)
        words = []
        async for each in chunks:
            assert fleet.events(FORECAST) == []
            words.append(each.choices[0].delta.content or "")
        assert session.status().tokens > 0
    assert "".join(words).strip() == "sunny in Oslo"
    assert [event["status"] for event in fleet.events(FORECAST)] == ["success"]


def test_synchronous_stream_is_reported_at_its_end():
    fleet = InMemoryFleet()
    models = GuardedModels(fleet.gear())
    chunks = models.completion("gpt-4o", CITY, mock_response="hello there my friend", stream=True)
    first = next(chunks)
    assert first.choices[0].delta.content
    assert fleet.events(MODEL) == []
    assert chunks.model == "gpt-4o"  # as LiteLLM's own stream
    assert len(list(chunks)) > 1
    assert [event["status"] for event in fleet.events(MODEL)] == ["success"]


async def test_stream_that_breaks_in_the_middle_counts_as_a_failure():
    policy = BreakerPolicy(consecutive_failures=1)
    fleet = InMemoryFleet(policy)
    breaking = SuiteTool(does=lambda _: ConnectionError("gone"))
    models = GuardedModels(fleet.gear(local_policies=policy), router_of(breaking), circuit_of=str)
    chunks = await models.acompletion(FORECAST, CITY, stream=True)
    await anext(chunks)
    assert fleet.events(FORECAST) == []
    with pytest.raises(openai.APIConnectionError):
        [_ async for _ in chunks]
    (event,) = fleet.events(FORECAST)
    assert event["error_class"] == "transport"
    assert models.available([FORECAST]) == []


@pytest.mark.parametrize(("until", "error_class"), [("", "policy"), ("stop", None)])
async def test_stream_that_its_reader_leaves_counts_only_if_the_model_had_finished(until, error_class):
    fleet = InMemoryFleet()
    models = GuardedModels(fleet.gear(), router_of(SuiteTool()), circuit_of=str)
    chunks = await models.acompletion(FORECAST, CITY, stream=True)
    async for each in chunks:
        if (each.choices[0].finish_reason or "") == until:
            break
    await chunks.aclose()
    (event,) = fleet.events(FORECAST)
    assert event.get("error_class") == error_class


async def test_stream_that_is_thrown_away_gives_the_probe_back():
    policy = BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=30)
    fleet = InMemoryFleet(policy)
    each = broken(FORECAST, ConnectionError("gone"))
    models = GuardedModels(fleet.gear(local_policies=policy), router_of(each), circuit_of=str)
    with pytest.raises(litellm.APIConnectionError):
        await models.acompletion(FORECAST, CITY)
    fleet.advance(31)
    each.does = "sunny in {}".format
    chunks = await models.acompletion(FORECAST, CITY, stream=True)
    del chunks
    assert fleet.state(FORECAST) != "closed"
    await models.acompletion(FORECAST, CITY)
    assert fleet.state(FORECAST) == "closed"


async def test_fallback_of_a_router_counts_as_a_failure_of_the_model_and_then_stands_in_for_it():
    policy = BreakerPolicy(consecutive_failures=2)
    fleet = InMemoryFleet(policy)
    primary, backup = broken(FORECAST, ConnectionError("gone")), SuiteTool(BACKUP)
    router = router_of(primary, backup, fallbacks=[{FORECAST: [BACKUP]}], num_retries=1)
    models = GuardedModels(fleet.gear(local_policies=policy), router, circuit_of=str)
    for _ in range(3):
        found = await models.acompletion(FORECAST, CITY)
        assert found.choices[0].message.content == "sunny in Oslo"
    assert len(primary.calls) == 4  # two calls with a retry each, and none while the circuit is open
    assert len(backup.calls) == 3
    events = fleet.events(FORECAST)
    assert [event.get("error_class") for event in events[:2]] == ["transport", "transport"]
    assert (events[2]["status"], events[2]["served_by"]) == ("rejected", "fallback")
    assert [event["status"] for event in fleet.events(BACKUP)] == ["success"]


def test_fallback_of_a_router_counts_as_a_failure_in_synchronous_code_too():
    fleet = InMemoryFleet()
    router = router_of(broken(FORECAST, ConnectionError("gone")), SuiteTool(BACKUP), fallbacks=[{FORECAST: [BACKUP]}])
    found = GuardedModels(fleet.gear(), router, circuit_of=str).completion(FORECAST, CITY)
    assert found.choices[0].message.content == "sunny in Oslo"
    assert [event["error_class"] for event in fleet.events(FORECAST)] == ["transport"]


async def test_fallback_of_the_client_stands_in_without_a_router():
    fleet = InMemoryFleet()
    fleet.open_circuit(MODEL)
    gear = fleet.gear(fallbacks={MODEL: "model:gpt-4o-mini"})
    found = await GuardedModels(gear, models=["gpt-4o-mini"]).acompletion("gpt-4o", CITY, mock_response="hello")
    assert found.model == "gpt-4o-mini"
    with pytest.raises(CircuitOpenError, match=r"The tool gpt-4o is unavailable .* Use model:gpt-4o-mini instead"):
        await GuardedModels(gear).acompletion("gpt-4o", CITY, mock_response="hello")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ("litellm.RateLimitError", "rate_limited"),
        ("litellm.InternalServerError", "server"),
        ("litellm.ContextWindowExceededError", "invalid_input"),
    ],
)
async def test_errors_of_litellm_have_their_class(failure, expected):
    fleet = InMemoryFleet()
    with pytest.raises(openai.APIError):
        await GuardedModels(fleet.gear()).acompletion("gpt-4o", CITY, mock_response=failure)
    assert [event["error_class"] for event in fleet.events(MODEL)] == [expected]


async def test_unknown_model_without_a_router_makes_no_event():
    fleet = InMemoryFleet()
    with pytest.raises(litellm.BadRequestError):
        await GuardedModels(fleet.gear()).acompletion("no_such_model", CITY)
    assert fleet.events() == []


EXPECTED = [
    "call 1",
    "  available: forecaster-large, forecaster-small",
    "  forecaster-large: litellm.InternalServerError",
    "call 2",
    "  forecaster-large: litellm.InternalServerError",
    "call 3",
    "  available: forecaster-small",
    "  gpt-4o-mini: usually mild in Oslo",
    "These tools are unavailable: model:forecaster-large (use model:forecaster-small instead). ",
    "tokens: ",
]


def test_example_prints_the_expected_lines():
    expect_example("litellm_models.py", EXPECTED)
