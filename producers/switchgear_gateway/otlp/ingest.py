"""From requests of OTLP to executions: map, group, and hand on. All receivers share one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

import pydantic

from switchgear.runtime.throttled_log import BoundedLog
from switchgear_gateway.otlp.context import TraceContext
from switchgear_gateway.otlp.decoding import Encoding, logs_from, traces_from
from switchgear_gateway.otlp.executions import UnusableRecordError
from switchgear_gateway.otlp.failures import by_trusted_text
from switchgear_gateway.otlp.grouping import MOST_REMEMBERED, CallWindow, CountedCall, SeenCall
from switchgear_gateway.otlp.mappings import is_recognised, of_log, of_span
from switchgear_gateway.otlp.records import Log, Span, logs_of, spans_of
from switchgear_gateway.otlp.sources import IngestCounts, looks_like_a_tool
from switchgear_gateway.otlp.submission import Result, Sender, TryAgainError
from switchgear_schemas import ToolExecution
from switchgear_schemas.globs import matches

log: Final = logging.getLogger("switchgear.gateway.otlp")
_warnings: Final = BoundedLog(log)
R = TypeVar("R", Span, Log)

_LARGE: Final = 65_536
"""Bytes from which a body is read in a thread, so that other requests go on."""
_SUBMIT_LIMIT_S: Final = 30.0
"""How long a batch may take. After that its executions are unknown."""
_LOOK_EVERY_S: Final = 0.5
"""How often to look for calls whose wait is over."""
_ATTEMPTS: Final = 20
"""How often to send a call that waited. Its exporter has its answer already, and can't send it again."""
_RETRY_S: Final = 1.0
_MOST_UNSENT: Final = 10_000
_MOST_REASONS: Final = 3


class Answer(NamedTuple):
    """The answer to a request that was taken."""

    rejected: int
    """How many tool calls in it can't be used."""
    reasons: str
    """Some of the reasons; empty if there are none."""


@dataclass(frozen=True, slots=True)
class _Calls(Generic[R]):
    """What a body has."""

    records: list[R]
    executions: list[tuple[R, ToolExecution]]
    """The tool calls among the records."""
    reasons: list[str]
    """Why each of the others among the tool calls can't be used."""
    unmatched: list[R]
    """Those that look like tool calls, but no mapping reads them."""


@dataclass(slots=True)
class _Batch:
    """Executions to send, and what to do when one of them was not acknowledged."""

    executions: list[ToolExecution] = field(default_factory=list)
    undo: list[Callable[[], object]] = field(default_factory=list)


class Ingest:
    """Turn spans and log records into executions.

    Run :meth:`run` in the background while requests are taken. It sends the calls that waited.

    Args:
        window: Which calls were counted, and which wait.
        outages_in_text: Globs of the tools whose failures count by their text.
        clock: Monotonic time in seconds.
    """

    def __init__(
        self,
        window: CallWindow | None = None,
        *,
        outages_in_text: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window = window or CallWindow()
        self._context = TraceContext()
        self._outages_in_text = outages_in_text
        self._clock = clock
        self._logged: OrderedDict[bytes, None] = OrderedDict()
        self._unknown: OrderedDict[bytes, None] = OrderedDict()
        self._unsent: list[tuple[CountedCall, int]] = []
        self.counts = IngestCounts()

    @property
    def copies(self) -> int:
        """How many spans were dropped because another span of the same call counted."""
        return self._window.copies

    @property
    def waiting_since(self) -> float | None:
        """The time, by the clock, of the oldest call that isn't sent yet although its request was answered. None if all are."""
        return 0.0 if self._unsent else self._window.waiting_since

    async def traces(self, body: bytes, encoding: Encoding, sender: Sender, *, resent: bool = False) -> Answer:
        """Send the tool calls among the spans of a request.

        Args:
            body: The ``ExportTraceServiceRequest``.
            encoding: Its format.
            sender: Who sent it.
            resent: An earlier process may have sent the same calls.

        Raises:
            UnreadableBodyError: The body has another format, or too many spans.
            TryAgainError: Some were not acknowledged. The request has to be sent again as a whole.
        """
        found = await _apart(_in_traces, body, encoding)
        self.counts.records += len(found.records)
        for span in found.unmatched:
            self.counts.unmatched.note(sender.tenant, span.scope, span.name)
        calls = [SeenCall.of(span, self._judged(execution), sender) for span, execution in found.executions]
        self._context.note(sender.tenant, found.records, frozenset(each.key for each in calls))
        ready = self._completed(self._window.add(sender.tenant, found.records, calls, self._clock()))
        batch = _Batch([each.execution for each in ready], [partial(self._window.forget, each) for each in ready])
        return await self._sent(batch, sender, found.reasons, resent=resent)

    async def logs(self, body: bytes, encoding: Encoding, sender: Sender, *, resent: bool = False) -> Answer:
        """Send the tool calls among the log records of a request.

        Args:
            body: The ``ExportLogsServiceRequest``.
            encoding: Its format.
            sender: Who sent it.
            resent: An earlier process may have sent the same calls.

        Raises:
            UnreadableBodyError: The body has another format, or too many records.
            TryAgainError: Some were not acknowledged. The request has to be sent again as a whole.
        """
        found = await _apart(_in_logs, body, encoding)
        self.counts.records += len(found.records)
        batch = _Batch()
        for _, execution in found.executions:
            key = sender.tenant.encode() + execution.metric_id.bytes
            if key in self._logged:
                continue
            _note(self._logged, key)
            batch.executions.append(self._judged(execution))
            batch.undo.append(partial(self._logged.pop, key, None))
        return await self._sent(batch, sender, found.reasons, resent=resent)

    def _completed(self, calls: Iterable[CountedCall]) -> list[CountedCall]:
        """Return calls with what other spans of their traces say about them."""
        return [self._context.complete(each, self._window.ancestors(each.spans[0].key)) for each in calls]

    def _judged(self, execution: ToolExecution) -> ToolExecution:
        """Return an execution with the class that its text tells, if the user trusts the texts of its tool."""
        trusted = any(matches(glob, execution.tool_name) for glob in self._outages_in_text)
        return by_trusted_text(execution) if trusted else execution

    async def run(self) -> None:
        """Send calls whose wait is over, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self.send_due()

    async def send_due(self, *, everything: bool = False) -> None:
        """Send the calls whose wait is over.

        Args:
            everything: Send the others too, because the process ends or loses its partitions.
        """
        due = self._completed(self._window.due(float("inf") if everything else self._clock()))
        unsent, self._unsent = self._unsent, []
        by_sender: dict[int, list[tuple[CountedCall, int]]] = {}
        for call, attempts in [*unsent, *((call, 0) for call in due)]:
            by_sender.setdefault(id(call.sender), []).append((call, attempts))
        for calls in by_sender.values():
            executions = [call.execution for call, _ in calls]
            result = await self._submitted(executions, calls[0][0].sender, resent=any(tried for _, tried in calls))
            failed = set(range(len(calls))) if result.retry_after_s is not None else set(result.unknown)
            self.counts.calls += len(calls) - len(failed) - len(result.rejected)
            self.counts.rejected += len(result.rejected)
            self._refused(calls[0][0].sender, [reason for _, reason in result.rejected])
            self._keep([(call, tried + 1) for index, (call, tried) in enumerate(calls) if index in failed])

    async def close(self, *, limit_s: float = 5.0) -> None:
        """Send all that waits, for at most ``limit_s`` seconds."""
        try:
            async with asyncio.timeout(limit_s):
                await self.send_due(everything=True)
                while self._unsent:
                    await asyncio.sleep(_LOOK_EVERY_S)
                    await self.send_due(everything=True)
        except TimeoutError:
            log.warning("%d tool calls from traces could not be sent before the end", len(self._unsent))

    def _keep(self, failed: Sequence[tuple[CountedCall, int]]) -> None:
        kept = [each for each in failed if each[1] < _ATTEMPTS][: _MOST_UNSENT - len(self._unsent)]
        self._unsent += kept
        if len(kept) < len(failed):
            self.counts.lost += len(failed) - len(kept)
            _warnings.warning("tool calls from traces were dropped because they could not be sent")

    async def _sent(self, batch: _Batch, sender: Sender, reasons: list[str], *, resent: bool) -> Answer:
        """Send a batch in two parts: those that an earlier attempt left unknown are marked as resent."""
        unusable, refused_later = len(reasons), 0
        again: list[int] = []
        retry_after_s = _RETRY_S
        for part, marked in self._parts(batch, resent=resent):
            result = await self._submitted([batch.executions[index] for index in part], sender, resent=marked)
            refused = range(len(part)) if result.retry_after_s is not None else result.unknown
            again += [part[index] for index in refused]
            retry_after_s = max(retry_after_s, result.retry_after_s or 0.0)
            for index in result.unknown:
                _note(self._unknown, batch.executions[part[index]].metric_id.bytes)
            refused_later += len(result.rejected)
            reasons += [reason for _, reason in result.rejected]
        for index in again:
            batch.undo[index]()
        self.counts.calls += len(batch.executions) - len(again) - refused_later
        self.counts.rejected += unusable + refused_later
        self._refused(sender, reasons)
        if again:
            raise TryAgainError(f"{len(again)} tool calls were not acknowledged.", retry_after_s=retry_after_s)
        return Answer(unusable + refused_later, "; ".join(dict.fromkeys(reasons[: 10 * _MOST_REASONS]))[:500])

    def _refused(self, sender: Sender, reasons: Iterable[str]) -> None:
        for reason in reasons:
            self.counts.refused.note(sender.tenant, reason.partition(", got ")[0])

    def _parts(self, batch: _Batch, *, resent: bool) -> list[tuple[list[int], bool]]:
        parts: dict[bool, list[int]] = {False: [], True: []}
        for index, execution in enumerate(batch.executions):
            parts[resent or execution.metric_id.bytes in self._unknown].append(index)
        return [(part, marked) for marked, part in parts.items() if part]

    async def _submitted(self, executions: Sequence[ToolExecution], sender: Sender, *, resent: bool) -> Result:
        everything = tuple(range(len(executions)))
        try:
            async with asyncio.timeout(_SUBMIT_LIMIT_S):
                return await sender.submit(executions, resent=resent)
        except TimeoutError:
            _warnings.warning("tool calls from traces were not acknowledged in time")
            return Result(unknown=everything)
        except Exception as error:  # noqa: BLE001 - whatever failed, the exporter has to send them again
            _warnings.warning("tool calls from traces could not be sent", error)
            return Result(unknown=everything)


async def _apart(read: Callable[[bytes, Encoding], _Calls[R]], body: bytes, encoding: Encoding) -> _Calls[R]:
    """Read a body, in a thread if it is large."""
    return read(body, encoding) if len(body) < _LARGE else await asyncio.to_thread(read, body, encoding)


def _in_traces(body: bytes, encoding: Encoding) -> _Calls[Span]:
    found = _calls_in(spans_of(traces_from(body, encoding)), of_span)
    found.unmatched.extend(span for span in found.records if looks_like_a_tool(span) and not is_recognised(span))
    return found


def _in_logs(body: bytes, encoding: Encoding) -> _Calls[Log]:
    return _calls_in(logs_of(logs_from(body, encoding)), of_log)


def _calls_in(records: Iterable[R], mapping: Callable[[R], ToolExecution | None]) -> _Calls[R]:
    found: _Calls[R] = _Calls([], [], [], [])
    for record in records:
        found.records.append(record)
        execution = _mapped(mapping, record, found.reasons)
        if execution is not None:
            found.executions.append((record, execution))
    return found


def _mapped(mapping: Callable[[R], ToolExecution | None], record: R, reasons: list[str]) -> ToolExecution | None:
    try:
        return mapping(record)
    except UnusableRecordError as error:
        reasons.append(str(error))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reasons.append(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    return None


def _note(recent: OrderedDict[bytes, None], key: bytes) -> None:
    recent[key] = None
    if len(recent) > MOST_REMEMBERED:
        recent.popitem(last=False)
