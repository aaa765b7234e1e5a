"""JSON requests and answers of the gateway. What is wrong is raised as a ProblemError, which the application answers."""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from switchgear_gateway.bodies import Held, without_bom
from switchgear_http.json_cost import is_dear
from switchgear_http.problem import ProblemError, encoded
from switchgear_http.routing import Parameter

T = TypeVar("T")

_JSON: Final = "application/json"
_PLACE: Final = re.compile(r"(?P<what>.*) - at `\$\.?(?P<field>.*)`", re.DOTALL)
_UNKNOWN: Final = "there is no such field"
_FIELD: Final = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<field>[^`]*)`")


async def body_of(request: Request, held: Held, most: int) -> bytes:
    """Return the body of a JSON request.

    The content type must be JSON. A page in a browser can't send that to a gateway without a CORS preflight, which the gateway refuses.

    Args:
        request: The request.
        held: Counts its bytes.
        most: The most bytes.

    Raises:
        ProblemError: It has another content type or is too large, all requests together hold too much, or the connection ended.
    """
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != _JSON:
        raise ProblemError(415, f"The content type is {given!r:.100}.", f"Send {_JSON}.")
    found = bytearray()
    try:
        async for chunk in request.stream():
            if len(found) + len(chunk) > most:
                raise ProblemError(413, f"The body is larger than {most:,} bytes.", "Send less.")
            held.add(len(chunk))
            found += chunk
    except ClientDisconnect:
        raise ProblemError(400, "The connection ended before the end of the body.") from None
    return bytes(found)


def decoded(body: bytes, kind: type[T]) -> T:
    """Return a request from its JSON.

    Raises:
        ProblemError: It isn't JSON (400), a field is wrong (422), or it has too many values (413). The message names the field.
    """
    if is_dear(body):
        raise ProblemError(
            413, "The body has too many values for its size.", "Send shorter lists, or long values as text."
        )
    try:
        return msgspec.json.decode(without_bom(body), type=kind)
    except msgspec.ValidationError as error:
        detail = _named(str(error))
        raise ProblemError(422, detail, _way_out(detail, kind)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProblemError(400, f"The body is not JSON: {error}.", "Send a JSON object.") from None


def json_answer(content: Any) -> Response:
    """Return an answer with JSON. Fields that are unset are left out."""
    return Response(encoded(msgspec.to_builtins(content)), media_type=_JSON)


def resent(what: str) -> Parameter:
    """Return the header that tells that a request comes again. ``what`` is what ``true`` says."""
    return Parameter("Switchgear-Resent", f"true: {what}", place="header", values=("true", "false"))


def address_of(request: Request) -> str:
    """Return the address of the client; empty if it isn't known."""
    return "" if request.client is None else request.client.host


def _named(message: str) -> str:
    """Return msgspec's message with the field first: ``tool: expected `str`, got `int`.`` for example."""
    place = _PLACE.fullmatch(message)
    if place is not None:
        inner = _FIELD.fullmatch(place["what"])
        if inner is None:
            what = place["what"]
            return f"{place['field']}: {what[:1].lower()}{what[1:]}."
        return f"{place['field']}.{inner['field']}: {_of_field(inner)}."
    field = _FIELD.match(message)
    return f"{message}." if field is None else f"{field['field']}: {_of_field(field)}."


def _way_out(detail: str, kind: Any) -> str:
    """Return what to do. If a field of the request itself doesn't exist, this lists those that do."""
    field = detail.removesuffix(f": {_UNKNOWN}.")
    if field == detail or "." in field or not issubclass(kind, msgspec.Struct):
        return "Correct it and send the request again."
    return f"Its fields are {', '.join(each.encode_name for each in msgspec.structs.fields(kind))}."


def _of_field(found: re.Match[str]) -> str:
    return "this field is missing" if found["what"].startswith("missing") else _UNKNOWN
