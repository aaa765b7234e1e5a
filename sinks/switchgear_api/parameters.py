"""Read query parameters and JSON bodies, and check their names and values."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final, Self, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from switchgear_api.answers import BadRequestError
from switchgear_http.json_cost import is_dear
from switchgear_http.routing import Parameter, route_of

MAX_LIMIT: Final = 10_000
MAX_HOURS: Final = 24 * 366
_TRUE: Final = frozenset({"1", "true", "yes"})
_FALSE: Final = frozenset({"0", "false", "no", ""})

_Body = TypeVar("_Body")
_KNOWN: Final[dict[str, tuple[str, str]]] = {
    "after": ("string", "The cursor `next` of the page before."),
    "class": ("string", "Only calls with this error class."),
    "component": ("string", "Only letters of the `worker` or the `sink`."),
    "field": ("string", "Only letters about this field."),
    "format": ("string", "`json`, or a file: `csv` or `parquet`."),
    "history": ("boolean", "1: the records, newest first."),
    "hours": ("number", "Hours to look back."),
    "limit": ("integer", "Most items of an answer."),
    "minutes": ("integer", "Whole minutes of the window, the present one included."),
    "new_rows_only": ("boolean", "1: leave the stored rows as they are."),
    "next": ("string", "Path of this server to go to after the login."),
    "refusing": ("boolean", "1: only the circuits that refuse calls, some or all of them."),
    "reason": ("string", "Only letters whose reason has this text."),
    "service": ("string", "Only calls of this service."),
    "session": ("string", "Only calls of this session."),
    "since": ("string", "A time, in UTC unless it has an offset. By default 24 hours ago."),
    "status": ("string", "`success`, `error`, `timeout`, `cancelled` or `rejected`."),
    "subject": ("string", "Only actions on this circuit, policy or letter."),
    "tenant": ("string", "Only this tenant's calls."),
    "troubled": ("boolean", "1: only the tools in trouble, with the totals of all."),
    "text": ("string", "Only calls with this text in the error, the tool's name or the metadata."),
    "threshold_ms": ("number", "Only calls that took longer, in milliseconds."),
    "tool": ("string", "Only this tool."),
    "until": ("string", "A time, as `since`. By default now."),
    "user": ("string", "Only calls of this user."),
}
"""Type and description of every parameter, by its name."""


def query(names: str) -> tuple[Parameter, ...]:
    """Return the parameters of a route's query, by their names with spaces between them."""
    return tuple(Parameter(name, _KNOWN[name][1], _KNOWN[name][0]) for name in names.split())


class Parameters:
    """The parameters of one request.

    Args:
        given: The parameters as received.
        known: The names that this route knows.

    Raises:
        BadRequestError: The route does not know a name.
    """

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = (
                    f"Did you mean {near[0]}?"
                    if near
                    else f"It may be: {', '.join(known)}."
                    if known
                    else "Leave it out."
                )
                raise BadRequestError(f"Unknown parameter {name}.", hint=hint)
        self._given = given

    @classmethod
    def of(cls, request: Request) -> Self:
        """Return the parameters of a request to a route.

        Raises:
            BadRequestError: The route does not know a name.
        """
        return cls(request.query_params, route_of(request).query)

    def text(self, name: str) -> str | None:
        """Return a text; None if it is absent or empty."""
        return self._given.get(name) or None

    def limit(self, default: int, name: str = "limit") -> int:
        """Return the maximum number of rows, 1 to 10,000."""
        return int(self._number(name, default, 1, MAX_LIMIT, whole=True))

    def hours(self, default: float | None) -> float | None:
        """Return how many hours to look back, at most a year."""
        if default is None and "hours" not in self._given:
            return None
        return self._number("hours", default or 1, 1 / 60, MAX_HOURS)

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """Return a number from ``least`` to ``most``."""
        return self._number(name, default, least, most)

    def flag(self, name: str) -> bool:
        """Return a boolean: 1, true, yes; or 0, false, no."""
        value = self._given.get(name, "").lower()
        if value not in _TRUE | _FALSE:
            raise BadRequestError(f"{name} must be 1 or 0, got {value!r}.")
        return value in _TRUE

    def _number(self, name: str, default: float, least: float, most: float, *, whole: bool = False) -> float:
        text = self._given.get(name)
        if text is None:
            return default
        kind = "a whole number" if whole else "a number"
        try:
            value = int(text) if whole else float(text)
        except ValueError:
            raise BadRequestError(f"{name} must be {kind}, got {text!r}.") from None
        if not least <= value <= most:  # NaN is in no range
            raise BadRequestError(f"{name} must be from {least:g} to {most:g}, got {text[:40]}.")
        return value


async def json_body(request: Request, kind: type[_Body], sample: str) -> _Body:
    """Return the JSON body of a request as ``kind``.

    Args:
        request: The request.
        kind: The form of the body.
        sample: The hint of an error: it shows a valid body.

    Raises:
        BadRequestError: The content type is not JSON, the body has another form or too many values, or the route does not know a query
            parameter.
    """
    Parameters.of(request)  # one that belongs into the body must not be ignored: ?dry_run=1
    # A browser sends this type to another site only with its consent, so a web page can't use a local Switchgear.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequestError("The content type must be application/json.", hint=sample)
    content = bytearray()
    try:
        async for chunk in request.stream():
            content += chunk  # the middleware limits the size
    except ClientDisconnect:
        raise BadRequestError("The connection ended before the body did.") from None
    if is_dear(bytes(content)):
        raise BadRequestError("The body is not as expected: it has too many values for its size.", hint=sample)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"The body is not as expected: {error}.", hint=sample) from None
