"""Whether the other processes of a system are ready: workers, gateways, sinks and alerts, by their ``/readyz``."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

import httpx

from switchgear_schemas.settings import Settings

LIMIT_S: Final = 3.0
MAX_SERVERS: Final = 200


async def ask_servers(settings: Settings) -> list[dict[str, Any]]:
    """Return ``{"server", "ready", "why"}`` for each address of the setting ``console_servers``, in its order."""
    urls = settings.server_urls[:MAX_SERVERS]
    if not urls:
        return []
    trusted = True if settings.api_cafile is None else ssl.create_default_context(cafile=settings.api_cafile)
    async with httpx.AsyncClient(timeout=LIMIT_S, trust_env=False, verify=trusted) as client:
        return await asyncio.gather(*(_ask(client, url) for url in urls))


async def _ask(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    try:
        async with asyncio.timeout(LIMIT_S):
            response = await client.get(f"{url}/readyz")
        answer = response.json()
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        return {
            "server": url,
            "ready": False,
            "why": f"It does not answer: {str(error) or type(error).__name__}."[:200],
        }
    except ValueError:
        answer = None
    if not isinstance(answer, Mapping) or "status" not in answer:
        return {
            "server": url,
            "ready": False,
            "why": f"It answers {response.status_code}, but not as a part of Switchgear.",
        }
    ready = response.status_code == httpx.codes.OK
    return {"server": url, "ready": ready, "why": None if ready else _why(answer)}


def _why(answer: Mapping[str, Any]) -> str:
    checks = answer.get("checks")
    failed = [str(name) for name, fine in checks.items() if not fine] if isinstance(checks, Mapping) else []
    return str(answer.get("reason") or answer.get("problem") or ", ".join(failed) or answer["status"])[:200]
