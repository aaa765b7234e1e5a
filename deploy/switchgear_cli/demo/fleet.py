"""Start and end the demo's agent processes together."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Final

from switchgear_cli.local.die_with_parent import die_with_parent
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.settings import PREFIX, Settings

# At least two processes: the fleet's policy needs reports from two to open a circuit.
SERVICES: Final = ("demo-planner", "demo-researcher", "demo-support")
_POLL_S: Final = 0.2
_STOP_S: Final = 6.0


async def run_fleet(settings: Settings, *, seconds: float | None = None) -> None:
    """Run the agents until SIGINT or SIGTERM, or for ``seconds``. Call it in the main thread.

    Raises:
        SwitchgearError: An agent ended by itself.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    environment = os.environ | {
        f"{PREFIX}KAFKA_BOOTSTRAP_SERVERS": settings.kafka_bootstrap_servers,
        f"{PREFIX}TOPIC_PREFIX": settings.topic_prefix,
        f"{PREFIX}FAMILY_PATTERN": settings.family_pattern,
    }
    began = str(time.time())
    agents = {service: _start(service, began, environment) for service in SERVICES}
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        while not stop.is_set() and (deadline is None or time.monotonic() < deadline):
            for service, agent in agents.items():
                if agent.poll() is not None:
                    raise SwitchgearError(f"The demo's process {service} ended with code {agent.returncode}.")
            await asyncio.sleep(_POLL_S)
    finally:
        _end(list(agents.values()))


def _start(service: str, began: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        die_with_parent([sys.executable, "-m", "switchgear_cli.demo.agent", service, began]),
        stdin=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def _end(agents: list[subprocess.Popen[bytes]]) -> None:
    for agent in agents:
        agent.terminate()
    deadline = time.monotonic() + _STOP_S
    for agent in agents:
        try:
            agent.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
