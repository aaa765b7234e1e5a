"""One process of the demo's fleet: ``python -m switchgear_cli.demo.agent SERVICE BEGAN``."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from typing import Final

import structlog

from switchgear import CircuitOpenError, Switchgear
from switchgear_cli.demo.tools import DemoTool, call, choose
from switchgear_cli.logs import configure_client_logging
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.settings import Settings, load_settings

SESSIONS: Final = 5
CALLS_PER_SESSION: Final = (20, 60)
THINKING_S: Final = (0.15, 0.7)
DEMO_METADATA: Final = {"demo": True}
# A process's own breaker waits no longer than the demo fleet's, so that the viewer sees the fleet's circuit at work.
LOCAL_POLICY: Final = BreakerPolicy(consecutive_failures=5, wait_duration_in_open_state_s=4)
_CLOSE_S: Final = 4.0

log = structlog.get_logger()


class Agent:
    """Run several sessions at once. Each calls tools through one guard.

    Args:
        gear: The guard of this process.
        began: When the demo began, in seconds since 1970: every process sees a tool break at the same moment.
        chance: Where choices and durations come from.
    """

    def __init__(self, gear: Switchgear, began: float, chance: random.Random) -> None:
        self._gear = gear
        self._began = began
        self._chance = chance
        self.calls = 0
        self.refusals = 0

    async def session(self) -> None:
        """Run one session after the other until cancelled."""
        while True:
            session_id = f"demo-{self._chance.randrange(16**12):012x}"
            user_id = f"demo-user-{self._chance.randrange(8)}"
            for _ in range(self._chance.randint(*CALLS_PER_SESSION)):
                await self.call(choose(self._chance), session_id, user_id)
                await asyncio.sleep(self._chance.uniform(*THINKING_S))

    async def call(self, tool: DemoTool, session_id: str, user_id: str) -> None:
        """Call one tool. Refusals and failures are expected."""
        try:
            async with self._gear.permit(tool.name, user_id=user_id, session_id=session_id) as permit:
                self.calls += 1
                planned = call(tool, time.time() - self._began, self._chance)
                await asyncio.sleep(planned.duration_ms / 1000)
                tokens = max(1, int(self._chance.expovariate(1 / tool.output_tokens)))
                if planned.error is None:
                    permit.success(
                        output_size=4 * tokens, input_tokens=40, output_tokens=tokens, metadata=DEMO_METADATA
                    )
                else:
                    permit.failure(planned.error, input_tokens=40, metadata=DEMO_METADATA)
        except CircuitOpenError:
            self.refusals += 1


async def run_agent(settings: Settings, service: str, began: float) -> None:
    """Call tools until SIGTERM or SIGINT, then send what is left."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    gear = Switchgear(
        settings.kafka,
        service=service,
        topic_prefix=settings.topic_prefix,
        family_pattern=settings.family_pattern,
        local_policies=LOCAL_POLICY,
    )
    agent = Agent(gear, began, random.Random())  # noqa: S311 - traffic, not secrets
    try:
        async with asyncio.TaskGroup() as sessions:
            tasks = [sessions.create_task(agent.session()) for _ in range(SESSIONS)]
            await stop.wait()
            for task in tasks:
                task.cancel()
    finally:
        complete = await gear.aclose(_CLOSE_S)
        log.info("demo agent ended", calls=agent.calls, refusals=agent.refusals, everything_sent=complete)


if __name__ == "__main__":
    own_settings = load_settings()
    configure_client_logging(own_settings)
    asyncio.run(run_agent(own_settings, sys.argv[1], float(sys.argv[2])))
