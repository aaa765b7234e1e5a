"""``POST /v1/executions``: take a client's executions, and answer when Kafka has acknowledged them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from switchgear_gateway.bodies import read_body, without_bom
from switchgear_gateway.checking import MOST_WARNINGS, Checked, check_in_turn
from switchgear_gateway.clients import Leaving
from switchgear_gateway.emitter_clocks import EmitterClocks
from switchgear_gateway.json_requests import resent
from switchgear_gateway.publisher import Publisher, Submission
from switchgear_gateway.shared import Shared
from switchgear_http.middleware import principal_of
from switchgear_http.principal import Role
from switchgear_http.problem import MEDIA_TYPE, ProblemError
from switchgear_http.routing import Handlers, Parameter, Reply, route
from switchgear_http.turns import Turn

MAX_ITEMS: Final = 10_000
"""Executions in one request."""
MAX_REASONS: Final = 100
_MAX_COMMAS: Final = 50 * MAX_ITEMS
"""In a JSON array. An execution with all its fields has 30."""
_BYTES_PER_COMMA: Final = 8
"""Each value of an array takes 64 bytes until it is decoded. A field with its name is longer than this."""
_ITEM_BYTES: Final = 1_000
"""What an execution takes beside its bytes. One of a tool of its own takes the most."""
_STEP_BYTES: Final = 1_048_576
"""So much of a body is taken apart before others go on."""
_NDJSON: Final = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
_JSON: Final = "application/json"
_array: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode: Final = msgspec.json.encode


_COUNT: Final = {"type": "integer", "minimum": 0}
_REJECTED: Final = {
    "type": "array",
    "maxItems": MAX_REASONS,
    "items": {
        "type": "object",
        "required": ["index", "reason"],
        "properties": {"index": _COUNT, "reason": {"type": "string"}},
    },
}


_WARNINGS: Final = {
    "type": "array",
    "maxItems": MOST_WARNINGS,
    "items": {"type": "string"},
    "description": "What is wrong with an emitter, such as a clock that is ahead or times without a zone. Each is told once.",
}
_EXECUTION: Final = {"$ref": "#/components/schemas/ToolExecution"}
_BODY: Final = {
    "application/x-ndjson": {"schema": _EXECUTION},
    _JSON: {"schema": {"type": "array", "maxItems": MAX_ITEMS, "items": _EXECUTION}},
}


def _answer(description: str, properties: Mapping[str, Any], media: str = _JSON) -> Reply:
    return Reply(description, {media: {"schema": {"type": "object", "properties": dict(properties) | _TOLD}}})


_TOLD: Final = {"rejected": _REJECTED, "warnings": _WARNINGS}
_ANSWERS: Final = {
    200: _answer("Kafka has the accepted ones.", {"accepted": _COUNT}),
    202: _answer("They wait to be sent.", {"queued": _COUNT}),
    429: Reply(
        "Too many requests are in progress.", {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    ),
    503: _answer(
        "Kafka did not answer for all. Without `unknown`, nothing was taken.",
        {"accepted": _COUNT, "unknown": {"type": "array", "items": {"type": "integer"}}},
        MEDIA_TYPE,
    ),
}
_HEADERS: Final = (
    resent("an earlier request may have sent these executions."),
    Parameter("Prefer", "respond-async: don't wait for Kafka.", place="header", values=("respond-async",)),
    Parameter("Content-Encoding", "Compression of the body.", place="header", values=("gzip", "zstd", "identity")),
)


class ExecutionRoutes(Handlers):
    """The route.

    Args:
        publisher: Sends them.
        clocks: Finds the emitters whose clock is wrong.
        shared: What all routes share.
    """

    def __init__(self, publisher: Publisher, clocks: EmitterClocks, shared: Shared) -> None:
        self._publisher = publisher
        self._clocks = clocks
        self._shared = shared

    @route(
        "POST",
        "/v1/executions",
        Role.EMIT,
        _HEADERS,
        body=_BODY,
        answers=_ANSWERS,
        description="Answers when Kafka has acknowledged them, or at once with `Prefer: respond-async`.",
    )
    async def post(self, request: Request) -> Response:
        """Take executions."""
        principal, turn = principal_of(request.scope), Turn()
        with self._shared.budget.request(principal.credential) as held:
            body = await read_body(request, held)
            held.add(len(body))  # the executions, taken apart
            await turn.pause()
            items = await _items(body, request.headers.get("content-type", ""), turn)
            held.add(_ITEM_BYTES * len(items))
            del body
            checked = await check_in_turn(items, principal, turn, self._clocks, names=self._shared.names)
            del items
            self._shared.tenant_tools.note(principal, checked.runs)
            self._publisher.rejected += len(checked.rejected)
            leaving = Leaving(request)
            try:
                # A client that has gone may have sent these to another gateway meanwhile: this one was stopped, or cut off, for a while.
                resent = _is_true(request.headers.get("switchgear-resent")) or await leaving.already()
                submission = await self._publisher.submit(checked.runs, turn, resent=resent)
                if "respond-async" in request.headers.get("prefer", "").lower():
                    content = {"queued": checked.sendable, "rejected": _reasons(checked.rejected)} | _warned(checked)
                    return Response(_encode(content), 202, {"Preference-Applied": "respond-async"}, _JSON)
                unknown = await submission.wait(leaving.gone)
            finally:
                leaving.stop()
        return self._answer(checked, submission, unknown)

    def _answer(self, checked: Checked, submission: Submission, unknown: list[int]) -> Response:
        rejected = sorted(checked.rejected + submission.refused)
        accepted = checked.sendable - len(submission.refused) - len(unknown)
        if not unknown:
            content = {"accepted": accepted, "rejected": _reasons(rejected)} | _warned(checked)
            return Response(_encode(content), media_type=_JSON)
        self._publisher.unknown += len(unknown)
        raise ProblemError(
            503,
            f"Kafka did not say whether it has {len(unknown)} of the executions.",
            "Send those in `unknown` again, with the header Switchgear-Resent: true.",
            {"Retry-After": "1"},
            {
                "accepted": accepted,
                "rejected": _reasons(rejected),
                "unknown": unknown,
            }
            | _warned(checked),
        )


async def _items(body: bytes, content_type: str, turn: Turn) -> list[bytes]:
    found: list[bytes] = []
    body = without_bom(body)
    kind = content_type.partition(";")[0].strip().lower()
    if kind in _NDJSON:
        _check_values(body.count(b"\n"), 2 * MAX_ITEMS)
        at = 0
        while at < len(body):
            end = body.find(b"\n", at + _STEP_BYTES) + 1 or len(body)
            found += [line for line in body[at:end].split(b"\n") if line and not line.isspace()]
            at = end
            await turn.pause()
    elif kind == _JSON:
        _check_values(body.count(b","), _MAX_COMMAS)
        if body.count(b",") > max(MAX_ITEMS, len(body) // _BYTES_PER_COMMA):
            raise ProblemError(
                413,
                "The JSON array has too many values for its size.",
                "Send one object a line as application/x-ndjson.",
            )
        try:
            items = _array(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise ProblemError(
                400,
                f"The body isn't a JSON array: {str(error)[:200]}.",
                "Send [{…}, {…}], or one object a line as application/x-ndjson.",
            ) from None
        for item in items:
            found.append(bytes(item))
            await turn.pause()
    else:
        raise ProblemError(
            415, f"The content type {content_type!r:.100} is unknown.", "Use application/x-ndjson or application/json."
        )
    if len(found) > MAX_ITEMS:
        raise ProblemError(
            413, f"The body has {len(found):,} executions, more than {MAX_ITEMS:,}.", "Send fewer at once."
        )
    return found


def _check_values(count: int, most: int) -> None:
    """Check, before it is taken apart, that a body doesn't have many more parts than it may have executions."""
    if count > most:
        raise ProblemError(413, f"The body has more than {MAX_ITEMS:,} executions.", "Send fewer at once.")


def _reasons(rejected: list[tuple[int, str]]) -> list[dict[str, Any]]:
    return [{"index": index, "reason": reason[:500]} for index, reason in rejected[:MAX_REASONS]]


def _warned(checked: Checked) -> dict[str, Any]:
    return {"warnings": checked.warnings} if checked.warnings else {}


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() in {"true", "1"}
