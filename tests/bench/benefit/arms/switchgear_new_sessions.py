"""Switchgear with a list that is made at the beginning of each conversation."""

from tests.bench.benefit.arms.arm import Arm
from tests.bench.benefit.arms.told import with_list

ARM = Arm(
    "Switchgear + new_sessions",
    'the message, and tool_list="new_sessions": a task\'s list leaves out what is refused when the task begins',
    9,
    with_list("new_sessions"),
)
