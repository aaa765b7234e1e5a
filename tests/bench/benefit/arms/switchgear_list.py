"""Switchgear with a list of tools that leaves out the refused ones: it changes when a circuit opens, and at each of its probes."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.benefit.arms.arm import Arm
from tests.bench.benefit.arms.switchgear import SwitchgearCaller, SwitchgearFleet


class FilteredList(SwitchgearCaller):
    """The model is offered the tools whose calls would not be refused now."""

    def offered(self, tools: Sequence[str]) -> Sequence[str]:
        return [tool for tool in tools if not self.gear.is_open(tool)]


ARM = Arm(
    "Switchgear + list",
    "the same without fallback; refused tools are left out of the model's list, which changes at each probe",
    8,
    lambda: SwitchgearFleet(FilteredList),
)
