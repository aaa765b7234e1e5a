"""Switchgear with pacing: the fleet learns the rate that a tool takes from its 429s, and each process keeps its share of it."""

from __future__ import annotations

from typing import Final

from switchgear_schemas.policy import FLEET_DEFAULT
from tests.bench.benefit.arms.arm import Arm
from tests.bench.benefit.arms.switchgear import SwitchgearFleet

POLICY: Final = FLEET_DEFAULT.model_copy(update={"pace": "enforce"})

ARM = Arm(
    "Switchgear + pacing",
    'Switchgear and pace="enforce" for all tools, the limit learned; a call waits for its turn for five seconds at most',
    12,
    lambda: SwitchgearFleet(policy=POLICY),
)
