"""Permission to carry out one command, once: what a client sends back when its user has agreed."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from switchgear.runtime.bounded_dict import BoundedDict

LASTS_S: Final = 120.0
MOST: Final = 1024
"""Permissions that wait for an answer. The oldest makes room for one more."""

Way = Literal["user", "model"]
"""Who sends it back. ``user``: the client, after its user's answer; a model never sees it. ``model``: a client that can't ask its user."""


class Confirmations:
    """Issues permissions and takes them back. Each is for one caller, one command and one way, and can be used once.

    Args:
        clock: For tests.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting = BoundedDict[str, tuple[float, bytes]](MOST)

    def issue(self, way: Way, caller: str, command: Mapping[str, Any]) -> str:
        """Return a permission.

        Args:
            way: Who will send it back.
            caller: What tells the caller from others.
            command: What it permits.
        """
        token = f"{way}-{secrets.token_urlsafe(18)}"
        self._waiting[token] = self._clock() + LASTS_S, _digest(way, caller, command)
        return token

    def redeem(self, token: str, way: Way, caller: str, command: Mapping[str, Any]) -> bool:
        """Return whether the permission is for this caller and command. It is used up then, and by every other attempt."""
        until, permitted = self._waiting.pop(token, (0.0, b""))
        return self._clock() < until and hmac.compare_digest(permitted, _digest(way, caller, command))


def _digest(way: Way, caller: str, command: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(json.dumps([way, caller, command], sort_keys=True).encode()).digest()
