"""Switchgear with the list that never changes: the default of ``tool_list``."""

from tests.bench.benefit.arms.arm import Arm
from tests.bench.benefit.arms.told import with_list

ARM = Arm(
    "Switchgear + stable list",
    'the same without fallback, and a message in the conversation; tool_list="stable"',
    8,
    with_list("stable"),
)
