"""What a guard's options send to the fleet, through a real broker."""

from __future__ import annotations

import asyncio
import time

import pytest

from switchgear import BreakerPolicy, CachePolicy, CallTimeoutError, CircuitOpenError, Switchgear, Usage
from switchgear_schemas.wire import decode_execution
from tests.integration.producers.circuits import circuit, executions, publish
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.waiting import auntil


async def everything(settings):
    consumer = await executions(settings)
    try:
        ends = await consumer.end_offsets(consumer.assignment())
        found = []
        while len(found) < sum(ends.values()):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found.extend(decode_execution(record.value) for record in records)
    finally:
        await consumer.stop()
    return sorted(found, key=lambda event: event.recorded_at)


async def test_sessions_tokens_timeouts_streams_and_stand_ins_are_in_the_log(settings):
    gear = await asyncio.to_thread(
        Switchgear,
        settings.kafka,
        topic_prefix=settings.topic_prefix,
        parameters_key=b"k",
        local_policies=BreakerPolicy(consecutive_failures=1),
    )
    assert await asyncio.to_thread(gear.start, 30)

    @gear.guard("llm", usage=lambda text: Usage(input_tokens=3, output_tokens=len(text), cost_usd=0.5))
    async def llm(prompt):
        return prompt

    @gear.guard("slow", timeout=0.05)
    def slow():
        time.sleep(3)

    @gear.guard("stream")
    async def stream():
        for number in range(3):
            yield number

    gear.guard("backup")(lambda: "backup")
    primary = gear.guard("primary", fallback="backup")(lambda: "primary")
    cached = gear.guard("cached", cache=CachePolicy(ttl_s=0, stale_for_s=600))(lambda: "cached")

    async with gear.session("s-1", user_id="ana", max_calls=6) as session:
        assert await llm("hello") == "hello"
        assert [item async for item in stream()] == [0, 1, 2]
        with pytest.raises(CallTimeoutError):
            await asyncio.to_thread(slow)
        assert cached() == "cached"
        for tool in ("primary", "cached"):
            await publish(settings, circuit(tool, "open", 1))
        await auntil(lambda: gear.is_open("primary") and gear.is_open("cached"), HAPPEN_S)
        assert (primary(), gear.answer(cached).served_by) == ("backup", "cache")
        assert session.status().calls == 5
        gear.try_acquire("last").success()
        with pytest.raises(CircuitOpenError, match="session s-1 has made its 6 calls"):
            await llm("again")
    assert await gear.aclose(ANSWER_S)

    events = await everything(settings)
    assert {(event.session_id, event.user_id) for event in events} == {("s-1", "ana")}
    made = {event.tool_name: event for event in events if event.status != "rejected"}
    assert {tool: event.status for tool, event in made.items()} == {
        "llm": "success",
        "stream": "success",
        "slow": "timeout",
        "cached": "success",
        "backup": "success",
        "last": "success",
    }
    assert (made["llm"].input_tokens, made["llm"].output_tokens, made["llm"].cost_usd) == (3, 5, 0.5)
    assert made["llm"].parameters_hash
    assert (made["slow"].error_class, made["slow"].error_type) == ("timeout", "CallTimeoutError")
    refused = {event.tool_name: event for event in events if event.status == "rejected"}
    assert (refused["primary"].served_by, refused["primary"].fallback_tool) == ("fallback", "backup")
    assert (refused["cached"].served_by, refused["llm"].served_by) == ("cache", "none")
    assert refused["llm"].metadata["refused_by"] == "session"
