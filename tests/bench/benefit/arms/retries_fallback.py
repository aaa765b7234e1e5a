"""The retries of a framework, and then the replica: a fallback without a breaker."""

from __future__ import annotations

from typing import Any

from tests.bench.benefit.arms.arm import Arm, Fleet, Make, ToolCaller
from tests.bench.benefit.arms.framework_retries import Retrying
from tests.bench.benefit.shared_tools import replica_of


class RetryingThenReplica(Retrying):
    """Calls the replica after the last retry has failed, as LangChain's ``with_fallbacks`` does."""

    async def call(self, tool: str, make: Make) -> Any:
        try:
            return await super().call(tool, make)
        except Exception:  # noqa: BLE001 - it falls back after any error
            return await self._inner.call(replica_of(tool), make)


class RetryingThenReplicaFleet(Fleet):
    def process(self, number: int) -> ToolCaller:
        return RetryingThenReplica()


ARM = Arm(
    "retries + fallback",
    "the same retries, and then the replica, as LangChain's with_fallbacks",
    2,
    RetryingThenReplicaFleet,
)
