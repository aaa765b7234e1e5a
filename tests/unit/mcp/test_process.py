"""The process of a server: what it gets, what of its output is read, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import psutil
import pytest

from switchgear_mcp import message as rpc
from switchgear_mcp.channel import MIB
from switchgear_mcp.environment import _CERTIFICATES, _PROXIES
from switchgear_mcp.errors import AnswerTooLargeError
from switchgear_mcp.hidden import Hidden
from switchgear_mcp.process import Process
from switchgear_mcp.servers import CommandServer
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.shared import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]
RAW = ("-S", str(REPOSITORY / "tests/support/raw_mcp_server.py"))


class Child:
    """Talks to the raw server, and gets what comes from it."""

    def __init__(self):
        self._number, self._came, self.process = 0, asyncio.Queue(), None

    async def receive(self, message, related=None):
        await self._came.put(message)

    async def fail(self, number, error):
        await self._came.put((number, error))

    def skip(self, why):
        self._came.put_nowait(why)

    async def ask(self, method, **params):
        self._number += 1
        await self.process.send(rpc.request(self._number, method, params), {})
        return await self.next()

    async def next(self):
        async with asyncio.timeout(HAPPEN_S):
            return await self._came.get()

    async def call(self, name, **arguments):
        return await self.ask("tools/call", name=name, arguments=arguments)


def result_of(answer):
    return json.loads(answer.line)["result"]


def text_of(answer):
    return result_of(answer)["content"][0]["text"]


def raw(**env):
    return CommandServer("raw", sys.executable, RAW, env)


def printing(code):
    return CommandServer("raw", sys.executable, ("-S", "-c", code))


class running:  # noqa: N801 - a block
    """A server, and what comes from it."""

    def __init__(self, server, most=256 * MIB):
        self._server, self._most = server, most

    async def __aenter__(self):
        child, opened = Child(), asyncio.Event()
        child.process = Process(self._server, child, self._most, Hidden(self._server))
        self.task = asyncio.create_task(child.process.run(opened.set))
        opening = asyncio.create_task(opened.wait())
        await asyncio.wait({self.task, opening}, return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
        if self.task.done():
            self.task.result()
        return child

    async def __aexit__(self, *error):
        self.task.cancel()
        await asyncio.wait({self.task})


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
    for name in (*_CERTIFICATES, *_PROXIES):
        monkeypatch.delenv(name, raising=False)
    async with running(raw(NAMED="by the entry", HOME="/of/the/entry")) as child:
        got = json.loads(text_of(await child.call("environment")))
    got.pop("LC_CTYPE", None)  # Python sets it
    assert got.keys() <= {"HOME", "LOGNAME", "PATH", "TERM", "USER", "NAMED"}
    assert (got["NAMED"], got["HOME"], got["PATH"]) == ("by the entry", "/of/the/entry", os.environ["PATH"])
    assert not set(SECRETS.values()) & set(got.values())


async def test_a_server_gets_what_it_needs_in_the_network_of_a_company_and_no_password_of_a_proxy(monkeypatch):
    given = {"SSL_CERT_FILE": "/etc/ca.pem", "HTTPS_PROXY": "http://proxy:3128", "no_proxy": "localhost"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HTTP_PROXY", "http://ana:hunter2@proxy:3128")
    async with running(raw()) as child:
        got = json.loads(text_of(await child.call("environment")))
    assert {name: got.get(name) for name in given} == given
    assert "HTTP_PROXY" not in got


async def test_an_answer_over_the_bound_ends_its_request_and_the_next_call_works():
    async with running(raw(), MIB) as child:
        for kind in ("text", "values"):
            number, error = await child.call(kind, bytes=8 * MIB)
            assert isinstance(error, AnswerTooLargeError)
            assert "is larger than the proxy reads (1 MiB)" in str(error)
            assert "--max-result" in str(error)
        assert number == 2
        assert text_of(await child.call("echo", text="after")) == "after"


async def test_an_answer_of_sixty_megabytes_arrives_whole():
    async with running(raw()) as child:
        text = text_of(await child.call("text", bytes=60 * MIB))
    assert (len(text), set(text)) == (60 * MIB, {"x"})


async def test_a_notification_over_the_bound_is_skipped_and_an_answer_of_no_request_ends_the_server():
    log = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%s"}}'
    async with running(
        printing(f"import sys; print({log!r} % ('x' * 99_999)); print('{{}}', flush=True)"), 50_000
    ) as child:
        assert "is larger than the proxy reads" in await child.next()
        assert "neither a method nor a result" in await child.next()
    odd = '{"jsonrpc":"2.0","result":{"a":"%s"},"id":1,"x":{}}'
    block = running(printing(f"import sys; print({odd!r} % ('x' * 99_999), flush=True); sys.stdin.read()"), 50_000)
    async with block as child, asyncio.timeout(HAPPEN_S):
        await asyncio.wait({block.task})
        assert "was ended. An answer of the server raw is larger" in await child.process.described(
            block.task.exception()
        )


async def test_a_line_that_is_not_utf_8_passes_as_it_is_and_garbage_is_skipped():
    code = r"""import os; os.write(1, b'\xff\xfe\n{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}\n')"""
    async with running(printing(code)) as child:
        assert isinstance(await child.next(), str)
        assert (await child.next()).line == b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff"}}'


async def test_a_server_that_ignores_the_end_of_its_input_is_ended_with_its_own_processes():
    code = (
        "import json, os, signal, subprocess, sys, time\n"
        "other = subprocess.Popen(['sleep', '600'])\n"
        "line = json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': {'pids': [os.getpid(), other.pid]}})\n"
        "print(line, flush=True)\n"
        "time.sleep(600)\n"
    )
    async with running(printing(code)) as child:
        pids = result_of(await child.next())["pids"]
    async with asyncio.timeout(ANSWER_S):
        while any(alive(pid) for pid in pids):  # noqa: ASYNC110 - of other processes
            await asyncio.sleep(0.05)


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_a_server_that_does_not_read_is_ended_in_seconds_with_the_messages_for_it():
    async with running(printing("import time; time.sleep(600)")) as child:
        request = rpc.request(1, "x", {"a": "y" * MIB})
        writing = asyncio.create_task(child.process.send(request, {}))
        await asyncio.sleep(0.1)
        assert not writing.done()
    with pytest.raises(ConnectionError):
        await writing


async def test_a_program_that_is_not_there_is_an_error_of_the_system():
    with pytest.raises(FileNotFoundError):
        async with running(CommandServer("gone", "/nonexistent/server")):
            pass
