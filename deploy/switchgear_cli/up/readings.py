"""What the live view reads from the HTTP API: circuits by state, events stored, the last transitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import httpx

from switchgear_cli.reads.formats import named, plain
from switchgear_cli.up.status import Readings, TransitionLine
from switchgear_schemas.explain import explain

_TIMEOUT_S: Final = 5.0
_HISTORY: Final = 40


async def read(api_url: str, before: Readings, *, client: httpx.AsyncClient | None = None) -> Readings:
    """Ask the API once.

    Args:
        api_url: Its address.
        before: What it said last: kept, with the problem, where it cannot be asked now.
        client: For many reads: one that the caller keeps.
    """
    try:
        if client is not None:
            return await _read(client, api_url)
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as own:
            return await _read(own, api_url)
    except httpx.HTTPStatusError as error:
        return replace(before, problem=f"The API answered {error.response.status_code}: {error.response.text[:200]}")
    except httpx.HTTPError as error:
        return replace(before, problem=f"The API does not answer ({type(error).__name__}).")
    except (LookupError, TypeError, ValueError) as error:
        return replace(before, problem=f"The API's answer is not as expected ({error}).")


async def _read(client: httpx.AsyncClient, api_url: str) -> Readings:
    circuits = (await client.get(f"{api_url}/v1/circuits")).raise_for_status().json()["circuits"]
    history = (
        (await client.get(f"{api_url}/v1/circuits", params={"history": "1", "limit": str(_HISTORY)}))
        .raise_for_status()
        .json()["history"]
    )
    counted = (await client.get(f"{api_url}/v1/stored")).raise_for_status().json()
    return Readings(
        circuits=Counter(str(circuit["state"]) for circuit in circuits),
        stored=int(counted["events"]),
        transitions=tuple(transitions(history)),
    )


def transitions(history: Iterable[Mapping[str, Any]]) -> list[TransitionLine]:
    """The changes of state among circuit records, newest first; a record that only adds a lease is none."""
    return [
        TransitionLine(
            at=datetime.fromisoformat(record["changed_at"]),
            tool_name=named(record["tool_name"]),
            previous=record["previous_state"] or "",
            state=record["state"],
            why=plain(explain(record["cause"], record.get("counts"), state=record["state"])),
        )
        for record in history
        if record["state"] != record["previous_state"] and (record["previous_state"] or record["state"] != "closed")
    ]
