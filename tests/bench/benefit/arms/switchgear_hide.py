"""Switchgear with a list that a tool leaves after ten minutes."""

from tests.bench.benefit.arms.arm import Arm
from tests.bench.benefit.arms.told import with_list

ARM = Arm(
    "Switchgear + hide",
    'the message, and tool_list="hide": a tool leaves all lists when it was down for ten minutes, as few are here',
    10,
    with_list("hide"),
)
