"""``switchgear dead``: list rejected messages, repair them, send them again."""

from __future__ import annotations

import json as json_module
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import App, Parameter
from cyclopts.validators import Number

from switchgear_cli.discovery import client_settings
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.reads import output
from switchgear_cli.reads.formats import clock, count, moment, named, plain
from switchgear_cli.reads.responsive_table import Column, ResponsiveTable, name, time, words
from switchgear_cli.times import parse_instant
from switchgear_schemas.errors import SwitchgearError, WrongUsageError
from switchgear_schemas.files import read_file
from switchgear_schemas.settings import Settings
from switchgear_schemas.visible import escaped
from switchgear_sinks.dead import Retry, Selection, StoredLetter, hexdump, read_letters, read_repairs

dead = App(name="dead", help="List, show and send again what was rejected.")

_MAX_FILE: Final = 256 * 1024 * 1024
_MAX_RETRIES: Final = 10_000
_REASONS: Final = 10
"""Reasons that an error lists."""


@Parameter(name="*")
@dataclass(frozen=True)
class KafkaOptions:
    """Which Kafka.

    Attributes:
        bootstrap_servers: Kafka brokers, host:port, comma-separated.
        topic_prefix: Before every topic name.
    """

    bootstrap_servers: str | None = None
    topic_prefix: str | None = None

    def settings(self) -> Settings:
        """Return the settings and configure logging."""
        found = client_settings(kafka_bootstrap_servers=self.bootstrap_servers, topic_prefix=self.topic_prefix)
        configure_client_logging(found)
        return found


@Parameter(name="*")
@dataclass(frozen=True)
class LetterFilter:
    """Which letters.

    Attributes:
        reason: Only those whose reason contains this, in any case of letters.
        component: Only those that this one rejected: worker or sink.
        tool: Only this tool's.
        field: Only those whose reason is about this field.
        since: Only messages that came since then: 90s, 15m, 2h, 7d, or a date and time.
    """

    reason: str | None = None
    component: Literal["worker", "sink"] | None = None
    tool: str | None = None
    field: str | None = None
    since: str | None = None

    def selection(self) -> Selection:
        """Return the options as a filter, as of now."""
        return Selection(
            self.reason, self.component, self.tool, self.field, parse_instant("--since", self.since, datetime.now(UTC))
        )


@dead.command(name="list")
async def list_letters(
    *,
    which: LetterFilter | None = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1))] = 50,
    json: Annotated[bool, Parameter(negative=())] = False,
    jsonl: Annotated[bool, Parameter(negative=())] = False,
    where: KafkaOptions | None = None,
) -> None:
    """List the dead letters, newest first.

    Args:
        which: Which letters.
        limit: Letters at most.
        json: One JSON document instead of a table.
        jsonl: One JSON object per line with the message in it. Repair the values and pass the file to `dead retry --file`.
        where: Which Kafka.
    """
    settings = (where or KafkaOptions()).settings()
    found = await _meant(settings, which or LetterFilter())
    shown = found[: -limit - 1 : -1]
    if jsonl:
        for each in shown:
            print(json_module.dumps(each.in_full(), ensure_ascii=False))
    elif json:
        output.show_json({"total": len(found), "letters": [each.summary() for each in shown]})
    else:
        output.show(_table(shown) if shown else "No dead letters.")
        if len(found) > len(shown):
            print(f"… {count(len(shown))} of {count(len(found))}: --limit shows more.")


@dead.command
async def show(
    key: str,
    /,
    *,
    json: Annotated[bool, Parameter(negative=())] = False,
    where: KafkaOptions | None = None,
) -> None:
    """Show one dead letter: where it came from, why it was rejected, and its bytes.

    Args:
        key: topic-partition-offset, as `dead list` shows it.
        json: One JSON document.
        where: Which Kafka.
    """
    settings = (where or KafkaOptions()).settings()
    (found,) = _named(await read_letters(settings.kafka, settings.topics.dead, Selection()), [key])
    if json:
        output.show_json(found.in_full())
        return
    letter = found.letter
    for heading, value in (
        ("key", found.key),
        ("from", f"{letter.topic}, partition {letter.partition}, offset {letter.offset}"),
        ("at", f"{clock(found.at.isoformat())} UTC"),
        ("tool", found.tool or "-"),
        ("rejected by", letter.component),
        ("field", letter.field or "-"),
        ("reason", letter.reason),
    ):
        print(f"{heading:<12} {plain(value) if heading == 'reason' else named(value)}")
    print("headers")
    for header, raw in letter.headers():
        print(f"  {named(header)} = {named(raw.decode(errors='replace'))}")
    if letter.value is None:
        print("value        none (a tombstone)")
        return
    cut = f", of which the first {count(len(letter.value))} are kept" if letter.truncated else ""
    print(f"value        {count(found.original_bytes)} bytes{cut}")
    text = found.text
    print(hexdump(letter.body) if text is None else _readable(text))


@dead.command
async def retry(
    *keys: str,
    all_letters: Annotated[bool, Parameter(name="--all", negative=())] = False,
    which: LetterFilter | None = None,
    file: Path | None = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=_MAX_RETRIES))] = 1_000,
    where: KafkaOptions | None = None,
) -> int:
    """Send dead letters to the executions topic again, repaired or unchanged; those that are still bad stay.

    Each message is checked as the worker checks it. A letter leaves the list when the broker has acknowledged the message.
    A message that is sent twice by accident is stored once. The exit code is 0 when every letter was sent.

    Args:
        keys: topic-partition-offset, as `dead list` shows it.
        all_letters: Every letter that passes the filters.
        which: Which letters.
        file: Repaired messages, one {"key": …, "value": …} per line (`dead list --jsonl` writes them); without keys or
            --all, those in the file are sent.
        limit: Letters at most.
        where: Which Kafka.
    """
    chosen = which or LetterFilter()
    filtered = chosen != LetterFilter()
    if all_letters and keys:
        raise WrongUsageError("Give either keys or --all.")
    if filtered and not all_letters:
        raise WrongUsageError("Filters choose among --all.", hint="Add --all, or leave them out.")
    repairs = {} if file is None else _repairs(file)
    if not keys and not all_letters and file is None:
        raise WrongUsageError("Nothing to send.", hint="Name keys, or give --all or --file.")
    settings = (where or KafkaOptions()).settings()
    found = await _meant(settings, chosen)
    letters = found if all_letters else _named(found, list(keys) or list(repairs))
    sent, refused = 0, 0
    async with Retry(settings.kafka, settings.topics, settings.family_pattern) as again:
        async for outcome in again.send(letters[:limit], repairs):
            if outcome.error is None:
                sent += 1
            else:
                refused += 1
                print(f"{named(outcome.letter.key)}: still bad: {plain(outcome.error)}", file=sys.stderr)
    left = len(letters) - sent - refused
    print(
        f"{count(sent)} sent to {settings.topics.executions} at {settings.kafka_bootstrap_servers}, "
        f"{count(refused)} still bad" + (f", {count(left)} left (--limit)." if left else ".")
    )
    return 1 if refused or left else 0


async def _meant(settings: Settings, which: LetterFilter) -> list[StoredLetter]:
    """Return the letters that pass the filters, oldest first.

    Raises:
        WrongUsageError: no letter's reason contains the one that was asked for; it names those there are.
    """
    selection = which.selection()
    found = await read_letters(settings.kafka, settings.topics.dead, selection)
    if found or which.reason is None:
        return found
    every = await read_letters(settings.kafka, settings.topics.dead, Selection())
    if not every or any(Selection(reason=which.reason).matches(each) for each in every):
        return found
    reasons = Counter(each.letter.reason for each in every).most_common()
    listed = "; ".join(f"{plain(reason)} ({count(tally)})" for reason, tally in reasons[:_REASONS])
    more = f"; and {count(len(reasons) - _REASONS)} more" if len(reasons) > _REASONS else ""
    raise WrongUsageError(
        f"No dead letter has a reason with {which.reason!r} in it.",
        hint=f"There are: {listed}{more}. To choose by the field, give --field.",
    )


def _named(found: list[StoredLetter], keys: list[str]) -> list[StoredLetter]:
    known = {each.key: each for each in found}
    missing = [key for key in dict.fromkeys(keys) if key not in known]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise SwitchgearError(
            f"There is no dead letter {missing[0]}{more}.", hint="`switchgear dead list` shows the keys."
        )
    return [known[key] for key in dict.fromkeys(keys)]


def _repairs(file: Path) -> dict[str, bytes]:
    try:
        lines = read_file(file, _MAX_FILE).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SwitchgearError(
            f"{file} cannot be read: {reason}.", hint="Give a file of JSON lines, in pieces if it is large."
        ) from None
    return read_repairs(lines, str(file))


def _readable(text: str) -> str:
    """Return JSON indented, and anything else line by line with control characters escaped."""
    try:
        value: Any = json_module.loads(text)
    except (ValueError, RecursionError):
        return escaped(text).rstrip("\n") or "(empty)"
    return escaped(json_module.dumps(value, ensure_ascii=False, indent=2))


def _table(letters: list[StoredLetter]) -> ResponsiveTable:
    table = ResponsiveTable(name("key"), time("came"), name("tool"), Column("by"), Column("field"), words("reason"))
    for each in letters:
        letter = each.letter
        table.add(
            named(each.key), moment(each.at.isoformat()), named(each.tool or "-"), named(letter.component),
            named(letter.field or "-"), plain(letter.reason + _cut(each)),
        )  # fmt: skip
    return table


def _cut(each: StoredLetter) -> str:
    letter = each.letter
    kept = f"{count(len(letter.body))} of {count(each.original_bytes)} bytes kept"
    return f" (truncated: {kept})" if letter.truncated else ""
