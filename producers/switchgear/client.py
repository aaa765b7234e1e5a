"""Switchgear: what a service makes one of, and calls its tools through."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from switchgear.classify import Classifier
from switchgear.emitter.status import EmitterStatus
from switchgear.follower.status import FollowerStatus
from switchgear.follower.view import CircuitView
from switchgear.guard.calls import Fallback, Passage, acall_through, call_through, guarded, until
from switchgear.guard.gate import Asking, Gate
from switchgear.guard.local import LocalBreakers, LocalPolicies
from switchgear.guard.permit import Permit
from switchgear.guard.rejection import Rejection
from switchgear.parameters_hash import parameters_hash
from switchgear_schemas.circuit import CircuitState
from switchgear_schemas.connection import KafkaConnection
from switchgear_schemas.execution import ServedBy

if TYPE_CHECKING:
    from switchgear.background import Background
    from switchgear.emitter.emitter import Emitter
    from switchgear.follower.follower import CircuitFollower

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SwitchgearStatus:
    """Condition of one client. ``local``: states of this process's own breakers that are not closed, by circuit id."""

    emitter: EmitterStatus | None
    follower: FollowerStatus | None
    local: Mapping[str, CircuitState]
    background_deaths: Mapping[str, str]
    """Last error of each background job that had to be started again."""


class Switchgear:
    """A circuit breaker for tools, shared by the fleet.

    Two breakers decide about a call, in memory: the process's own, from what it saw itself, and the fleet's, followed
    through Kafka. Either may refuse. Every outcome is sent to Kafka in the background. The call never waits for Kafka but for
    one case: a probe after a cooldown asks the fleet for permission, at most ``probe_wait``. With no broker reachable the
    process's own breakers go on alone.

    Safe to use from threads and from several event loops. Started at the first call.

    Args:
        bootstrap_servers: ``host:port`` of the brokers, comma-separated, or a :class:`KafkaConnection`.
        service: name of this service, on every event.
        topic_prefix: before every topic name.
        local_policies: of the process's own breakers; five failures in a row unless given.
        probe_wait: longest wait for a probe lease, in seconds.
        fleet_silence: requests for a probe unanswered for so many seconds mean that nobody owns the circuit: the process's
            own breaker then decides alone.
        buffer_size: events held while Kafka is away; when full the oldest goes.
        classify: a rule of your own for exceptions; None from it leaves them to :func:`switchgear.classify.classify`.
        parameters_key: a secret of the deployment; with it calls carry a keyed hash of their parameters, without it none.
        compression: of what is sent: None, gzip, snappy, lz4 or zstd.
    """

    def __init__(
        self,
        bootstrap_servers: str | KafkaConnection | None = "localhost:9092",
        *,
        service: str = "",
        topic_prefix: str = "switchgear.",
        local_policies: LocalPolicies | None = None,
        probe_wait: float = 0.25,
        fleet_silence: float = 30.0,
        buffer_size: int = 65_536,
        classify: Classifier | None = None,
        parameters_key: bytes | None = None,
        compression: str | None = None,
    ) -> None:
        self._probe_wait = probe_wait
        self._hasher = None if parameters_key is None else functools.partial(parameters_hash, parameters_key)
        if parameters_key is not None:
            parameters_hash(parameters_key)  # a bad key is told here, not in the first call
        self._functions: dict[str, Callable[..., Any]] = {}
        self._emitter: Emitter | None = None
        self._follower: CircuitFollower | None = None
        self._background: Background | None = None
        if bootstrap_servers is not None:
            # Imported here: asyncio costs 40 ms that `import switchgear` and Switchgear.local() need not pay.
            from switchgear.background import Background  # noqa: PLC0415
            from switchgear.emitter.emitter import Emitter  # noqa: PLC0415
            from switchgear.follower.follower import CircuitFollower  # noqa: PLC0415

            self._background = Background(f"switchgear-{service}" if service else "switchgear")
            self._follower = CircuitFollower(bootstrap_servers, topic_prefix=topic_prefix, background=self._background)
            self._emitter = Emitter(
                bootstrap_servers,
                topic_prefix=topic_prefix,
                service=service,
                buffer_size=buffer_size,
                compression=compression,
                background=self._background,
            )
        self._gate = Gate(
            LocalBreakers(local_policies, time.monotonic),
            emitter=self._emitter,
            follower=self._follower,
            classifier=classify,
            silence_s=fleet_silence,
        )
        self._started = self._background is None
        if self._background is not None:
            self._background.add("refusals", self._sweep)
            self._background.after_fork.append(self._forked)

    @classmethod
    def local(
        cls,
        *,
        service: str = "",
        local_policies: LocalPolicies | None = None,
        classify: Classifier | None = None,
        parameters_key: bytes | None = None,
    ) -> Self:
        """The same without Kafka: a complete circuit breaker for this process alone."""
        return cls(
            None, service=service, local_policies=local_policies, classify=classify, parameters_key=parameters_key
        )

    # -- permits ------------------------------------------------------------------------------------------------------

    def try_acquire(
        self, tool: str, *, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection:
        """Ask whether a call may be made now: a Permit (true) or a Rejection (false). Never raises.

        Not for event loops: at the end of a cooldown it may block for ``probe_wait``; use :meth:`atry_acquire` there.
        """
        answer = self._decide(tool, user_id, session_id, request_id)
        if isinstance(answer, Rejection):
            self._report(answer, user_id=user_id, session_id=session_id, request_id=request_id)
        return answer

    async def atry_acquire(
        self, tool: str, *, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection:
        """:meth:`try_acquire` that never blocks the event loop."""
        answer = await self._adecide(tool, user_id, session_id, request_id)
        if isinstance(answer, Rejection):
            self._report(answer, user_id=user_id, session_id=session_id, request_id=request_id)
        return answer

    def permit(
        self, tool: str, *, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Passage:
        """``with gear.permit("tool"):`` or ``async with``: raises CircuitOpenError on entering, reports on leaving."""
        return Passage(self, tool, user_id, session_id, request_id)

    # -- calls --------------------------------------------------------------------------------------------------------

    def guard(self, tool: str, *, fallback: Fallback = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Decorate the function or coroutine function that calls ``tool``; signature and type are kept.

        Args:
            tool: the circuit's name. The function is remembered under it, so that other tools may fall back on it.
            fallback: on a refusal: a tool guarded by this same object, a chain of them in order, or a function that
                takes the same arguments. When the circuits of all tools in a chain are open, ``tool`` is called all the same.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            self._functions[tool] = function
            return guarded(self, tool, function, fallback)

        return decorate

    def call(self, tool: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function(*args, **kwargs)`` behind ``tool``'s circuit.

        Raises:
            CircuitOpenError: the circuit refused; whatever the function raises goes through.
        """
        result: R = call_through(self, tool, function, None, args, kwargs)
        return result

    async def acall(self, tool: str, function: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Await ``function(*args, **kwargs)`` behind ``tool``'s circuit.

        Raises:
            CircuitOpenError: the circuit refused; whatever the function raises goes through.
        """
        result: R = await acall_through(self, tool, function, None, args, kwargs)
        return result

    def is_open(self, tool: str) -> bool:
        """Would a call be refused now? Takes nothing, asks nobody."""
        self._start()
        return self._gate.is_open(tool)

    # -- the client itself --------------------------------------------------------------------------------------------

    def start(self, wait: float = 0.0) -> bool:
        """Start now instead of at the first call, and wait up to ``wait`` seconds for the fleet's circuits.

        Returns:
            Whether the circuits are loaded; always True without Kafka.
        """
        self._start()
        follower = self._follower
        if follower is None:
            return True
        return follower.wait_loaded(wait)

    def status(self) -> SwitchgearStatus:
        """Counts and condition, as of now."""
        return SwitchgearStatus(
            emitter=None if self._emitter is None else self._emitter.status(),
            follower=None if self._follower is None else self._follower.status(),
            local=self._gate.local.not_closed(),
            background_deaths={} if self._background is None else dict(self._background.deaths),
        )

    def circuits(self) -> Mapping[str, CircuitView]:
        """The fleet's circuits as this process sees them, by circuit id."""
        self._start()
        return {} if self._follower is None else self._follower.table.snapshot()

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until every event is acknowledged; False when ``timeout`` seconds did not suffice. Not for event loops."""
        if self._emitter is None:
            return True
        if self._gate.refusals is not None:
            self._gate.refusals.sweep(everything=True)
        return self._emitter.flush(timeout)

    def close(self, timeout: float = 10.0) -> bool:
        """Flush and end the background thread. Calls go on to be guarded, unreported. Closing twice is fine.

        Returns:
            True when every event was acknowledged.
        """
        if self._emitter is None:
            return True
        if self._gate.refusals is not None:
            self._gate.refusals.sweep(everything=True)
        return self._emitter.close(timeout)

    async def aclose(self, timeout: float = 10.0) -> bool:  # noqa: ASYNC109 - the same signature as close
        """:meth:`close` for event loops."""
        import asyncio  # noqa: PLC0415 - see __init__

        return await asyncio.to_thread(self.close, timeout)

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _decide(
        self, tool: str, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection:
        if not self._started:
            self._start()
        answer = self._gate.acquire(tool, user_id, session_id, request_id)
        if not isinstance(answer, Asking):
            return answer
        from concurrent.futures import wait  # noqa: PLC0415 - see __init__

        try:
            wait([answer.answer], timeout=self._probe_wait)
        except BaseException:
            self._gate.give_up(answer)
            raise
        return self._gate.asked(answer)

    async def _adecide(
        self, tool: str, user_id: str = "", session_id: str | None = None, request_id: str | None = None
    ) -> Permit | Rejection:
        if not self._started:
            self._start()
        answer = self._gate.acquire(tool, user_id, session_id, request_id)
        if not isinstance(answer, Asking):
            return answer
        try:
            await until(answer.answer, self._probe_wait)
        except BaseException:
            self._gate.give_up(answer)
            raise
        return self._gate.asked(answer)

    def _report(
        self,
        refusal: Rejection,
        *,
        served_by: ServedBy = "none",
        fallback_tool: str | None = None,
        user_id: str = "",
        session_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        reporter = self._gate.refusals
        if reporter is not None:
            reporter.refused(
                refusal,
                served_by=served_by,
                fallback_tool=fallback_tool,
                user_id=user_id,
                session_id=session_id,
                request_id=request_id,
            )

    def _fleet_fallback(self, tool: str) -> tuple[str, ...]:
        view = None if self._follower is None else self._follower.table.views.get(tool)
        return () if view is None else view.fallback

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        assert self._background is not None
        if not self._background.closed:
            self._background.loop()

    async def _sweep(self) -> None:
        assert self._gate.refusals is not None
        import asyncio  # noqa: PLC0415 - see __init__

        while True:
            await asyncio.sleep(1.0)
            self._gate.refusals.sweep()

    def _forked(self) -> None:
        self._started = False
        self._gate.forked()
