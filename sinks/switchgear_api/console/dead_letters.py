"""The page of dead letters: list, inspect, repair and send again."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from typing import Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from switchgear_api.answers import BadRequestError, NotFoundError, json_answer
from switchgear_api.console.actions import Reason
from switchgear_api.console.audit import Action, Audit
from switchgear_api.console.page_shapes import DeadLetter
from switchgear_api.console.records import iso
from switchgear_api.parameters import Parameters, json_body, query
from switchgear_api.rights import Rights
from switchgear_http.principal import Role
from switchgear_http.problem import ProblemError
from switchgear_http.routing import Handlers, route
from switchgear_schemas.errors import BrokerUnavailableError, InvalidExecutionError
from switchgear_schemas.settings import Settings
from switchgear_sinks.dead.letters import Selection, StoredLetter, hexdump
from switchgear_sinks.dead.retry import Retry
from switchgear_sinks.dead.topic import TooManyLettersError, read_letters

KEPT_S: Final = 5.0
READ_LIMIT_S: Final = 50.0
_ID: Final = re.compile(r"(0|[1-9][0-9]{0,8})-(0|[1-9][0-9]{0,17})")
_CURSOR: Final = re.compile(r"(-?[0-9]{1,19})-([0-9]{1,9})-([0-9]{1,18})")
_WHAT: Final = "Dead letters, which may be of any tenant,"
_SAMPLE: Final = (
    'Send {"value": "{\\"tool_name\\": …}", "reason": "corrected the status"} as application/json; value may be null.'
)


class RetryBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a retry. Without a ``value`` the letter's own bytes are sent."""

    reason: Reason
    value: str | None = None


class DeadLetters(Handlers):
    """The handlers.

    Args:
        settings: The brokers and topics.
        audit: Retries are recorded.
    """

    def __init__(self, settings: Settings, audit: Audit) -> None:
        self._settings = settings
        self._audit = audit
        self._turn = asyncio.Lock()
        self._sending = asyncio.Lock()
        self._selection = Selection()
        self._letters: list[StoredLetter] = []
        """The selected ones, newest first."""
        self._read_at = float("-inf")

    @route("GET", "/v1/dead-letters", Role.READ, query("reason tool component field after limit"))
    async def listed(self, request: Request) -> Response:
        """List dead letters, newest first."""
        given = Parameters.of(request)
        Rights.of(request).check_unrestricted(_WHAT)
        selection = Selection(given.text("reason"), given.text("component"), given.text("tool"), given.text("field"))
        limit, after = min(given.limit(50), 1_000), _position_of(given.text("after"))
        found = await self._selected(selection)
        rest = found if after is None else [each for each in found if _position(each) < after]
        shown = rest[:limit]
        following = "-".join(map(str, _position(shown[-1]))) if len(rest) > len(shown) else None
        return json_answer({"items": [summary(each) for each in shown], "next": following, "total": len(found)})

    @route("GET", "/v1/dead-letters/{identity}", Role.READ)
    async def letter(self, request: Request) -> Response:
        """Show a dead letter with its bytes."""
        Rights.of(request).check_unrestricted(_WHAT)
        return json_answer(in_full(await self._find(request.path_params["identity"])))

    @route("POST", "/v1/dead-letters/{identity}/retry", Role.OPERATE, body=RetryBody)
    async def retry(self, request: Request) -> Response:
        """Send a dead letter again, repaired if a value is given."""
        Rights.of(request).check_unrestricted(_WHAT)
        body = await json_body(request, RetryBody, _SAMPLE)
        name: str = request.path_params["identity"]
        async with self._sending:  # of two at once, the second one finds that the letter was sent
            letter = await self._find(name, fresh=True)
            action = Action.of(request, "retry_dead_letter", name, body.reason, before=summary(letter))
            await self._audit.write(action)
            async with self._audit.noting_failure(action):
                error = await self._send(letter, body.value)
        if error is not None:
            await self._audit.write(action.ended("refused", error.reason))
            where = f"{error.field}: " if error.field else ""
            raise BadRequestError(
                f"The letter can't be sent: {where}{error.reason}.", hint="Correct the value and try again."
            )
        await self._audit.write(replace(action.ended("applied"), after={"sent_to": self._settings.topics.executions}))
        sent = letter.text if body.value is None else body.value
        return json_answer(
            {
                "audit_id": str(action.audit_id),
                "sent_to": self._settings.topics.executions,
                "key": letter.key,
                "value": sent,
            }
        )

    async def _find(self, name: str, *, fresh: bool = False) -> StoredLetter:
        given = _ID.fullmatch(name)
        if given is None:
            raise NotFoundError(
                f"{name[:80]!r} is not the id of a dead letter.", hint="Ids are partition-offset, such as 0-17."
            )
        async with self._turn:
            letters = [] if fresh or self._old else self._letters
            found = next((each for each in letters if identity(each) == name), None)
            if found is None:
                found = next(iter(await self._read(Selection(place=(int(given[1]), int(given[2]))))), None)
        if found is None:
            raise NotFoundError(f"There is no dead letter {name}.", hint="It was sent again, or its topic dropped it.")
        return found

    async def _selected(self, selection: Selection) -> list[StoredLetter]:
        """Return the selected letters, newest first, at most a few seconds old."""
        async with self._turn:
            if self._old or self._selection != selection:
                self._letters = sorted(await self._read(selection), key=_position, reverse=True)
                self._selection, self._read_at = selection, time.monotonic()
            return self._letters

    @property
    def _old(self) -> bool:
        return time.monotonic() - self._read_at > KEPT_S

    async def _read(self, selection: Selection) -> list[StoredLetter]:
        try:
            async with asyncio.timeout(READ_LIMIT_S):
                return await read_letters(self._settings.kafka, self._settings.topics.dead, selection)
        except TimeoutError:
            raise BrokerUnavailableError(
                f"Kafka did not deliver the dead letters within {READ_LIMIT_S:.0f} s.", hint="Try again in a moment."
            ) from None
        except TooManyLettersError as error:
            raise ProblemError(422, error.message, "Narrow them: ?tool=, ?reason=, ?component= or ?field=.") from None

    async def _send(self, letter: StoredLetter, value: str | None) -> InvalidExecutionError | None:
        """Send a letter, repaired if a value is given. Return why it can't be sent, or None."""
        repairs = {} if value is None else {letter.key: value.encode()}
        try:
            async with Retry(self._settings.kafka, self._settings.topics, self._settings.family_pattern) as retry:
                outcomes = [outcome async for outcome in retry.send([letter], repairs)]
        finally:
            self._read_at = float("-inf")
        return outcomes[0].error


def identity(letter: StoredLetter) -> str:
    """Return the id of a letter: its place in the dead-letter topic."""
    return f"{letter.partition}-{letter.offset}"


def _position(letter: StoredLetter) -> tuple[int, int, int]:
    """Return the place of a letter in the order of the list. It is a page's ``next`` too, so that the letter itself may go."""
    return letter.letter.timestamp_ms, letter.partition, letter.offset


def _position_of(after: str | None) -> tuple[int, ...] | None:
    if after is None:
        return None
    found = _CURSOR.fullmatch(after)
    if found is None:
        raise BadRequestError(
            f"after {after[:80]!r} is not a place in this list.", hint="Pass next of the page before, unchanged."
        )
    return tuple(map(int, found.groups()))


def summary(letter: StoredLetter) -> DeadLetter:
    """Return a letter without its bytes."""
    place = {"id": identity(letter), "at": iso(letter.at), "written_at": iso(letter.written_at)}
    return cast("DeadLetter", letter.summary() | place)


def in_full(letter: StoredLetter) -> DeadLetter:
    """Return a letter with its bytes as ``text``, or as a ``hex`` dump if they are not text."""
    original = letter.letter.original_key
    return {
        **summary(letter),
        "original_key": None if original is None else original.decode(errors="replace"),
        "text": letter.text,
        "hex": hexdump(letter.letter.body) if letter.text is None else None,
    }
