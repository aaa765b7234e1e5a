"""Refuse a tool, or a server, to a credential that it rejects.

A call that fails with class ``auth`` says nothing about the tool, because others sign in well. So no circuit counts it as a failure.
It is counted here, by tool and credential: after a few in a row, this credential is refused until it changes or a probe works.
Other credentials go on.

Nobody's credential is kept, only a salted hash. Where it isn't known, the session stands for it, then the user, then the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from switchgear.breaker import Breaker, BreakerPermit, BreakerRejection, Result, ResultKind
from switchgear.breaker.snapshot import SnapshotError
from switchgear.breaker.states import PASSING
from switchgear.breaker.values import ANSWERED, LOOKED_AT, MAX_COUNT, Count
from switchgear.guard.rejections import Caller, Rejection
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.plain_policy import PlainPolicy

if TYPE_CHECKING:
    from switchgear.guard.local_circuits import LocalCircuit
    from switchgear_schemas.enums import ErrorClass, Status

MOST_RUNS: Final = 4_096
FORGET_S: Final = 3_600.0
"""A run that nothing was asked or told about for so long is forgotten: the session is gone, or the token is."""
MOST_HASHED: Final = 65_536
"""The most characters of a credential to look at."""
_HASH_BYTES: Final = 12
_OFF: Final = frozenset({"disabled", "metrics_only"})
_FAILURE: Final = ResultKind.FAILURE


class _RejectionRun:
    """The calls with one credential that a tool, or the tools of a server, rejected in a row.

    Attributes:
        breaker: Decides. Its failures are rejected calls.
        family: The server, of the run of a tool too. None without one.
        limit: After how many of them it refuses.
        rejected: The number of calls.
        used_at: When it was last asked or told about something.
    """

    __slots__ = ("breaker", "family", "limit", "rejected", "used_at")

    def __init__(self, limit: int, family: str | None, now: float, *, of_server: bool) -> None:
        self.breaker = Breaker("", rules(limit, of_server=of_server), now)
        self.family = family
        self.limit = limit
        self.rejected = 0
        self.used_at = now


class _SavedRun(msgspec.Struct, array_like=True):
    breaker: bytes
    limit: Annotated[int, msgspec.Meta(ge=1, lt=MAX_COUNT)]
    rejected: Count


_decode: Final = msgspec.msgpack.Decoder(_SavedRun).decode
_encode: Final = msgspec.msgpack.Encoder().encode


class Held(NamedTuple):
    """What a permit holds of the runs of its caller's credential. Report its end, or give it back."""

    runs: tuple[tuple[_RejectionRun, BreakerPermit], ...]


_Name = tuple[str, str, str]
"""Of a run: tool, family, holder. Either the tool or the family is empty."""


def credential_kind(status: Status, error_class: ErrorClass | None) -> ResultKind:
    """Return what the end of a call says about its credential: it was rejected, it was accepted, or nothing."""
    if status == "error" and error_class == "auth":
        return ResultKind.FAILURE
    accepted = (status == "success" and error_class is None) or error_class in ANSWERED
    return ResultKind.SUCCESS if accepted else ResultKind.IGNORED


@lru_cache(maxsize=64)
def rules(limit: int, *, of_server: bool) -> PlainPolicy:
    """Return when a credential is refused after ``limit`` rejected calls in a row, and when it is tried again.

    A server's calls must be of two tools: a person may lack the right to one tool. A probe may take two minutes, because a person
    may have to permit it first.
    """
    return PlainPolicy(
        consecutive_failures=limit,
        minimum_tools=2 if of_server else 1,
        sliding_window_size=FORGET_S,
        backoff_multiplier=2.0,
        max_wait_duration_in_half_open_state_s=120,
    )


def limit_of(circuit: LocalCircuit) -> int | None:
    """Return how many calls in a row the tool of a circuit may reject. None if it refuses nobody."""
    breaker = circuit.breaker
    return None if breaker.state in _OFF else breaker.policy.consecutive_auth_failures


class Credentials:
    """Count rejected calls by tool and credential, and refuse. Thread-safe.

    Args:
        key: What hashes are salted with, 1 to 64 bytes. None: random, so that no other process has the same hashes.
        most: The most runs to remember. The one that was used longest ago is forgotten first.

    Attributes:
        shared: Whether other processes of the deployment have the same hashes.
        runs: By tool or server, and holder. Nearly always it is empty: look before you ask. It stays the same object.
    """

    def __init__(self, key: bytes | None = None, *, most: int = MOST_RUNS) -> None:
        self.shared = key is not None
        self._key = os.urandom(32) if key is None else bytes(key)
        self.runs = BoundedDict[_Name, _RejectionRun](most)
        self._lock = threading.RLock()
        call_in_child(self._forked)

    def salted(self, text: str, kind: str = "credential") -> str:
        """Return the hash of a credential, or of what stands for it. A token that looks like a session's id is another one."""
        data = f"{kind} {text[:MOST_HASHED]}".encode("utf-8", "surrogatepass")
        return blake2b(data, key=self._key, digest_size=_HASH_BYTES).hexdigest()

    def holder_of(self, caller: Caller) -> str:
        """Return what stands for the credential of a call: its hash, or that of the session or the user. Empty for the process."""
        if caller.credential:
            return caller.credential
        if caller.session_id:
            return self.salted(caller.session_id, "session")
        return self.salted(caller.user_id, "user") if caller.user_id else ""

    def admit(self, tool: str, family: str | None, caller: Caller, now: float) -> Held | Rejection | None:
        """Decide about a call of ``tool``, whose server is ``family``, that the circuits permit.

        Returns:
            The refusal, None, or what the permit holds. The run of a server that doesn't pass decides alone, for all its tools.
        """
        holder = self.holder_of(caller)
        with self._lock:
            self._forget_old(now)
            asked: list[tuple[_RejectionRun, BreakerPermit]] = []
            for name in self._names(tool, family, holder):
                run = self.runs.get(name)
                if run is None:
                    continue
                self._use(name, run, now)
                answer = run.breaker.try_acquire(now)
                if isinstance(answer, BreakerRejection):
                    self._give_back(asked, now)
                    return _refusal(tool, run, answer, of_server=not name[0])
                asked.append((run, answer))
                if run.breaker.state not in PASSING:
                    break
        return Held(tuple(asked)) if asked else None

    def would_refuse(self, tool: str, family: str | None, caller: Caller, now: float) -> bool:
        """Return whether a call would be refused. Takes no probe."""
        holder = self.holder_of(caller)
        with self._lock:
            for name in self._names(tool, family, holder):
                run = self.runs.get(name)
                if run is not None and run.breaker.state not in PASSING:
                    return run.breaker.would_refuse(now)
        return False

    def ended(
        self, tool: str, family: str | None, caller: Caller, held: Held | None, limit: int, now: float, kind: ResultKind
    ) -> None:
        """Count the end of a call.

        Args:
            tool: The tool's name.
            family: Its server; None without one.
            caller: For whom it was made.
            held: What its permit held.
            limit: See :func:`limit_of`.
            now: Monotonic seconds.
            kind: What it says about the credential: see :func:`credential_kind`.
        """
        permits = {} if held is None else {id(run): permit for run, permit in held.runs}
        holder = self.holder_of(caller)
        result = Result(kind, tool=tool)
        with self._lock:
            for name in self._names(tool, family, holder):
                run = self.runs.get(name)
                if run is None:
                    if kind is not _FAILURE:
                        continue
                    run = self._begun(name, family, limit, now)
                self._use(name, run, now)
                run.rejected += kind is _FAILURE
                permit = permits.get(id(run))
                alone = permit is not None and permit.probe
                run.breaker.record(now, result, permit)
                if run.breaker.quiet is not None and kind is not _FAILURE:
                    del self.runs[name]
                    if alone and not name[0]:
                        self._free(family, holder)
                if alone:
                    break

    def give_back(self, held: Held, now: float) -> None:
        """Give back what the permit of a call holds that wasn't made."""
        with self._lock:
            self._give_back(held.runs, now)

    # -- for processes that live for one event ------------------------------------------------------------------------

    def saved(self, tool: str, family: str | None, caller: Caller) -> list[bytes | None]:
        """Return the runs of the server and of the tool for :meth:`load`. Without a server, of the tool alone."""
        found = [self.runs.get(name) for name in self._names(tool, family, self.holder_of(caller))]
        return [
            None if run is None else _encode(_SavedRun(run.breaker.snapshot(), run.limit, run.rejected))
            for run in found
        ]

    def load(self, tool: str, family: str | None, caller: Caller, runs: Iterable[bytes | None], now: float) -> None:
        """Go on with what :meth:`saved` returned. A run that can't be read is left out."""
        for name, data in zip(self._names(tool, family, self.holder_of(caller)), runs, strict=True):
            if data is None:
                continue
            try:
                saved = _decode(data)
                run = self._begun(name, family, saved.limit, now)
                run.breaker, run.rejected = Breaker.restore(saved.breaker, run.breaker.policy), saved.rejected
            except (msgspec.MsgspecError, SnapshotError):
                self.runs.pop(name, None)

    def refuses_server(self, family: str, caller: Caller) -> bool:
        """Return whether the server refuses the credential, or is tried again."""
        run = self.runs.get(("", family, self.holder_of(caller)))
        return run is not None and run.breaker.state not in PASSING

    def taken_apart(
        self, tool: str, family: str | None, caller: Caller, held: Held | None
    ) -> list[BreakerPermit | None]:
        """Return the permits that ``held`` has of the server and of the tool, for :meth:`held`."""
        permits = {} if held is None else {id(run): permit for run, permit in held.runs}
        names = self._names(tool, family, self.holder_of(caller))
        return [permits.get(id(self.runs.get(name))) for name in names]

    def held(
        self, tool: str, family: str | None, caller: Caller, permits: Iterable[BreakerPermit | None]
    ) -> Held | None:
        """Return what :meth:`taken_apart` took apart, as far as its runs are known."""
        names = self._names(tool, family, self.holder_of(caller))
        pairs = [(self.runs.get(name), permit) for name, permit in zip(names, permits, strict=False)]
        found = tuple((run, permit) for run, permit in pairs if run is not None and permit is not None)
        return Held(found) if found else None

    # -- inside -------------------------------------------------------------------------------------------------------

    @staticmethod
    def _names(tool: str, family: str | None, holder: str) -> tuple[_Name, ...]:
        own = (tool, "", holder)
        return (own,) if family is None else (("", family, holder), own)

    @staticmethod
    def _give_back(asked: Iterable[tuple[_RejectionRun, BreakerPermit]], now: float) -> None:
        for run, permit in asked:
            run.breaker.release(permit, now)

    def _begun(self, name: _Name, family: str | None, limit: int, now: float) -> _RejectionRun:
        run = self.runs[name] = _RejectionRun(limit, family, now, of_server=not name[0])
        return run

    def _use(self, name: _Name, run: _RejectionRun, now: float) -> None:
        self.runs.move_to_end(name)  # the last one that was used
        run.used_at = now

    def _free(self, family: str | None, holder: str) -> None:
        """Try the tools of a server again that accepts the credential again."""
        for name, run in list(self.runs.items()):
            if name[2] == holder and run.family == family:
                del self.runs[name]

    def _forget_old(self, now: float) -> None:
        for name, run in list(islice(self.runs.items(), LOOKED_AT)):
            if now - run.used_at <= FORGET_S:
                return
            del self.runs[name]

    def _forked(self) -> None:
        """In the child of a fork: the parent's threads, which hold the lock and make probes, aren't here."""
        self._lock = threading.RLock()
        for run in list(self.runs.values()):
            run.breaker.abandon_probes()


def _refusal(tool: str, run: _RejectionRun, answer: BreakerRejection, *, of_server: bool) -> Rejection:
    count = run.rejected
    return Rejection(
        tool,
        answer.state,
        "credential",
        f"{count} call{'s' if count > 1 else ''} in a row",
        answer.retry_after_s,
        scope="family" if of_server else "tool",
        family=run.family if of_server else None,
        failures=count,
    )
