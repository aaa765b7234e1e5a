"""The adapter of LangChain passes the suite."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import interrupt

from switchgear.integrations.langchain import SwitchgearMiddleware
from switchgear.testing.adapter_suite import AdapterDriver, AdapterSuite, SuiteRun

_threads = itertools.count()


class ScriptedModel(GenericFakeChatModel):
    """Notes what it is asked, and answers by the script."""

    seen: Any = None

    def bind_tools(self, tools, **_kwargs):
        self.seen.append({each.name for each in tools})
        return self

    def _generate(self, messages, *args, **kwargs):
        self.seen.append([message.text for message in messages if message.type == "system"])
        return super()._generate(messages, *args, **kwargs)


class LangChainDriver(AdapterDriver):
    framework = "langchain"

    async def run(self, gear, tools, turns, *, stream=False, terminal_after=None, retries=0):
        seen = []
        asked = [
            AIMessage(
                "",
                tool_calls=[
                    {"name": call.tool, "args": dict(call.arguments), "id": f"call-{turn}-{number}"}
                    for number, call in enumerate(calls)
                ],
            )
            for turn, calls in enumerate(turns)
        ]
        model = ScriptedModel(messages=iter([*asked, AIMessage("done")]), seen=seen)
        middleware = [SwitchgearMiddleware(gear, terminal_after=terminal_after)]
        if retries:  # outermost, so that each attempt comes to the adapter
            retry = ToolRetryMiddleware(max_retries=retries, initial_delay=0, jitter=False, backoff_factor=0)
            middleware.insert(0, retry)
        made = [tool(each.function()) for each in tools]
        for each in made:
            each.handle_tool_error = True
        agent = create_agent(
            model, made, system_prompt="Be brief.", middleware=middleware, checkpointer=InMemorySaver()
        )
        run, messages = SuiteRun(), []
        config = {"configurable": {"thread_id": f"thread-{next(_threads)}"}}
        given = {"messages": [("user", "How is the weather?")]}
        try:
            if not all(each.is_async for each in tools):
                found = await asyncio.to_thread(agent.invoke, given, config)
            elif stream:
                async for found in agent.astream(given, config, stream_mode="values"):
                    messages = found["messages"]
            else:
                found = await agent.ainvoke(given, config)
            messages = found["messages"]
        except Exception as error:
            run.error = error
        run.results = [message.text for message in messages if isinstance(message, ToolMessage)]
        run.offered = [names for names in seen if isinstance(names, set)]
        run.prompts = ["\n".join(texts) for texts in seen if isinstance(texts, list)]
        run.requests = len(run.prompts)
        return run

    def interrupt(self):
        return interrupt("Is that right?")

    def error_value(self, text):
        raise ToolException(text)


class TestLangChain(AdapterSuite):
    driver = LangChainDriver()
