"""The MCP proxy outlives its servers: they are killed, stopped, slow, noisy, or not there at all."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import time
from contextlib import asynccontextmanager

import psutil
import pytest
from mcp import MCPError

from switchgear_cli.local.ports import any_free_port
from tests.frameworks.proxies import (
    LIMIT_S,
    PATIENT,
    PROXY,
    SMALL,
    environment,
    over_http,
    over_stdio,
    running,
    text_of,
    until,
)
from tests.support.limits import STOP_S

pytestmark = pytest.mark.timeout(500)
NAMED = (*PROXY, "--name", "small")


@asynccontextmanager
async def behind_proxy(*words, command=SMALL, **options):
    """Yield a session with the proxy, and a function that returns what it has printed to standard error."""
    with tempfile.TemporaryFile("w+") as log:

        def printed():
            log.seek(0)
            return log.read()

        async with over_stdio((*NAMED, *words, "--", *command), log=log, **options) as session:
            yield session, printed


async def pid_of(session):
    return int(text_of(await session.call_tool("pid", {})))


async def test_a_killed_server_is_restarted_and_calls_meanwhile_fail_at_once():
    async with behind_proxy() as (session, printed):
        pid = await pid_of(session)
        slow = asyncio.ensure_future(session.call_tool("slow", {"seconds": 3600}))
        await asyncio.sleep(1)
        os.kill(pid, signal.SIGKILL)
        cut = await slow
        assert cut.is_error
        assert text_of(cut).startswith("The server small has ended")
        assert text_of(cut).endswith("The call was under way.")
        began = time.monotonic()
        at_once = await session.call_tool("echo", {"text": "x"})
        assert at_once.is_error
        assert "The first call after" in text_of(at_once)
        assert time.monotonic() - began < 5
        assert "echo" in {tool.name for tool in (await session.list_tools()).tools}
        assert (await session.list_resources()).resources == []  # not listed before
        await asyncio.sleep(1)
        assert await pid_of(session) != pid
        assert "Traceback" not in printed()


async def test_a_server_that_dies_between_calls_is_restarted_by_the_next_call():
    async with behind_proxy() as (session, _):
        pid = await pid_of(session)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not alive(pid))
        found = await session.call_tool("pid", {})
        if found.is_error:  # noticed now: the pause begins
            await asyncio.sleep(1)
            found = await session.call_tool("pid", {})
        assert int(text_of(found)) != pid


async def test_a_server_that_dies_again_and_again_is_not_restarted_in_a_tight_loop(tmp_path):
    starts, policy = tmp_path / "starts", tmp_path / "policy.toml"
    never_opens = 'mode = "metrics_only"\n'
    policy.write_text(f'[default]\n{never_opens}[family."*"]\n{never_opens}')
    async with behind_proxy(
        "--policy-file", str(policy), "--env", "SMALL_STARTS", env={"SMALL_STARTS": str(starts)}
    ) as (session, _):
        until_then = time.monotonic() + 12
        while time.monotonic() < until_then:
            await session.call_tool("die", {})
            await asyncio.sleep(0.05)
        assert 2 <= len(starts.read_text().splitlines()) <= 7


async def test_calls_that_a_dead_server_fails_open_its_circuits():
    async with behind_proxy(command=(sys.executable, "-c", "raise SystemExit(3)")) as (session, _):
        texts = [text_of(await session.call_tool("search", {}))]
        async with asyncio.timeout(LIMIT_S):
            while "circuit open" not in texts[-1]:  # each attempt to start it is one piece of evidence
                await asyncio.sleep(0.1)
                texts.append(text_of(await session.call_tool("search", {})))
    assert "The server small has ended" in texts[0]


async def test_calls_under_way_at_a_crash_count_once_and_the_restarted_server_is_called():
    async with behind_proxy() as (session, _):
        pid = await pid_of(session)
        slow = [asyncio.ensure_future(session.call_tool("slow", {"seconds": 3600})) for _ in range(7)]
        await asyncio.sleep(1)
        os.kill(pid, signal.SIGKILL)
        assert all(result.is_error for result in await asyncio.gather(*slow))
        await asyncio.sleep(1)
        assert not (await session.call_tool("slow", {"seconds": 0})).is_error


async def test_a_stopped_server_is_a_timeout_and_goes_on_afterwards():
    async with behind_proxy("--call-timeout", "3") as (session, _):
        pid = await pid_of(session)
        os.kill(pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            result = await session.call_tool("echo", {"text": "x"})
            assert "The server small did not answer within 3 s." in text_of(result)
            assert 3 <= time.monotonic() - began < 20
        finally:
            os.kill(pid, signal.SIGCONT)
        assert await pid_of(session) == pid


async def test_lines_that_are_not_messages_are_skipped():
    noisy = (
        "import os, sys, runpy; os.write(1, b'starting\\n{}\\n\\xff\\xfe garbage\\n[1, 2\\n');"
        f"sys.argv = [{SMALL[1]!r}]; runpy.run_path({SMALL[1]!r}, run_name='__main__')"
    )
    async with behind_proxy(command=(sys.executable, "-c", noisy)) as (session, printed):
        assert text_of(await session.call_tool("echo", {"text": "x"})) == "x"
        assert printed().count("sent something that is not a message of MCP") == 1
        assert "Traceback" not in printed()


async def test_a_server_that_exits_at_once_is_reported_with_its_last_line_and_the_proxy_stays():
    words = "import sys; print('usage: no\\nmissing TOKEN', file=sys.stderr); sys.exit(2)"
    async with behind_proxy(command=(sys.executable, "-c", words)) as (session, printed):
        with pytest.raises(MCPError, match="missing TOKEN"):
            await session.list_tools()
        assert "the last line of its standard error is: missing TOKEN" in printed()
        with pytest.raises(MCPError, match="missing TOKEN"):
            await session.read_resource("small://note")
        await session.send_ping()
        assert "Traceback" not in printed()


async def test_a_server_that_comes_later_is_announced_to_the_client(tmp_path):
    port, told = any_free_port(), []

    async def message(received):
        told.append(type(received).__name__)

    command = (*NAMED, "--url", f"http://127.0.0.1:{port}/mcp")
    async with over_stdio(command, message_handler=message) as session:
        with pytest.raises(MCPError, match="can't be reached at"):
            await session.list_tools()
        result = await session.call_tool("echo", {"text": "x"})
        assert f"can't be reached at http://127.0.0.1:{port}:" in text_of(result)
        async with running((*SMALL, str(port)), "Starting MCP server"):
            await until(lambda: "ToolListChangedNotification" in told)
            assert "echo" in {tool.name for tool in (await session.list_tools()).tools}
            assert text_of(await session.call_tool("backup", {})) == "from the backup"


async def test_a_restarted_server_at_an_address_gets_a_new_session_without_a_failed_call():
    port = any_free_port()
    async with over_stdio((*NAMED, f"http://127.0.0.1:{port}/mcp"), env={}) as session:
        async with running((*SMALL, str(port)), "Uvicorn running|Starting MCP server"):
            await until_echo(session)
        async with running((*SMALL, str(port)), "Uvicorn running|Starting MCP server"):
            await asyncio.sleep(2)
            assert text_of(await session.call_tool("backup", {})) == "from the backup"


async def until_echo(session):
    async with asyncio.timeout(LIMIT_S):
        while (await session.call_tool("backup", {})).is_error:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.5)


@pytest.mark.parametrize("ending", ["SIGTERM", "SIGINT", "end of input"])
async def test_the_proxy_ends_in_seconds_and_leaves_no_process(ending, tmp_path):
    starts = tmp_path / "starts"
    process = await asyncio.create_subprocess_exec(
        *PATIENT, "--name", "small", "--env", "SMALL_STARTS", "--", *SMALL,
        env=environment(SMALL_STARTS=str(starts)), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    process.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
    )
    async with asyncio.timeout(LIMIT_S):
        assert json.loads(await process.stdout.readline())["id"] == 1
    (pid,) = map(int, starts.read_text().split())
    began = time.monotonic()
    if ending == "end of input":
        process.stdin.close()
    else:
        process.send_signal(getattr(signal, ending))
    async with asyncio.timeout(STOP_S):
        assert await process.wait() == 0
    assert time.monotonic() - began < 20  # a second or two, on a machine that has nothing else to do
    assert not alive(pid)


async def test_a_proxy_that_is_killed_leaves_no_process():
    command = (*NAMED, "--http", "127.0.0.1:0", "--", *SMALL)
    process = await asyncio.create_subprocess_exec(*command, env=environment(), stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    found = re.search(r"serves (http://\S+/mcp)", line)
    assert found is not None, line
    async with over_http(found[1]) as session:
        pid = await pid_of(session)
        process.kill()
        await process.wait()
        await until(lambda: not alive(pid))


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
