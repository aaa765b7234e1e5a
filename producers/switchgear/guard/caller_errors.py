"""Refuse a tool to the session that keeps sending it bad arguments.

Such failures say nothing about the tool, so no circuit counts them. They are counted here, by session and tool, or by session and
target where the tool's policy keeps targets apart: one site's errors say nothing about another site. The first refusal shows the model what is wrong. After it, each call with other arguments is a trial.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Final

import msgspec

from switchgear.guard.rejections import Rejection
from switchgear.model_text import MOST_OF_AN_ERROR
from switchgear.redaction import redact
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.enums import ErrorClass

DEFAULT_MAX_CALLER_ERRORS: Final = 3
MOST_RUNS: Final = 4_096
MOST_ARGUMENTS: Final = 1_000
"""The most arguments of one run to remember. The oldest are forgotten first."""
CALLER_CLASSES: Final[frozenset[ErrorClass]] = frozenset({"tool", "invalid_input"})
"""The classes of failures that count: the tool answered that it can't do what was asked."""
_SAYS_NOTHING: Final[frozenset[ErrorClass]] = frozenset({"cancelled", "policy"})
_LEAST_RATIO: Final = 0.6
"""Texts whose similarity (difflib's ratio) is lower are different errors."""
_UNKNOWN: Final = ""
"""Stands for the arguments of a trial that aren't known, as those of a permit."""

_ABOUT: Final = "\0"
"""Between a tool's name and the target that its calls are about."""

Arguments = Callable[[], str | None]
"""Returns the hash of a call's arguments, or None if they aren't known."""


class _CallerErrorRun(msgspec.Struct):
    """The caller errors in a row of one tool in one session."""

    error_type: str | None
    words: str
    """The message of the last error without the parts that differ from call to call."""
    message: str
    """The message with its secrets."""
    count: int = 0
    tried: dict[str, None] = {}
    """The hashes of the arguments that failed or are on trial, in that order."""
    refused: bool = False
    """The model knows what is wrong."""
    may_try: bool = False
    """The next call is a trial if its arguments aren't known."""
    shown: str | None = None
    """The error without secrets, made at the first refusal after each failure."""

    def is_like(self, error_type: str | None, words: str) -> bool:
        """Return whether an error is the same mistake as the last one."""
        if error_type != self.error_type:
            return False
        if words == self.words:
            return True
        from difflib import SequenceMatcher  # noqa: PLC0415 - costs time that an import of switchgear must not

        return SequenceMatcher(None, self.words, words, autojunk=False).ratio() >= _LEAST_RATIO

    def refuses(self, arguments: str | None) -> bool:
        """Return whether a call with ``arguments`` is refused, once the run is long enough."""
        if not self.refused:
            return True
        return not self.may_try if arguments is None else arguments in self.tried

    def try_out(self, arguments: str) -> None:
        """Note that ``arguments`` were used."""
        self.tried[arguments] = None
        if len(self.tried) > MOST_ARGUMENTS:
            del self.tried[next(iter(self.tried))]


_decode: Final = msgspec.msgpack.Decoder(_CallerErrorRun).decode


class CallerErrors:
    """Count caller errors in a row, by session and tool. Thread-safe.

    Args:
        limit: The most runs to remember. The one that was used longest ago is forgotten first.

    Attributes:
        refusals: The number of calls that were refused.
        runs: The caller errors in a row, by session and tool. Nearly always it is empty: look before you ask.
    """

    def __init__(self, limit: int = MOST_RUNS) -> None:
        self.refusals = 0
        self.runs = BoundedDict[tuple[str, str], _CallerErrorRun](limit)
        self._replace_lock()
        call_in_child(self._replace_lock)

    def __len__(self) -> int:
        return len(self.runs)

    def count(self, session_id: str, tool: str) -> int:
        """Return the number of caller errors in a row."""
        run = self.runs.get((session_id, tool))
        return 0 if run is None else run.count

    def would_refuse(self, session_id: str, tool: str, most: int) -> bool:
        """Return whether the next call would be refused, whatever its arguments. Changes nothing."""
        run = self.runs.get((session_id, tool))
        return run is not None and run.count >= most and not run.may_try

    def admit(self, session_id: str, tool: str, most: int, arguments: Arguments | None) -> Rejection | str | None:
        """Decide about a call.

        Args:
            session_id: The session.
            tool: The tool's name, or what :func:`run_name` returns.
            most: Refuse calls after this many caller errors in a row.
            arguments: Returns their hash. It is called only if the answer depends on it.

        Returns:
            The refusal, None, or a trial. Pass a trial to :meth:`give_back` if the call is not made.
        """
        name = (session_id, tool)
        run = self.runs.get(name)
        if run is None or run.count < most:
            return None
        key = None if arguments is None else arguments()
        with self.lock:
            run = self.runs.get(name)
            if run is None or run.count < most:  # a success since
                return None
            self.runs.move_to_end(name)
            if not run.refuses(key):
                if key is None:
                    run.may_try = False
                    return _UNKNOWN
                run.try_out(key)
                return key
            run.refused = run.may_try = True
            self.refusals += 1
            if run.shown is None:
                run.shown = redact(": ".join(part for part in (run.error_type, run.message) if part))
            reason = f"{run.count} caller error{'s' if run.count > 1 else ''} in a row"
            tool, _, target = tool.partition(_ABOUT)
            return Rejection(tool, "open", "caller", reason, None, run.shown, failures=run.count, target=target)

    def give_back(self, session_id: str, tool: str, trial: str) -> None:
        """Take back a trial that says nothing about its arguments: the same arguments may be tried again."""
        with self.lock:
            run = self.runs.get((session_id, tool))
            if run is None:
                return
            if trial == _UNKNOWN:
                run.may_try = run.refused
            else:
                run.tried.pop(trial, None)

    def failed(
        self, session_id: str, tool: str, error_type: str | None, message: str, arguments: str | None = None
    ) -> None:
        """Count a caller error. One that is notably different from the last one starts a new run."""
        name, words = (session_id, tool), normalised(message)
        with self.lock:
            run = self.runs.get(name)
            if run is None or not run.is_like(error_type, words):
                run = _CallerErrorRun(error_type, words, message)
            self.runs[name] = run  # the newest
            run.count += 1
            run.words, run.message, run.shown = words, message, None
            if arguments is None:
                run.may_try = False
            else:
                run.try_out(arguments)

    def start_afresh(self, session_id: str, tool: str) -> None:
        """Forget the caller errors of a tool: it answered, or failed in another way."""
        if (session_id, tool) in self.runs:
            with self.lock:
                self.runs.pop((session_id, tool), None)

    def forget(self, session_id: str) -> None:
        """Forget the caller errors of a session that ended."""
        with self.lock:
            for name in [name for name in self.runs if name[0] == session_id]:
                del self.runs[name]

    def saved(self, session_id: str, tool: str) -> bytes | None:
        """Return the caller errors in a row as bytes for :meth:`load`, None without any. They hold the message with its secrets."""
        run = self.runs.get((session_id, tool))
        return None if run is None else msgspec.msgpack.encode(run)

    def load(self, session_id: str, tool: str, data: bytes) -> None:
        """Go on with what :meth:`saved` returned, maybe in another process.

        Raises:
            msgspec.DecodeError: The bytes are something else.
        """
        with self.lock:
            self.runs[session_id, tool] = _decode(data)

    def _replace_lock(self) -> None:
        self.lock = threading.RLock()  # a signal handler may call a tool while this thread holds it


class CallerErrorLimit:
    """The limit of one session.

    Args:
        errors: Counts for all sessions of the client.
        session_id: The session. The process's calls without a session are the session with the empty id.
        most: Refuse a tool after this many caller errors in a row.

    Attributes:
        refused: The number of refused calls by tool.
        runs: See :class:`CallerErrors`.
    """

    def __init__(self, errors: CallerErrors, session_id: str, most: int) -> None:
        self._errors = errors
        self._session_id = session_id
        self._most = most
        self.refused: dict[str, int] = {}
        self.runs = errors.runs

    def admit(self, tool: str, arguments: Arguments | None) -> Rejection | str | None:
        """:meth:`CallerErrors.admit`."""
        answer = self._errors.admit(self._session_id, tool, self._most, arguments)
        if isinstance(answer, Rejection):
            with self._errors.lock:
                self.refused[tool] = self.refused.get(tool, 0) + 1
        return answer

    def give_back(self, tool: str, trial: str) -> None:
        """:meth:`CallerErrors.give_back`."""
        self._errors.give_back(self._session_id, tool, trial)

    def ended(
        self,
        tool: str,
        trial: str | None,
        error_class: ErrorClass | None,
        error_type: str | None,
        message: str | None,
        arguments: str | None,
    ) -> None:
        """Count the end of a call, a ``trial`` or not. The class is None after a success."""
        if error_class in CALLER_CLASSES:
            self._errors.failed(self._session_id, tool, error_type, message or "", trial or arguments)
        elif error_class not in _SAYS_NOTHING:
            self._errors.start_afresh(self._session_id, tool)
        elif trial is not None:
            self.give_back(tool, trial)

    def would_refuse(self, tool: str) -> bool:
        """Return whether the next call would be refused, whatever its arguments."""
        return self._errors.would_refuse(self._session_id, tool, self._most)


def run_name(tool: str, target: str) -> str:
    """Return the name by which the errors in a row are counted of the calls of a tool that are about ``target``."""
    return f"{tool}{_ABOUT}{target}" if target else tool


def normalised(message: str) -> str:
    """Return the words of a message without what differs from call to call: numbers, ids, quoted parts and capitals."""
    text = message[:MOST_OF_AN_ERROR].lower()
    text = re.sub(r"\"[^\"]*\"|`[^`]*`|(?<!\w)'[^']*'(?!\w)", " ", text)
    return " ".join(re.sub(r"[\w-]*[0-9][\w-]*", " ", text).split())
