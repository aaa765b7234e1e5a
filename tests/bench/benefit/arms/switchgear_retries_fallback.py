"""Switchgear under the retries and the fallback of a framework: what a breaker adds to the best that there is without one."""

from __future__ import annotations

from tests.bench.benefit.arms.arm import Arm
from tests.bench.benefit.arms.retries_fallback import RetryingThenReplica
from tests.bench.benefit.arms.switchgear import SwitchgearCaller, SwitchgearFleet

ARM = Arm(
    "Switchgear + retries + fallback",
    "the retries and the fallback of LangChain around guarded tools; a refusal is not retried",
    13,
    lambda: SwitchgearFleet(lambda gear: RetryingThenReplica(SwitchgearCaller(gear))),
)
