"""The fleet's circuits, from the HTTP API, kept in the state file for a few seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from switchgear_cli.hook.settings import setting

if TYPE_CHECKING:
    from switchgear_cli.hook.state import State
    from switchgear_schemas.claude_code import HookCall

KEPT_S: Final = 5.0
"""How long the answer of the API is used."""
RETRY_S: Final = 15.0
"""The same for no answer."""
LIMIT_S: Final = 0.5
"""Longest wait for the API."""
OLDEST_S: Final = 60.0
"""Circuits that are older are forgotten while the API can't be reached."""
_MOST_BYTES: Final = 4 * 1_048_576
_CHUNK: Final = 65_536


def refresh(state: State, now: float) -> None:
    """Read the circuits again if an API is configured and it is time. If it can't be reached, the last ones hold for a minute."""
    url = setting("api_url")
    if not url or not state.is_due("fleet", now):
        return
    state.set_due("fleet", now + RETRY_S)  # other processes must not wait for the API meanwhile
    try:
        records = _records(_read(f"{url.rstrip('/')}/v1/circuits", setting("token").strip()))
    except (OSError, ValueError):  # http.client's errors are of http.client, which is imported late: see _read
        if state.is_due("fleet_too_old", now):
            state.replace_fleet({}, now)
        return
    state.replace_fleet(records, now)
    state.set_due("fleet", now + KEPT_S)
    state.set_due("fleet_too_old", now + OLDEST_S)


def target_of(state: State, call: HookCall) -> str:
    """Return what a call is about by the ``target`` of the tool's policy, which its record has. Empty without one."""
    own = call.circuit_ids[0]
    record = state.fleet((own,)).get(own)
    rule = None if record is None else json.loads(record).get("target")
    if not isinstance(rule, str) or not rule or not isinstance(call.arguments, Mapping):
        return ""
    from switchgear.guard.targets import target_of  # noqa: PLC0415 - few tools have one

    return target_of(rule, call.arguments)


def _records(answer: Any) -> dict[str, str]:
    """Return the records of circuits of tools, targets and families that are not plainly closed, or keep targets apart."""
    circuits = answer.get("circuits") if isinstance(answer, dict) else None
    if not isinstance(circuits, dict):
        raise ValueError("not an answer of the API or a gateway")  # noqa: TRY004 - of bytes that came over the wire
    return {
        name: json.dumps(one)
        for name, one in circuits.items()
        if isinstance(one, dict)
        and one.get("scope", "tool") in {"tool", "target", "family"}
        and (
            one.get("state") != "closed"
            or one.get("mode", "enforce") != "enforce"
            or (one.get("target") and one.get("scope", "tool") == "tool")
        )
    }


def _read(url: str, token: str) -> Any:
    """Return the JSON at an address. An empty ``token`` is not sent.

    Raises:
        OSError: It can't be reached in time.
        ValueError: It isn't JSON, or the address isn't an URL.
    """
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # noqa: PLC0415 - most events need no HTTP

    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("not an address")
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=LIMIT_S)
    until = time.monotonic() + LIMIT_S
    body = b""
    try:
        login = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", parts.path, headers={"Accept": "application/json", **login})
        response = connection.getresponse()
        while chunk := response.read1(_CHUNK):
            body += chunk
            if len(body) > _MOST_BYTES or time.monotonic() > until:
                raise TimeoutError("too much, or too slow")
    except HTTPException as error:
        raise OSError(str(error)) from None
    finally:
        connection.close()
    if response.status != 200:
        raise OSError(f"status {response.status}")
    return json.loads(body)
