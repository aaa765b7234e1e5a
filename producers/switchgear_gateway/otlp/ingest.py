"""From requests of OTLP to executions: map, group, and hand on. All receivers share one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from switchgear.runtime.bounded_dict import BoundedDict
from switchgear.runtime.throttled_log import BoundedLog
from switchgear_gateway.otlp.calls import Calls, R, calls_in_logs, calls_in_traces
from switchgear_gateway.otlp.context import TraceContext
from switchgear_gateway.otlp.failures import by_trusted_text
from switchgear_gateway.otlp.grouping import MOST_REMEMBERED, CallWindow, CountedCall, SeenCall
from switchgear_gateway.otlp.parts import Encoding, parts_of
from switchgear_gateway.otlp.records import Log, Span
from switchgear_gateway.otlp.sources import IngestCounts
from switchgear_gateway.otlp.submission import Sender, SubmitResult, TryAgainError
from switchgear_http.turns import Turn
from switchgear_schemas import ToolExecution
from switchgear_schemas.globs import matches

log: Final = logging.getLogger("switchgear.gateway.otlp")
_warnings: Final = BoundedLog(log)

_LARGE: Final[Mapping[Encoding, int]] = {"protobuf": 65_536, "json": 16_384}
"""Bytes from which a part of a request is read in a thread, because it has one large record."""
_BATCH_FACTOR: Final = 5
_BATCH_BYTES: Final = 4 * 1_048_576
"""The calls of a request are sent together if they take less than this, or less than so many times its size."""
_MOST_BYTES: Final = 16 * 1_048_576
_MOST_CALLS: Final = 512
"""Calls that are sent together."""
_END: Final = b"end"
"""After the last part."""
_SUBMIT_LIMIT_S: Final = 30.0
"""How long a batch may take. After that its executions are unknown."""
_LOOK_EVERY_S: Final = 0.5
"""How often to look for calls whose wait is over."""
_ATTEMPTS: Final = 20
"""How often to send a call that waited. Its exporter has its answer already, and can't send it again."""
_RETRY_S: Final = 1.0
_MOST_UNSENT: Final = 10_000
_MOST_REASONS: Final = 3


def cost_of_calls(body: bytes) -> int:
    """Return how much memory the records and calls of a request take at most, besides its body."""
    return min(_BATCH_FACTOR * len(body), _MOST_BYTES)


class IngestAnswer(NamedTuple):
    """The answer to a request that was taken."""

    rejected: int
    """How many tool calls in it can't be used."""
    reasons: str
    """Some of the reasons; empty if there are none."""


@dataclass(slots=True)
class _Outgoing:
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
        self._logged = BoundedDict[bytes, None](MOST_REMEMBERED)
        self._unknown = BoundedDict[bytes, None](MOST_REMEMBERED)
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

    async def traces(self, body: bytes, encoding: Encoding, sender: Sender, *, resent: bool = False) -> IngestAnswer:
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
        return await self._taken(calls_in_traces, self._count_spans, body, encoding, sender, resent=resent)

    async def logs(self, body: bytes, encoding: Encoding, sender: Sender, *, resent: bool = False) -> IngestAnswer:
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
        return await self._taken(calls_in_logs, self._count_logs, body, encoding, sender, resent=resent)

    async def _taken(
        self,
        read: Callable[[bytes, Encoding], Calls[R]],
        counting: Callable[[Calls[R], Sender, _Outgoing, Turn], Awaitable[None]],
        body: bytes,
        encoding: Encoding,
        sender: Sender,
        *,
        resent: bool,
    ) -> IngestAnswer:
        """Take a request part by part. The calls of a small one, and of most large ones, are counted and sent together."""
        turn, most = Turn(), min(max(_BATCH_BYTES, _BATCH_FACTOR * len(body)), _MOST_BYTES)
        rejected, reasons = 0, dict[str, None]()
        found: Calls[R] = Calls()
        for part in chain(parts_of(body, encoding), [_END]):
            if part is not None and part is not _END:
                small = len(part) < _LARGE[encoding]
                found.extend(read(part, encoding) if small else await turn.in_thread(read, part, encoding))
            await turn.pause()
            if part is _END or found.bytes > most or len(found.executions) >= _MOST_CALLS:
                answer = await self._counted(found, counting, sender, turn, resent=resent)
                rejected += answer.rejected
                reasons[answer.reasons] = None
                found = Calls()
        return IngestAnswer(rejected, "; ".join(filter(None, reasons))[:500])

    async def _counted(
        self,
        found: Calls[R],
        counting: Callable[[Calls[R], Sender, _Outgoing, Turn], Awaitable[None]],
        sender: Sender,
        turn: Turn,
        *,
        resent: bool,
    ) -> IngestAnswer:
        """Count and send some calls. If the request is given up meanwhile, they count when they arrive again."""
        batch = _Outgoing()
        try:
            await counting(found, sender, batch, turn)
            return await self._sent(batch, sender, found.reasons, turn, resent=resent)
        except asyncio.CancelledError:
            for execution in batch.executions:
                self._unknown[execution.metric_id.bytes] = None
            for undo in batch.undo:
                undo()
            raise

    async def _count_spans(self, found: Calls[Span], sender: Sender, batch: _Outgoing, turn: Turn) -> None:
        """Put the calls that count now into ``batch``."""
        self.counts.records += len(found.records)
        for span in found.unmatched:
            self.counts.unmatched.note(sender.tenant, span.scope, span.name)
            await turn.pause()
        calls: list[SeenCall] = []
        for span, execution in found.executions:
            calls.append(SeenCall.of(span, self._judged(execution), sender))
            await turn.pause()
        keys = frozenset(each.key for each in calls)
        for span in sorted(found.records, key=lambda each: each.end_ns):
            self._context.note(sender.tenant, [span], keys)
            self._window.note(sender.tenant, [span])
            await turn.pause()
        for of_trace in self._window.add(calls, self._clock()):
            batch.undo += [partial(self._window.forget, each) for each in of_trace]
            batch.executions += [each.execution for each in await self._completed(of_trace, turn)]
            await turn.pause()

    async def _count_logs(self, found: Calls[Log], sender: Sender, batch: _Outgoing, turn: Turn) -> None:
        """Put the calls that were not sent before into ``batch``."""
        self.counts.records += len(found.records)
        for _, execution in found.executions:
            key = sender.tenant.encode() + execution.metric_id.bytes
            if key in self._logged:
                continue
            self._logged[key] = None
            batch.undo.append(partial(self._logged.pop, key, None))
            batch.executions.append(self._judged(execution))
            await turn.pause()

    async def _completed(self, calls: Iterable[CountedCall], turn: Turn) -> list[CountedCall]:
        """Return calls with what other spans of their traces say about them."""
        found: list[CountedCall] = []
        for each in calls:
            found.append(self._context.complete(each, self._window.ancestors(each.spans[0].key)))
            await turn.pause()
        return found

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
        turn = Turn()
        for of_trace in self._window.due(float("inf") if everything else self._clock()):
            self._unsent += [(each, 0) for each in of_trace]
            await turn.pause()
        unsent, self._unsent = self._unsent, []
        by_sender: dict[int, list[tuple[CountedCall, int]]] = {}
        for call, attempts in unsent:
            by_sender.setdefault(id(call.sender), []).append((call, attempts))
        while by_sender:
            of_sender, calls = next(iter(by_sender.items()))
            try:
                await self._send_again(calls[:_MOST_CALLS], turn)
            except asyncio.CancelledError:
                self._unsent += [each for left in by_sender.values() for each in left]
                raise
            by_sender[of_sender] = calls[_MOST_CALLS:]
            if not by_sender[of_sender]:
                del by_sender[of_sender]

    async def _send_again(self, calls: Sequence[tuple[CountedCall, int]], turn: Turn) -> None:
        """Send calls of one sender. Each comes with the number of earlier attempts."""
        sender = calls[0][0].sender
        executions = [each.execution for each in await self._completed((call for call, _ in calls), turn)]
        result = await self._submitted(executions, sender, resent=any(tried for _, tried in calls))
        failed = set(range(len(calls))) if result.retry_after_s is not None else set(result.unknown)
        self.counts.calls += len(calls) - len(failed) - len(result.rejected)
        self.counts.rejected += len(result.rejected)
        self._keep([(call, tried + 1) for index, (call, tried) in enumerate(calls) if index in failed])
        await self._refused(sender, [reason for _, reason in result.rejected], turn)

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

    async def _sent(
        self, batch: _Outgoing, sender: Sender, reasons: list[str], turn: Turn, *, resent: bool
    ) -> IngestAnswer:
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
                self._unknown[batch.executions[part[index]].metric_id.bytes] = None
            refused_later += len(result.rejected)
            reasons += [reason for _, reason in result.rejected]
        for index in again:
            batch.undo[index]()
        self.counts.calls += len(batch.executions) - len(again) - refused_later
        self.counts.rejected += unusable + refused_later
        await self._refused(sender, reasons, turn)
        if again:
            raise TryAgainError(f"{len(again)} tool calls were not acknowledged.", retry_after_s=retry_after_s)
        return IngestAnswer(unusable + refused_later, "; ".join(dict.fromkeys(reasons[: 10 * _MOST_REASONS]))[:500])

    async def _refused(self, sender: Sender, reasons: Iterable[str], turn: Turn) -> None:
        for reason in reasons:
            self.counts.refused.note(sender.tenant, reason.partition(", got ")[0])
            await turn.pause()

    def _parts(self, batch: _Outgoing, *, resent: bool) -> list[tuple[list[int], bool]]:
        parts: dict[bool, list[int]] = {False: [], True: []}
        for index, execution in enumerate(batch.executions):
            parts[resent or execution.metric_id.bytes in self._unknown].append(index)
        return [(part, marked) for marked, part in parts.items() if part]

    async def _submitted(self, executions: Sequence[ToolExecution], sender: Sender, *, resent: bool) -> SubmitResult:
        everything = tuple(range(len(executions)))
        try:
            async with asyncio.timeout(_SUBMIT_LIMIT_S):
                return await sender.submit(executions, resent=resent)
        except TimeoutError:
            _warnings.warning("tool calls from traces were not acknowledged in time")
            return SubmitResult(unknown=everything)
        except Exception as error:  # noqa: BLE001 - whatever failed, the exporter has to send them again
            _warnings.warning("tool calls from traces could not be sent", error)
            return SubmitResult(unknown=everything)
