"""The process of a server: what it gets, what of its output is read, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile

import mcp_types as types
import psutil
import pytest
from mcp.shared.message import SessionMessage

from switchgear_mcp.child import AnswerOfNoRequestError, started
from switchgear_mcp.message_size import MIB
from switchgear_mcp.servers import CommandServer
from tests.support.shared import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]
RAW = ("-S", str(REPOSITORY / "tests/support/raw_mcp_server.py"))


class Child:
    """Talks to the raw server."""

    def __init__(self, read, write):
        self.read, self.write, self._number = read, write, 0

    async def ask(self, method, **params):
        self._number += 1
        await self.write.send(
            SessionMessage(types.JSONRPCRequest(jsonrpc="2.0", id=self._number, method=method, params=params))
        )
        return (await self.next()).message

    async def next(self):
        async with asyncio.timeout(30):
            return await self.read.receive()

    async def call(self, name, **arguments):
        return await self.ask("tools/call", name=name, arguments=arguments)


def text_of(answer):
    return answer.result["content"][0]["text"]


def raw(**env):
    return CommandServer("raw", sys.executable, RAW, env)


def printing(code):
    return CommandServer("raw", sys.executable, ("-S", "-c", code))


class running:  # noqa: N801 - a block
    """A server, and its standard error in a file."""

    def __init__(self, server, most=32 * MIB):
        self._server, self._most = server, most

    async def __aenter__(self):
        self._log = tempfile.TemporaryFile("w")  # noqa: SIM115 - closed with the block
        self._streams = started(self._server, self._log, self._most)
        try:
            return Child(*await self._streams.__aenter__())
        except BaseException:
            self._log.close()
            raise

    async def __aexit__(self, *error):
        self._log.close()
        return await self._streams.__aexit__(*error)


SECRETS = {
    "SWITCHGEAR_TOKEN": "sgt_secret",
    "SWITCHGEAR_KAFKA_SASL_PASSWORD": "hunter2",
    "SWITCHGEAR_MCP_HEADER_1": "Authorization: Bearer other-servers",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "GITHUB_TOKEN": "ghp_of_the_shell",
    "LD_PRELOAD_OF_A_TEST": "x",
}


async def test_a_server_gets_the_short_list_of_mcp_clients_and_what_its_entry_names(monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SHELL", "() { :; }; echo functions are not passed on")
    async with running(raw(NAMED="by the entry", HOME="/of/the/entry")) as child:
        got = json.loads(text_of(await child.call("environment")))
    got.pop("LC_CTYPE", None)  # Python sets it
    assert got.keys() <= {"HOME", "LOGNAME", "PATH", "TERM", "USER", "NAMED"}
    assert (got["NAMED"], got["HOME"], got["PATH"]) == ("by the entry", "/of/the/entry", os.environ["PATH"])
    assert not set(SECRETS.values()) & set(got.values())


async def test_an_answer_over_the_budget_is_an_error_of_its_request_and_the_next_call_works():
    async with running(raw(), MIB) as child:
        for kind in ("text", "values"):
            refused = await child.call(kind, bytes=8 * MIB)
            assert isinstance(refused, types.JSONRPCError)
            assert "is larger than the proxy reads (1 MiB)" in refused.error.message
            assert "--max-result" in refused.error.message
        assert text_of(await child.call("echo", text="after")) == "after"


async def test_an_answer_within_the_budget_arrives_whole():
    async with running(raw()) as child:
        text = text_of(await child.call("text", bytes=8 * MIB))
    assert (len(text), set(text)) == (8 * MIB, {"x"})


async def test_a_notification_over_the_budget_is_skipped_and_an_answer_of_no_request_ends_the_server():
    log = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}'
    async with running(
        printing(f"import sys; print({log!r} % ('x' * 99_999)); print('{{}}', flush=True)"), 50_000
    ) as child:
        assert "is larger than the proxy reads" in str(await child.next())
        assert isinstance(await child.next(), ValueError)
    odd = '{"jsonrpc":"2.0","result":{"a":"%s"},"id":1,"x":{}}'
    with pytest.raises(ExceptionGroup) as raised:
        async with running(
            printing(f"import sys; print({odd!r} % ('x' * 99_999), flush=True); sys.stdin.read()"), 50_000
        ) as child:
            await asyncio.sleep(30)
    assert raised.group_contains(AnswerOfNoRequestError)


async def test_a_line_that_is_not_utf_8_is_read_with_replacements_and_garbage_is_an_error():
    code = r"""import os; os.write(1, b'\xff\xfe\n{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}\n')"""
    async with running(printing(code)) as child:
        assert isinstance(await child.next(), ValueError)
        assert (await child.next()).message.result == {"a": "�"}


async def test_a_server_that_ignores_the_end_of_its_input_is_ended_with_its_own_processes():
    code = (
        "import json, os, signal, subprocess, sys, time\n"
        "other = subprocess.Popen(['sleep', '600'])\n"
        "line = json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': {'pids': [os.getpid(), other.pid]}})\n"
        "print(line, flush=True)\n"
        "time.sleep(600)\n"
    )
    async with running(printing(code)) as child:
        pids = (await child.next()).message.result["pids"]
    async with asyncio.timeout(10):
        while any(alive(pid) for pid in pids):  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.05)


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_server_that_does_not_read_is_ended_in_seconds_with_the_messages_for_it():
    async with running(printing("import time; time.sleep(600)")) as child:
        request = types.JSONRPCRequest(jsonrpc="2.0", id=1, method="x", params={"a": "y" * MIB})
        await child.write.send(SessionMessage(request))


async def test_a_program_that_is_not_there_is_an_error_of_the_system():
    with pytest.raises(FileNotFoundError):
        async with running(CommandServer("gone", "/nonexistent/server")):
            pass
