"""``switchgear replay``: show what a policy would have done with recorded calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from switchgear.policies import PolicySet
from switchgear_api.replay import replay as replay_history
from switchgear_api.replay.history import HistoryLine, read_history
from switchgear_cli.reads.client import connect
from switchgear_cli.reads.formats import plain
from switchgear_cli.reads.history import stored_history
from switchgear_cli.times import parse_instant
from switchgear_schemas.errors import SwitchgearError, WrongUsageError
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.settings import load_settings


def replay(
    file: Path | None = None,
    /,
    *,
    policy_file: Path | None = None,
    compare: Path | None = None,
    stamp: float | None = None,
    from_clickhouse: Annotated[bool, Parameter(negative=())] = False,
    since: str | None = None,
    until: str | None = None,
    api_url: str | None = None,
    summary_only: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Fold recorded calls through the breakers: each transition as a JSON line, then a summary.

    Nothing is sent or stored. The same history and policy give the same output to the byte.

    Args:
        file: JSON lines, plain or gzipped, in the order in which the calls ended; - for the standard input.
        policy_file: Policy file, TOML or YAML. By default the settings' policy_file, or the built-in default.
        compare: A second policy file, folded beside the first; lines carry the file's name as policy.
        stamp: Seconds between calls without recorded_at; without it such a file is refused.
        from_clickhouse: Read the stored calls over the HTTP API instead of a file.
        since: First instant of the stored calls: 90s, 15m, 2h, 7d, or a date and time, in UTC unless it has an offset. By default
            an hour before --until.
        until: Instant before which the stored calls ended, written like --since. By default now.
        api_url: Where the HTTP API is.
        summary_only: Leave the transitions out.
    """
    first = policy_file or load_settings().policy_file
    sets: dict[str, Callable[[str], BreakerPolicy]] = {str(first or "default"): PolicySet.load(first).effective}
    if compare is not None:
        sets[str(compare)] = PolicySet.load(compare).effective
    if (file is None) != from_clickhouse:
        raise WrongUsageError("Give either a file or --from-clickhouse.", hint="See `switchgear replay --help`.")
    if file is not None and (since is not None or until is not None):
        raise WrongUsageError("--since and --until choose among the stored calls.", hint="Give --from-clickhouse.")
    source = _Stored(since, until, api_url) if file is None else _File(file)
    for line in replay_history(source.lines(), sets, stamp_s=stamp):
        if "summary" in line and line["summary"]["lines"] == line["summary"]["invalid"]:
            raise source.nothing()
        if not summary_only or "summary" in line:
            print(json.dumps(line))
    return 0


class NothingToReplayError(SwitchgearError):
    """Return the error for a history without any execution."""


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._first_invalid: HistoryLine | None = None

    def lines(self) -> Iterator[HistoryLine]:
        for line in read_history(self._path):
            if line.event is None and self._first_invalid is None:
                self._first_invalid = line
            yield line

    def nothing(self) -> NothingToReplayError:
        name = "The standard input" if str(self._path) == "-" else str(self._path)
        first = self._first_invalid
        if first is None:
            return NothingToReplayError(f"{name} is empty.", hint="Write one execution as a JSON object on each line.")
        why = f"{first.field}: {first.reason}" if first.field else first.reason
        return NothingToReplayError(
            f"{name} holds no execution. Line {first.number}: {plain(why).rstrip('.')}.",
            hint="Write one execution as a JSON object on each line: docs/events.md has the fields.",
        )


class _Stored:
    def __init__(self, since: str | None, until: str | None, api_url: str | None) -> None:
        now = datetime.now(UTC)
        self._end = parse_instant("--until", until, now) or now
        self._begin = parse_instant("--since", since, now) or self._end - timedelta(hours=1)
        self._api_url = api_url

    def lines(self) -> Iterator[HistoryLine]:
        with connect(self._api_url) as api:
            yield from stored_history(api, self._begin, self._end)

    def nothing(self) -> NothingToReplayError:
        return NothingToReplayError(
            f"No call is stored that ended from {self._begin:%Y-%m-%d %H:%M:%S} to {self._end:%Y-%m-%d %H:%M:%S} UTC.",
            hint="Choose another span with --since and --until.",
        )
