"""Making a dead letter an execution again."""

from __future__ import annotations

from datetime import UTC
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec

from switchgear_schemas import wire
from switchgear_schemas.errors import InvalidExecutionError, SwitchgearError
from switchgear_sinks.dead.letters import StoredLetter

_NAMESPACE: Final = UUID("6f2a4a0e-6d0c-5e7b-9a52-5f1c8f4d2b11")
_MAX_LINE: Final = 8 * 1024 * 1024


def prepared(letter: StoredLetter, value: bytes) -> tuple[str, bytes]:
    """The tool and the message to send for ``letter``, ``value`` being its own bytes or the repaired ones.

    What the message leaves out and Kafka would have supplied is written into it: ``metric_id`` from the letter's key, so
    that a letter that is sent twice is one event, and ``recorded_at`` from the time it first came, so that it counts in
    the minute it belongs to. Everything else is sent as it is.

    Raises:
        InvalidExecutionError: it is no execution (yet): the field and the reason.
    """
    event = wire.decode_execution(value)
    missing: dict[str, Any] = {}
    if event.metric_id is None:
        missing["metric_id"] = str(uuid5(_NAMESPACE, letter.key))
    if event.recorded_at is None:
        missing["recorded_at"] = letter.at.astimezone(UTC).isoformat()
    if missing:
        fields = msgspec.json.decode(value.decode(errors="replace"))
        value = msgspec.json.encode(fields | missing)
        event = wire.decode_execution(value)
    return event.tool_name, value


def read_repairs(lines: list[str], name: str) -> dict[str, bytes]:
    """Repaired messages by the letter's key, from lines ``{"key": …, "value": …}``.

    ``value`` is the event itself, or the event as text: what ``switchgear dead list --jsonl`` writes, edited.

    Raises:
        SwitchgearError: a line is not of that form, or a key comes twice; the line's number is in the message.
    """
    found: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        if len(line) > _MAX_LINE:
            raise SwitchgearError(f"{where} is longer than {_MAX_LINE} characters.")
        try:
            given = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SwitchgearError(f"{where} is not JSON: {error}.") from None
        if not isinstance(given, dict) or not isinstance(given.get("key"), str) or given.get("value") is None:
            raise SwitchgearError(
                f'{where} must be an object with "key" and "value".',
                hint="Write the lines with `switchgear dead list --jsonl` and repair the value.",
            )
        if given["key"] in found:
            raise SwitchgearError(f"{where}: the key {given['key']} came before.")
        value = given["value"]
        found[given["key"]] = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    return found


def why_not(letter: StoredLetter, executions: str, repaired: bytes | None = None) -> InvalidExecutionError | None:
    """Why ``letter`` cannot go to the topic ``executions``, with the bytes ``repaired`` or else its own; None where it can."""
    if letter.letter.topic != executions:
        return InvalidExecutionError("", f"it came from {letter.letter.topic}, and only executions can be sent again")
    if letter.letter.truncated and (repaired is None or repaired == letter.letter.body):
        found = letter.letter
        return InvalidExecutionError(
            "",
            f"the letter has only the first {len(found.body):,} of {found.value_bytes:,} bytes; the original is at offset "
            f"{found.offset} of partition {found.partition} of {found.topic} while that topic keeps it. Give a whole message with --file",
        )
    return None
