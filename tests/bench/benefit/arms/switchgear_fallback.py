"""Switchgear with a fallback: a refused call goes to the replica, without a turn of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.benefit.arms.arm import Arm, Make
from tests.bench.benefit.arms.switchgear import SwitchgearCaller, SwitchgearFleet
from tests.bench.benefit.shared_tools import replica_of


class WithReplica(SwitchgearCaller):
    """Each tool names its replica, which is guarded too."""

    def guarded(self, tool: str, **options: Any) -> Callable[[Make], Any]:
        if tool not in self._guarded:
            super().guarded(replica_of(tool))
        return super().guarded(tool, fallback=replica_of(tool), **options)


ARM = Arm(
    "Switchgear + fallback",
    "the same, and a refused call goes to the replica",
    7,
    lambda: SwitchgearFleet(WithReplica),
)
