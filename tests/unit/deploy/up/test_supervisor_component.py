"""A child process of ours: started, asked whether it is ready, quoted when it ends, and ended."""

import asyncio
import os
import sys
import time

import httpx
import psutil
import pytest

from switchgear_cli.local.ports import hold_listening
from switchgear_cli.up import supervisor as supervisor_module
from switchgear_cli.up.supervisor import CommandComponent
from switchgear_http.sockets import url_of
from switchgear_schemas.errors import SwitchgearError
from tests.support.limits import READY_S, STOP_S
from tests.support.waiting import until


class Module:
    """Stands for the package: ``python -m switchgear_cli ARGUMENTS`` runs the first argument as a script."""

    def __init__(self, folder):
        package = folder / "switchgear_cli"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text("import sys; exec(sys.argv[1])")
        self.environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def component(tmp_path):
    made = []
    module = Module(tmp_path)

    def make(script, **options):
        made.append(
            CommandComponent(
                "thing", [script], log_file=tmp_path / "logs" / "thing.log", environment=module.environment, **options
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.kill()


def end_of(component):
    until(lambda: component.ended() is not None)
    return component.ended()


def printed(component):
    return component.log_file.read_text() if component.log_file.exists() else ""


@pytest.mark.slow
def test_the_output_of_a_component_goes_to_its_log(component):
    thing = component("import sys; print('out'); print('err', file=sys.stderr)")
    thing.spawn()
    end_of(thing)
    assert thing.log_file.read_text() == "out\nerr\n"


@pytest.mark.slow
def test_a_failure_quotes_the_last_lines_of_the_log(component):
    thing = component("raise SystemExit('switchgear: The disk is full.')")
    assert thing.ended() is None
    thing.spawn()
    assert end_of(thing) == "code 1: switchgear: The disk is full."
    assert thing.pid is None


@pytest.mark.slow
def test_a_silent_failure_has_its_code(component):
    thing = component("raise SystemExit(70)")
    thing.spawn()
    assert end_of(thing) == "code 70"


@pytest.mark.slow
def test_a_death_by_signal_has_the_signals_name(component):
    thing = component("print('well so far'); import os; os.kill(os.getpid(), 9)")
    thing.spawn()
    assert end_of(thing) == "SIGKILL"


@pytest.mark.slow
def test_a_second_start_appends_to_the_log(component):
    thing = component("print('line')")
    for _ in range(2):
        thing.spawn()
        end_of(thing)
    assert thing.log_file.read_text() == "line\nline\n"


async def test_a_component_without_an_address_is_ready_while_it_runs(component):
    thing = component("import time; time.sleep(60)")
    assert not await thing.is_ready()
    thing.spawn()
    assert await thing.is_ready()
    thing.kill()
    assert not await thing.is_ready()


SERVER = """
import os, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from switchgear_http.sockets import SOCKET_VARIABLE, own_pid
address, _, descriptor = os.environ[SOCKET_VARIABLE].rpartition("=")
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response({status})
        for name, value in {headers}.items():
            self.send_header(name, value)
        self.end_headers()
    def log_message(self, *_):
        pass
server = HTTPServer((address.partition(":")[0], 0), Handler, bind_and_activate=False)
server.socket.close()
server.socket = __import__("socket").socket(fileno=int(descriptor))
server.serve_forever()
"""


def serving(status=200, headers="own_pid()"):
    return SERVER.replace("{status}", str(status)).replace("{headers}", headers)


@pytest.fixture
def held():
    """A listening socket, as `up` holds it."""
    with hold_listening(0) as listening:
        yield listening


async def within(thing, seconds):
    """Whether the component becomes ready within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if await thing.is_ready():
            return True
    return False


@pytest.mark.slow
async def test_a_component_is_ready_when_it_answers_so_itself_on_the_socket_that_it_inherited(component, held):
    thing = component(serving(), listening=held)
    assert thing.address == url_of(held)
    thing.spawn()
    assert await within(thing, READY_S)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "headers"),
    [(503, "own_pid()"), (200, "{}"), (200, "{'Switchgear-Pid': '1'}")],
    ids=["not ready", "another program", "another process of ours"],
)
async def test_a_component_is_not_ready_by_any_other_answer(component, held, status, headers):
    thing = component(serving(status, headers), listening=held)
    thing.spawn()
    answer = await asyncio.to_thread(httpx.get, f"{thing.address}/readyz", trust_env=False, timeout=READY_S)
    assert answer.status_code == status
    assert not await thing.is_ready()


@pytest.mark.slow
async def test_a_restarted_component_answers_on_the_same_socket(component, held):
    thing = component(serving(), listening=held)
    for _ in range(2):
        thing.spawn()
        assert await within(thing, READY_S)
        thing.kill()
        assert not await thing.is_ready()


@pytest.mark.slow
async def test_a_component_that_does_not_run_is_not_ready_while_its_socket_takes_connections(
    component, held, monkeypatch
):
    monkeypatch.setattr(supervisor_module, "_PROBE_TIMEOUT_S", 0.1)
    assert not await component("", listening=held).is_ready()


@pytest.mark.slow
def test_sigterm_lets_a_component_end_in_its_own_way(component):
    thing = component(
        "import signal, time, sys; signal.signal(15, lambda *_: sys.exit(0)); print('up');"
        "[time.sleep(0.1) for _ in range(600)]"  # a signal that arrives just before a sleep is handled after it
    )
    thing.spawn()
    until(lambda: "up" in printed(thing))
    thing.terminate()
    assert end_of(thing) == "code 0: up"


@pytest.mark.slow
def test_a_kill_also_ends_the_children_of_a_component(component):
    thing = component(
        f"import subprocess, time; p = subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(60)']);"
        "print(p.pid); time.sleep(60)"
    )
    thing.spawn()
    until(lambda: printed(thing).endswith("\n"))
    grandchild = psutil.Process(int(thing.log_file.read_text()))
    thing.kill()
    gone, alive = psutil.wait_procs([grandchild], timeout=STOP_S)
    assert gone or alive[0].status() == psutil.STATUS_ZOMBIE


def test_a_component_that_cannot_be_started_says_so(tmp_path):
    (tmp_path / "file").touch()
    thing = CommandComponent("thing", [], log_file=tmp_path / "file" / "thing.log", environment={})
    with pytest.raises(SwitchgearError, match="The thing cannot be started"):
        thing.spawn()


def test_the_log_of_a_component_stays_bounded(component, monkeypatch):
    thing = component("")
    thing.log_file.parent.mkdir()
    thing.log_file.write_bytes(b"x" * (11 * 1024 * 1024))
    thing.tend()
    assert thing.log_file.stat().st_size == 0
