"""Whether the other processes of a system are ready: workers, gateways, sinks and alerts, by their ``/readyz``."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import httpx

from switchgear_schemas.files import check_file
from switchgear_schemas.settings import Settings

LIMIT_S: Final = 3.0
MAX_SERVERS: Final = 200
MAX_BYTES: Final = 65_536
"""An answer about readiness is short. Of another program's, no more is read."""
_MOST_CHARACTERS: Final = 200


async def ask_servers(settings: Settings) -> list[dict[str, Any]]:
    """Return ``{"server", "address", "ready", "why"}`` for each server of the setting ``console_servers``, in its order."""
    servers = settings.servers[:MAX_SERVERS]
    if not servers:
        return []
    file = settings.api_cafile
    if file is not None:
        check_file(file)
    trusted = _trusted(file, None if file is None else file.stat().st_mtime_ns)
    async with httpx.AsyncClient(timeout=LIMIT_S, trust_env=False, verify=trusted) as client:
        why = await asyncio.gather(*(_ask(client, url) for _, url in servers))
    return [
        {"server": name, "address": url, "ready": each is None, "why": each}
        for (name, url), each in zip(servers, why, strict=True)
    ]


@lru_cache(maxsize=1)
def _trusted(file: Path | None, _changed: int | None) -> ssl.SSLContext:
    """Return what to trust. To read the certificates takes 20 ms, so they are read again only when the file has changed."""
    return httpx.create_ssl_context(trust_env=False) if file is None else ssl.create_default_context(cafile=file)


async def _ask(client: httpx.AsyncClient, url: str) -> str | None:
    """Return why a server is not ready; None if it is."""
    try:
        async with asyncio.timeout(LIMIT_S), client.stream("GET", f"{url}/readyz") as response:
            answer = _read(await _beginning(response))
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        return f"It does not answer: {str(error) or type(error).__name__}."[:_MOST_CHARACTERS]
    if not isinstance(answer, Mapping) or "status" not in answer:
        return f"It answers {response.status_code}, but not as a part of Switchgear."
    return None if response.status_code == httpx.codes.OK else _why(answer)


async def _beginning(response: httpx.Response) -> bytes:
    read = b""
    async for part in response.aiter_bytes():
        read += part
        if len(read) > MAX_BYTES:
            break
    return read[: MAX_BYTES + 1]


def _read(body: bytes) -> Any:
    try:
        return json.loads(body) if len(body) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        return None


def _why(answer: Mapping[str, Any]) -> str:
    checks = answer.get("checks")
    failed = [str(name) for name, fine in checks.items() if not fine] if isinstance(checks, Mapping) else []
    return str(answer.get("reason") or answer.get("problem") or ", ".join(failed) or answer["status"])[
        :_MOST_CHARACTERS
    ]
