"""A program that makes a few calls and ends: every call is an event in the topic, and nothing is printed on standard error.

The broker is given by host name, as in the README: looking that up takes a thread, and an interpreter that ends starts none.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.settings import Settings
from tests.support.deep import some
from tests.support.limits import READY_S
from tests.support.processes import environment, python
from tests.support.recount import read_topic
from tests.support.snippets import snippets

README = snippets("README.md", "python")[0]
README_CALLS = 8
AT_ONCE = 4
LIMIT_S = READY_S
METHODS = ("fork", "spawn", "forkserver")

PROGRAM = """
{before}
import atexit, multiprocessing, os, signal, sys, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from switchgear import Switchgear

gear = Switchgear(sys.argv[1], topic_prefix=sys.argv[2], service=sys.argv[3]{options})

@gear.guard("t")
def tool(number=0):
    return number

def late(number=0):
    time.sleep(0.3)
    return tool(number)

if __name__ == "__main__":
{code}
"""
NO_THREAD_ANY_MORE = """
import threading
def refuse(thread):  # as Python 3.12 and later do at the end
    raise RuntimeError("can't create new thread at interpreter shutdown")
threading.Thread.start = refuse
"""
FORK_ALL = """
children = []
for _ in range({children}):
    child = os.fork()
    if child == 0:
        tool()
        sys.exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""
DAEMONIC_CHILD = """
def work(ready):
    tool()
    {work}

context = multiprocessing.get_context("fork")
ready = context.Event()
child = context.Process(target=work, args=(ready,), daemon=True)
child.start()
{ends}
child.join({limit_s})
assert child.exitcode == -signal.SIGTERM, child.exitcode
"""
HOLD_A_LOCK = """
    with gear._emitter.buffer._lock:
        ready.set()
        time.sleep(2)
    time.sleep({limit_s})
"""
MISS_THE_SIGNAL = """
    def signal_this_thread():  # the main thread waits for a lock, and this does not end its wait
        time.sleep(0.5)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        time.sleep({limit_s})
    threading.Thread(target=signal_this_thread, daemon=True).start()
    never_free = threading.Lock()
    never_free.acquire()
    never_free.acquire()
"""


@dataclass(frozen=True)
class Script:
    """A program: what it does, how many calls it makes, and how it ends."""

    code: str
    calls: int
    exit_code: int = 0
    last_line: str = ""
    """Of standard error: what the program itself ends with. Without one there is nothing on standard error."""
    before: str = ""
    options: str = ""
    flags: tuple[str, ...] = ()


def daemonic_child(work: str, ends: str = "ready.wait(20); child.terminate()") -> Script:
    """Make a script with a child that makes a call, does ``work``, and then ends by SIGTERM."""
    code = DAEMONIC_CHILD.format(work=work.format(limit_s=LIMIT_S / 2).strip(), ends=ends, limit_s=LIMIT_S / 2)
    return Script(code, 1, options=f", exit_timeout={LIMIT_S}")


def multiprocessing_of(method: str) -> dict[str, Script]:
    """Children of ``multiprocessing`` that one method starts."""
    found = {
        "a child": Script("child = context.Process(target=tool); child.start(); child.join(); tool()", 2),
        "a child that is not joined": Script("context.Process(target=late).start(); tool()", 2),
        "a pool in a with block": Script("with context.Pool(2) as pool: pool.map(tool, range(6))", 6),
        "a pool that is closed": Script("pool = context.Pool(2); pool.map(tool, range(6)); pool.close(); pool.join()", 6),
        "a pool of an executor": Script(
            "with ProcessPoolExecutor(2, mp_context=context) as pool: list(pool.map(tool, range(6)))", 6
        ),
    }  # fmt: skip
    begin = f"context = multiprocessing.get_context({method!r})\n"
    options = ", exit_timeout=60"  # up to twelve processes import and connect at the same time
    return {name: Script(begin + script.code, script.calls, options=options) for name, script in found.items()}


SCRIPTS = {
    "calls": {
        "a few": Script("for number in range(5): tool(number)", 5),
        "many": Script("for number in range(20_000): tool(number)", 20_000),
        "some that are sent before the end": Script("tool(); time.sleep(1); tool()", 2),
        "with a spool": Script("tool()", 1, options=", spool_dir=sys.argv[4]"),
        "of two clients": Script("tool(); Switchgear(sys.argv[1], topic_prefix=sys.argv[2], service=sys.argv[3]).call('t', int)", 2),
        "in development mode": Script("tool(); time.sleep(1); tool()", 2, flags=("-X", "dev")),
        "with warnings as errors": Script("tool()", 1, flags=("-W", "error")),
        "without threads at the end": Script("tool(); tool()", 2, before=NO_THREAD_ANY_MORE),
    },
    "endings": {
        "an exception": Script("tool(); raise ValueError('mine')", 1, 1, "ValueError: mine"),
        "sys.exit": Script("tool(); sys.exit(3)", 1, 3),
        "sys.exit with a text": Script("tool(); sys.exit('mine')", 1, 1, "mine"),
        "Ctrl-C": Script(
            "tool(); signal.raise_signal(signal.SIGINT)", 1, -signal.SIGINT, "KeyboardInterrupt",
            before="import aiokafka",  # an import at the end makes CPython forget the signal, and exit with 1
        ),
        "a SIGTERM that is handled": Script(
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); tool(); signal.raise_signal(signal.SIGTERM)", 1, 143
        ),
        "a first call in an atexit handler": Script("atexit.register(tool)", 1),
        "an atexit handler from before the client": Script(
            "tool()", 2, before="import atexit, switchgear\natexit.register(lambda: tool())"
        ),
    },
    "threads": {
        "a pool that still runs": Script("pool = ThreadPoolExecutor(4)\nfor _ in range(8): pool.submit(late)", 8),
        "a pool that has just begun": Script("pool = ThreadPoolExecutor(4)\nfor _ in range(8): pool.submit(tool)", 8),
        "one that still runs": Script("tool(); threading.Thread(target=late).start()", 2),
        "one that exits": Script("threading.Thread(target=lambda: (tool(), sys.exit(3))).start(); tool()", 2),
        "asyncio": Script("import asyncio\nasync def main(): await gear.guard('t')(asyncio.sleep)(0)\nasyncio.run(main())", 1),
    },
    "os.fork": {
        "three children": Script(FORK_ALL.format(children=3) + "tool()", 4),
        "twenty, while the parent sends": Script(
            "tool()" + FORK_ALL.format(children=20), 21, flags=("-W", "ignore::DeprecationWarning")
        ),  # Python's own warning, whenever a process with threads forks
        "one that closes before os._exit": Script(
            "child = os.fork()\nif child == 0:\n    tool(); gear.close(); os._exit(0)\nos.waitpid(child, 0); tool()", 2
        ),
    },
    "SIGTERM of a daemonic child": {
        "that sleeps": daemonic_child("ready.set(); time.sleep({limit_s})"),
        "whose main thread holds a lock of the emitter": daemonic_child(HOLD_A_LOCK),
        "whose main thread does not notice the signal": daemonic_child(MISS_THE_SIGNAL, ends=""),
    },
    **{f"multiprocessing, {method}": multiprocessing_of(method) for method in METHODS},
}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """A program that has ended, and the service of its calls."""

    service: str
    exit_code: int
    stderr: str


def by_name(settings: Settings) -> str:
    """The broker's address with a host name."""
    return settings.kafka_bootstrap_servers.replace("127.0.0.1", "localhost")


def run_all(commands: Sequence[Sequence[str]]) -> list[Ended]:
    """Run each to its end, several at once. ``SERVICE`` in a command is the service of its own."""

    def run_one(command: Sequence[str]) -> Ended:
        service = uuid.uuid4().hex
        done = subprocess.run(
            [sys.executable, *(word.replace("SERVICE", service) for word in command)],
            capture_output=True, text=True, env=environment(), timeout=LIMIT_S, check=False,
        )  # fmt: skip
        return Ended(service, done.returncode, done.stderr)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(run_one, commands))


def calls_by_service(settings: Settings) -> Counter[str]:
    """The calls in the topic. An event of refusals stands for as many as it says."""
    found: Counter[str] = Counter()
    for record in asyncio.run(read_topic(settings.kafka_bootstrap_servers, settings.topics.executions)):
        event = json.loads(record.value)
        found[event["service"]] += event["metadata"]["refused"] if event["status"] == "rejected" else 1
    return found


def last_line(text: str) -> str:
    """Without its line break; of nothing, nothing."""
    return text.strip().rpartition("\n")[2]


@contextmanager
def busy_machine() -> Iterator[None]:
    """Run two processes that compute all the time."""
    with ExitStack() as running:
        for _ in range(2):
            process = running.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            running.callback(process.kill)
        yield


@pytest.mark.parametrize(
    "waits", some([", start_wait_s=5", ""], 1), ids=["that waits at its start", "that doesn't wait"]
)
@pytest.mark.parametrize(
    ("busy", "times"),
    [
        pytest.param(False, 3, id="on a quiet machine"),
        pytest.param(True, 8, id="on a busy machine, often", marks=pytest.mark.deep),
    ],
)
def test_every_call_of_the_readme_arrives(settings: Settings, *, busy: bool, times: int, waits: str) -> None:
    given = f'Switchgear("{by_name(settings)}", service="SERVICE", topic_prefix="{settings.topic_prefix}"{waits})'
    code = README.replace('Switchgear.from_env(service="planner", start_wait_s=5)', given)
    assert code != README
    with busy_machine() if busy else nullcontext():
        ended = run_all([["-c", code]] * times)
    calls = calls_by_service(settings)
    assert [(one.exit_code, one.stderr, calls[one.service]) for one in ended] == [(0, "", README_CALLS)] * times


@pytest.mark.parametrize("group", some(SCRIPTS, 1))
def test_every_call_of_a_script_arrives(settings: Settings, tmp_path: Path, group: str) -> None:
    scripts = SCRIPTS[group]
    commands = []
    for number, script in enumerate(scripts.values()):
        file = tmp_path / f"script{number}.py"
        code = textwrap.indent(script.code, "    ")
        file.write_text(PROGRAM.format(before=script.before, options=script.options, code=code))
        spool = str(tmp_path / f"spool{number}")
        commands.append([*script.flags, str(file), by_name(settings), settings.topic_prefix, "SERVICE", spool])
    ended = run_all(commands)
    calls = calls_by_service(settings)
    found = [(calls[one.service], one.exit_code, last_line(one.stderr)) for one in ended]
    assert dict(zip(scripts, found, strict=True)) == {
        name: (script.calls, script.exit_code, script.last_line) for name, script in scripts.items()
    }, "\n".join(f"{name}:\n{one.stderr}" for name, one in zip(scripts, ended, strict=True))
    for script, one in zip(scripts.values(), ended, strict=True):
        assert bool(one.stderr) == bool(script.last_line)
        assert not re.search("kafka|switchgear", one.stderr, re.IGNORECASE), "what is printed is the program's own"


@pytest.mark.deep
def test_every_call_of_a_pytest_run_arrives(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "test_of_a_user.py"
    given = f'"{by_name(settings)}", topic_prefix="{settings.topic_prefix}", service="of a user"'
    file.write_text(f"""
from switchgear import Switchgear
gear = Switchgear({given})
def test_tool():
    assert gear.call("t", int) == 0
""")
    (ended,) = run_all(
        [["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "--rootdir", str(tmp_path), str(file)]]
    )
    assert (ended.exit_code, ended.stderr, calls_by_service(settings)["of a user"]) == (0, "", 1)


TIMED = """
import atexit, sys, time
ended = 0.0
atexit.register(lambda: print("took", time.monotonic() - ended, flush=True))  # the first is the last to be called
from switchgear import Switchgear
gear = Switchgear(sys.argv[1], exit_timeout=60)
for _ in range(7):
    gear.call("t", int)
ended = time.monotonic()
print("ends", flush=True)
"""
LOST = "closed with 7 events that Kafka did not acknowledge ({}); they are probably lost"


def took_s(output: str) -> float:
    """Seconds from the last line of :data:`TIMED` to the end."""
    return float(output.partition("took ")[2].split()[0])


def test_a_script_without_a_broker_ends_long_before_the_exit_timeout_and_says_what_is_lost(tmp_path: Path) -> None:
    address = f"localhost:{any_free_port()}"
    with python(TIMED, address, log=tmp_path / "script.log", forked=False) as script:
        assert script.wait_for_exit(LIMIT_S) == 0
    assert script.output().count(LOST.format(address)) == 1
    assert "Traceback" not in script.output()
    assert took_s(script.output()) < 30


def test_ctrl_c_ends_the_wait_for_a_broker_that_hangs(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hangs:  # it takes connections, and never answers
        address = f"localhost:{hangs.getsockname()[1]}"
        with python(TIMED, address, log=tmp_path / "script.log", forked=False) as script:
            script.wait_for_output("ends")
            time.sleep(1)
            assert script.interrupt(LIMIT_S) == 0
    assert script.output().count(LOST.format(address)) == 1
    assert "Traceback" not in script.output()
    assert took_s(script.output()) < 30
