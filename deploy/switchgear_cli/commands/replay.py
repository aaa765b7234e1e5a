"""``switchgear replay``: what a policy would have done with recorded calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from switchgear.history import HistoryLine, read_history
from switchgear.policies import PolicySet
from switchgear.replay import replay as replay_history
from switchgear_cli.reads.client import connect
from switchgear_cli.reads.history import StoredHistoryError, stored_history
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.settings import load_settings


def replay(
    file: Path | None = None,
    *,
    policy: Path | None = None,
    compare: Path | None = None,
    stamp: float | None = None,
    from_clickhouse: Annotated[bool, Parameter(negative=())] = False,
    since: datetime | None = None,
    until: datetime | None = None,
    api_url: str | None = None,
    summary_only: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Fold recorded calls through the breakers: each transition as a JSON line, then a summary.

    Nothing is sent or stored. The same history and policy give the same output to the byte.

    Args:
        file: JSON lines, plain or gzipped, in the order in which the calls ended; - for the standard input.
        policy: Policy file; the settings' policy_file, or the built-in default, where it is not given.
        compare: A second policy file, folded beside the first; lines carry the file's name as policy.
        stamp: Seconds between calls without recorded_at; without it such a file is refused.
        from_clickhouse: Read the stored calls over the HTTP API instead of a file.
        since: First instant of the stored calls, UTC where it has no zone; an hour before until where it is not given.
        until: Instant before which the stored calls ended; now where it is not given.
        api_url: Where the HTTP API is.
        summary_only: Leave the transitions out.
    """
    first = policy or load_settings().policy_file
    sets: dict[str, Callable[[str], BreakerPolicy]] = {str(first or "default"): PolicySet.load(first).effective}
    if compare is not None:
        sets[str(compare)] = PolicySet.load(compare).effective
    with _history(file, from_clickhouse, since, until, api_url) as history:
        for line in replay_history(history, sets, stamp_s=stamp):
            if not summary_only or "summary" in line:
                print(json.dumps(line))
    return 0


@contextmanager
def _history(
    file: Path | None, from_clickhouse: bool, since: datetime | None, until: datetime | None, api_url: str | None
) -> Iterator[Iterator[HistoryLine]]:
    if (file is None) != from_clickhouse:
        raise StoredHistoryError("Give either a file or --from-clickhouse.", hint="See `switchgear replay --help`.")
    if file is not None:
        yield read_history(file)
        return
    end = until or datetime.now(UTC)
    with connect(api_url) as api:
        yield stored_history(api, since or end - timedelta(hours=1), end)
