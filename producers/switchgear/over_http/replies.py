"""What the answer to ``POST /v1/executions`` says about each event of the request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from switchgear.classify.waits import from_headers as retry_after_s
from switchgear.over_http.gateway import Gateway

DENIED_RETRY_S: Final = 60.0
"""Wait after a refused token. The operator has to act, and may do so without a restart of this process."""
_REFUSED: Final = frozenset({400, 415, 422})


@dataclass(slots=True)
class GatewayReply:
    """The answer. Events that it doesn't mention were acknowledged."""

    rejected: dict[int, str] = field(default_factory=dict)
    """By place in the request, why an event is refused for good."""
    again: list[int] = field(default_factory=list)
    """Places of events to send again, in order."""
    resent: bool = False
    """Kafka may have those already."""
    problem: str | None = None
    """Why not every event has an answer."""
    down: bool = False
    """The gateway, or Kafka behind it, can't be used now."""
    denied: bool = False
    """The token was refused."""
    wait_s: float | None = None
    """How long to wait, if that was said."""
    split: bool = False
    """Send fewer at once."""
    warnings: list[str] = field(default_factory=list)
    """What the gateway says about this process, such as that its clock is wrong. It says so once."""


class _Rejected(msgspec.Struct):
    index: int
    reason: str = ""


class _TakenBody(msgspec.Struct):
    accepted: int
    rejected: list[_Rejected] = []
    unknown: list[int] = []
    warnings: list[str] = []


_decode: Final = msgspec.json.Decoder(_TakenBody).decode


def read_reply(gateway: Gateway, status: int, headers: Mapping[str, str], body: bytes, count: int) -> GatewayReply:
    """Return what an answer says about the ``count`` events of a request."""
    taken = _taken(body) if status in {200, 503} else None
    if taken is not None:
        reply = _by_event(gateway, status, headers, body, taken, count)
        reply.warnings = taken.warnings
        return reply
    problem = gateway.problem(status, body)
    if status in _REFUSED or (status == 413 and count == 1):
        return GatewayReply(rejected=dict.fromkeys(range(count), problem))
    if status == 413:
        return GatewayReply(again=[*range(count)], problem=problem, split=True, wait_s=0.0)
    wait_s = retry_after_s(headers)
    if status == 429:
        return GatewayReply(again=[*range(count)], problem=problem, wait_s=wait_s)
    if status in {401, 403}:
        return GatewayReply(again=[*range(count)], problem=problem, down=True, denied=True, wait_s=DENIED_RETRY_S)
    if status == 200:
        problem = f"the answer of {gateway.url} is not that of a gateway"
    return GatewayReply(
        again=[*range(count)], resent=status == 408 or status >= 500, problem=problem, down=True, wait_s=wait_s
    )


def not_reached(problem: str, count: int, *, sent: bool) -> GatewayReply:
    """Return the reply to a request that got no answer. ``sent``: the gateway may have it."""
    return GatewayReply(again=[*range(count)], resent=sent, problem=problem, down=True)


def _by_event(
    gateway: Gateway, status: int, headers: Mapping[str, str], body: bytes, taken: _TakenBody, count: int
) -> GatewayReply:
    rejected = {each.index: each.reason for each in taken.rejected if 0 <= each.index < count}
    unknown = {index for index in taken.unknown if 0 <= index < count}
    if taken.accepted + len(rejected) + len(unknown) < count:
        # The answer names the first hundred that are rejected. Sent again, the rest gets an answer that names the next.
        unknown |= _after(rejected, unknown, count)
    again = sorted(unknown)
    if status == 200 and (rejected or not again):
        return GatewayReply(rejected, again, resent=bool(again))
    problem = gateway.problem(status, body)
    return GatewayReply(rejected, again, resent=True, problem=problem, down=True, wait_s=retry_after_s(headers))


def _after(rejected: Iterable[int], unknown: set[int], count: int) -> set[int]:
    return set(range(max(rejected, default=-1) + 1, count)) - unknown


def _taken(body: bytes) -> _TakenBody | None:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
