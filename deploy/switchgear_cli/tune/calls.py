"""The calls of a history that a search uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from switchgear.policies.glob import matches
from switchgear_api.replay import stamped_at
from switchgear_api.replay.history import HistoryLine
from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.wire import Execution

MOST_CALLS: Final = 2_000_000
"""Calls of a search. They take about 0.6 kB each, in every process."""


class TuneError(SwitchgearError):
    """The history can't be used for a search."""


class PastCall(msgspec.Struct, frozen=True, gc=False):
    """A call that was made. ``event`` has only what a breaker and the costs use."""

    event: Execution
    ended_at: float

    @property
    def began_at(self) -> float:
        """When the call began, in seconds since 1970."""
        return self.ended_at - self.duration_ms / 1000

    @property
    def duration_ms(self) -> float:
        """How long the call took, in milliseconds."""
        return self.event.execution_time_ms or 0.0

    @property
    def tokens(self) -> int:
        """Tokens that the call spent: input, output and cache creation."""
        event = self.event
        return (event.input_tokens or 0) + (event.output_tokens or 0) + (event.cache_creation_tokens or 0)


@dataclass(frozen=True, slots=True)
class CallLog:
    """The calls of the tools that a glob matches, in the order in which they ended.

    Attributes:
        calls: The calls that were made.
        never_made: Refused calls of these tools. What they would have cost is not known.
        stamped: Calls that had no instant and got one.
        other_tools: Calls of other tools.
        invalid: Lines that are not executions.
    """

    calls: list[PastCall]
    never_made: int = 0
    stamped: int = 0
    other_tools: int = 0
    invalid: int = 0

    @property
    def tools(self) -> list[str]:
        """The names of the tools, sorted."""
        return sorted({call.event.tool_name for call in self.calls})


def read_calls(lines: Iterable[HistoryLine], glob: str, *, stamp_s: float | None = None) -> CallLog:
    """Return the calls of the tools that ``glob`` matches.

    Args:
        lines: The history.
        glob: Name or glob of the tools.
        stamp_s: Seconds between calls without ``recorded_at``. None refuses such a history.

    Raises:
        UndatedCallError: A call has no instant, and ``stamp_s`` is None.
        TuneError: No call matches, or more than :data:`MOST_CALLS` do.
    """
    calls: list[PastCall] = []
    never_made = stamped = other_tools = invalid = 0
    for line in lines:
        event = line.event
        if event is None:
            invalid += 1
            continue
        if event.status == "overdue":  # a report about a call that still ran, and no call
            continue
        ended_at = event.recorded_s
        if ended_at is None:
            ended_at = stamped_at(line, stamped, stamp_s)
            stamped += 1
        if not matches(glob, event.tool_name):
            other_tools += 1
        elif event.status == "rejected":
            never_made += 1
        else:
            calls.append(PastCall(_trimmed(event), ended_at))
            if len(calls) > MOST_CALLS:
                raise TuneError(
                    f"The history has more than {MOST_CALLS:,} calls of {glob}.",
                    hint="Choose a shorter span with --since and --until, or fewer tools.",
                )
    if not calls:
        raise _nothing(glob, other_tools, invalid)
    calls.sort(key=lambda call: call.ended_at)
    return CallLog(calls, never_made, stamped, other_tools, invalid)


def _nothing(glob: str, other_tools: int, invalid: int) -> TuneError:
    if other_tools:
        return TuneError(
            f"None of the history's {other_tools:,} calls is of a tool that {glob} matches.",
            hint="Check the name, or quote a glob such as 'mcp:*'.",
        )
    if invalid:
        return TuneError(
            f"The history has {invalid:,} lines, but none of them is an execution.",
            hint="Write one execution as a JSON object on each line: docs/events.md has the fields.",
        )
    return TuneError("The history has no calls.", hint="Choose another span with --since and --until.")


def _trimmed(event: Execution) -> Execution:
    return Execution(
        tool_name=event.tool_name,
        status=event.status,
        tenant=event.tenant,
        user_id=event.user_id,
        session_id=event.session_id,
        execution_time_ms=event.execution_time_ms,
        error_class=event.error_class,
        evidence=event.evidence,
        retry_after_s=event.retry_after_s,
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cache_creation_tokens=event.cache_creation_tokens,
        cost_usd=event.cost_usd,
        emitter_id=event.emitter_id,
    )
