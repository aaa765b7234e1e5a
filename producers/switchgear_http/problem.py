"""Problem details: the JSON form of an error (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.types import Send

from switchgear_schemas.errors import SwitchgearError
from switchgear_schemas.visible import escaped

MEDIA_TYPE: Final = "application/problem+json"
_TITLES: Final = {413: "Content Too Large", 421: "Misdirected Request", 422: "Unprocessable Content"}
"""Where Python's names are older than RFC 9110."""

SCHEMA: Final = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong."},
        "hint": {"type": "string", "description": "What to do."},
    },
}
"""The JSON Schema of the answers, for OpenAPI."""


class ProblemError(SwitchgearError):
    """A request that is refused, as an answer.

    Args:
        status: The HTTP status.
        detail: What is wrong, as a sentence.
        hint: What to do.
        headers: More headers of the answer.
        extensions: More members of the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail, hint=hint)
        self.status = status
        self.headers = dict(headers or {})
        self._extensions = dict(extensions or {})

    @property
    def body(self) -> bytes:
        """The answer's content."""
        return encoded(members(self.status, self.message, self.hint) | self._extensions)

    async def send(self, send: Send) -> None:
        """Send the answer."""
        body = self.body
        headers = {"content-type": MEDIA_TYPE, "content-length": str(len(body)), **self.headers}
        await send(
            {
                "type": "http.response.start",
                "status": self.status,
                "headers": [
                    (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
                ],
            }
        )
        await send({"type": "http.response.body", "body": body})


def members(status: int, detail: str, hint: str = "") -> dict[str, Any]:
    """Return the members of problem details. ``hint`` is left out if it is empty."""
    title = _TITLES.get(status) or HTTPStatus(status).phrase
    found: dict[str, Any] = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return found | ({"hint": hint} if hint else {})


def encoded(content: Mapping[str, Any]) -> bytes:
    """Return JSON in which invisible characters are escaped, because a terminal may show it."""
    return escaped(msgspec.json.encode(content).decode()).encode()
