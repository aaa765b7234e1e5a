"""No breaker and no retries: the model sees every error."""

from tests.bench.benefit.arms.arm import Arm, Fleet

ARM = Arm("nothing", "every call is made once, and the model sees the error", 0, Fleet)
