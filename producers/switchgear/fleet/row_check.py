"""Whether a row of the changelog is one that an owner wrote: whoever may write to the topic may put anything there."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Final

from switchgear.breaker import snapshot
from switchgear.breaker.snapshot import check as check_snapshot
from switchgear.fleet.policy_overrides import PolicyOverrides, is_circuit
from switchgear.fleet.rows import HEAD, Row, RowError
from switchgear_schemas import SwitchgearError
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.partitioner import owner_partition

MOST: Final = 2**62
"""Of a count, an offset or a version: it can rise for centuries and stays within 64 bits."""
LATEST_S: Final = 253_000_000_000.0
"""Seconds since 1970, in the year 9987: later instants have no date."""
MAX_ID: Final = 4_096
"""Characters of a circuit's id; new ones have 530 at most, older versions took longer names of users."""
_COUNTS: Final = (
    "applied",
    "total_calls",
    "total_failed",
    "total_ignored",
    "late",
    "total_rejected",
    "rejected",
    "version",
)


def check_row(key: bytes, data: bytes, partition: int, partitions: int) -> None:
    """Let a row pass that the owner of ``partition`` may have written under ``key``.

    Raises:
        RowError: it is damaged, of another version, under a key that is not its own, or no circuit can be like that.
    """
    try:
        wrong = next(_wrong(key, data, partition, partitions), None)
    except RowError:
        raise
    except SwitchgearError as error:
        raise RowError(error.message, hint=error.hint) from None
    except Exception as error:  # noqa: BLE001 - whatever bytes can make a decoder raise
        raise RowError(f"A row of the changelog is damaged: {error!r}.") from None
    if wrong is not None:
        raise RowError(f"A row of the changelog is damaged: {wrong}.")


def _wrong(key: bytes, data: bytes, partition: int, partitions: int) -> Iterator[str]:
    if not is_circuit(key):
        yield from _wrong_standing(key, PolicyOverrides.decode(data), partition)
        return
    row = Row.decode(data)
    if row.key != key:
        yield "it is another circuit's than its key says"
    if owner_partition(row.tool_name, partitions) != partition:
        yield "its tool belongs to another partition"
    if int.from_bytes(data[1:HEAD], "big") != row.applied:
        yield "its head says another number of messages applied"
    yield from _wrong_name(row)
    yield from _wrong_numbers(row)
    if row.policy is not None and not _is_layer(row.policy):
        yield "what operators set of the policy is no JSON object"
    if row.breaker:
        yield from _wrong_breaker(row)


def _wrong_name(row: Row) -> Iterator[str]:
    if not 0 < len(row.tool_name) <= MAX_NAME_LENGTH or len(row.circuit_id) > MAX_ID:
        yield "the name is too long"
    if row.scope == "tool" and row.circuit_id != row.tool_name:
        yield "a tool's circuit has another name"
    if row.scope != "tool" and not row.circuit_id.startswith(f"{row.tool_name}|{row.scope}="):
        yield f"a circuit of scope {row.scope} has another name"


def _wrong_numbers(row: Row) -> Iterator[str]:
    yield from (f"{name} is {getattr(row, name)}" for name in _COUNTS if not 0 <= getattr(row, name) < MOST)
    yield from _wrong_fences(row.fences)
    yield from _wrong_fences(row.command_fences)
    for moment in (row.clock, row.standing_until):
        if moment is not None and not _is_instant(moment):
            yield f"it holds the instant {moment}"


def _wrong_fences(fences: Mapping[int, int]) -> Iterator[str]:
    for partition, offset in fences.items():
        if not 0 <= partition < MOST or not -1 <= offset < MOST:
            yield f"it holds offset {offset} of partition {partition}"


def _wrong_breaker(row: Row) -> Iterator[str]:
    saved = snapshot.decode(row.breaker)
    check_snapshot(saved)
    if saved.circuit_id != row.circuit_id:
        yield "the breaker in it is another circuit's"
    for name in ("changed_at", "clock", "open_until", "retry_at"):
        moment = getattr(saved, name)
        if moment is not None and not _is_instant(moment):
            yield f"{name} is {moment}"
    if max(saved.generation, saved.attempt, saved.rejected, saved.total_calls) >= MOST:
        yield "a count is too large"
    if not -MOST < saved.evidence.stamp < MOST:
        yield f"the window's last pane is {saved.evidence.stamp}"


def _wrong_standing(key: bytes, standing: PolicyOverrides, partition: int) -> Iterator[str]:
    if key != standing.key or standing.partition != partition:
        yield "the policies by glob are another partition's"
    if not 0 <= standing.applied < MOST:
        yield f"applied is {standing.applied}"
    yield from _wrong_fences(standing.fences)
    if not all(map(_is_layer, standing.tables.values())):
        yield "a policy by glob is no JSON object"


def _is_layer(values: bytes) -> bool:
    """Values set of a policy, as :func:`switchgear.fleet.policy_overrides.merged` writes them."""
    return isinstance(json.loads(values), dict)


def _is_instant(moment: float) -> bool:
    return math.isfinite(moment) and 0 <= moment < LATEST_S
