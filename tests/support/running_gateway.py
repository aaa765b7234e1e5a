"""A running `switchgear gateway` for a test, and clients of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from switchgear_schemas.ids import mint_metric_id
from switchgear_schemas.settings import Settings
from tests.support.limits import ANSWER_S, HAPPEN_S
from tests.support.processes import Child, switchgear

NDJSON = {"Content-Type": "application/x-ndjson"}


@dataclass(frozen=True)
class RunningGateway:
    """A gateway that is ready."""

    child: Child
    url: str

    def client(self, token: str | None = None, **options: Any) -> httpx.AsyncClient:
        """Return a client with a token."""
        login = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.AsyncClient(base_url=self.url, headers=login, timeout=HAPPEN_S, trust_env=False, **options)

    def ready(self) -> bool:
        """Return whether it says that it is ready."""
        return httpx.get(f"{self.url}/readyz", trust_env=False, timeout=ANSWER_S).status_code == 200


@contextmanager
def running_gateway(
    settings: Settings, log: Path, *flags: str, extra: Mapping[str, str] | None = None
) -> Iterator[RunningGateway]:
    """Start a gateway on a free port, and wait until it is ready."""
    with switchgear("gateway", *flags, log=log, settings=settings, extra=extra) as child:
        child.wait_for_output(" ready")
        found = re.search(r"(https?://[\d.]+:\d+)", child.output().split(" ready", 1)[1])
        assert found is not None, child.output()
        gateway = RunningGateway(child, found[1])
        child.wait_until(gateway.ready)
        yield gateway


def execution(**fields: Any) -> dict[str, Any]:
    """Return an execution with an id of its own."""
    return {"tool_name": "search", "status": "success", "metric_id": mint_metric_id()} | fields


def lines(*executions: Mapping[str, Any]) -> str:
    """Return executions as NDJSON."""
    return "\n".join(json.dumps(each) for each in executions)
