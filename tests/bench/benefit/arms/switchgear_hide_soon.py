"""The same with a shorter floor, because the outages here are shorter than the default one."""

from typing import Final

from tests.bench.benefit.arms.arm import Arm
from tests.bench.benefit.arms.told import with_list

AFTER_S: Final = 120.0

ARM = Arm(
    "Switchgear + hide after 2 min",
    f"the same with hide_after_s={AFTER_S:.0f}",
    11,
    with_list("hide", hide_after_s=AFTER_S),
)
