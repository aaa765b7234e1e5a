"""Switchgear with a list of tools that leaves out the refused ones: it changes when a circuit opens, and at each of its probes."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.benefit.arms.arm import Arm
from tests.bench.benefit.arms.switchgear import SwitchgearCaller, SwitchgearFleet


class FilteredList(SwitchgearCaller):
    """The model is offered what ``gear.available`` returns."""

    def offered(self, tools: Sequence[str]) -> Sequence[str]:
        return self.gear.available(tools)


ARM = Arm(
    "Switchgear + list",
    "the same without fallback; refused tools are left out of the model's list, which changes at each probe",
    8,
    lambda: SwitchgearFleet(FilteredList),
)
