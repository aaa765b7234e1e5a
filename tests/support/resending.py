"""A client of gateways on plain HTTP that follows their contract: it sends each execution until a gateway acknowledges or rejects it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from tests.support.running_gateway import NDJSON, lines

RESENT = {"Switchgear-Resent": "true"}
PAUSE_S = 0.05


class ResendingClient:
    """Sends batches to any of several gateways. After a failure it goes to another one.

    Args:
        urls: The gateways.
        token: The bearer token.
        chance: Chooses a gateway.
        timeout_s: How long it waits for an answer.
        acknowledged: Called with the positions that a gateway has acknowledged, whenever there are some.
        rejected: Called with a position and the reason.

    Attributes:
        resent: How many executions it sent again.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str | None = None,
        chance: random.Random,
        timeout_s: float = 10.0,
        acknowledged: Callable[[Sequence[Mapping[str, Any]]], None],
        rejected: Callable[[Mapping[str, Any], str], None],
    ) -> None:
        login = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._urls = list(urls)
        self._chance = chance
        self._http = httpx.AsyncClient(timeout=timeout_s, headers=login, trust_env=False)
        self._acknowledged = acknowledged
        self._rejected = rejected
        self.resent = 0

    async def send(self, batch: Sequence[Mapping[str, Any]]) -> None:
        """Send a batch until each of its executions has its answer."""
        left, again = list(batch), False
        url = self._chance.choice(self._urls)
        while left:
            self.resent += len(left) if again else 0
            try:
                answer = await self._http.post(
                    f"{url}/v1/executions", content=lines(*left), headers=NDJSON | (RESENT if again else {})
                )
            except httpx.ConnectError:
                pass  # nothing was sent
            except httpx.HTTPError:
                again = True
            else:
                waiting = self._answered(left, answer)
                again = again or (bool(waiting) and "unknown" in answer.json())
                left = waiting
            if left:
                url = self._chance.choice([each for each in self._urls if each != url] or self._urls)
                await asyncio.sleep(PAUSE_S)

    def _answered(self, sent: list[Mapping[str, Any]], answer: httpx.Response) -> list[Mapping[str, Any]]:
        """Report what is settled. Return what has to be sent again."""
        if answer.status_code == 429 or (answer.status_code == 503 and "unknown" not in answer.json()):
            return sent  # nothing was taken
        assert answer.status_code in {200, 503}, f"{answer.status_code}: {answer.text}"
        content = answer.json()
        rejected = {each["index"]: each["reason"] for each in content["rejected"]}
        unknown = set(content.get("unknown", ()))
        for index, reason in rejected.items():
            self._rejected(sent[index], reason)
        self._acknowledged([each for index, each in enumerate(sent) if index not in rejected.keys() | unknown])
        return [sent[index] for index in sorted(unknown)]

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()
