"""Find the exception of which a framework or an exporter made a text. What tools say themselves is for :mod:`.result`."""

from __future__ import annotations

import re
from typing import Final

from switchgear.classify.result import MAX_TEXT, client_error, outage_in_text
from switchgear_schemas.enums import ErrorClass

_OF_SERVER: Final = "MCP tool execution failed: "
"""How McpTool of google-adk begins its answer for an error of its MCP client."""
_OF_OTHERS: Final = "Unexpected error during MCP tool execution: "
"""How it begins its answer for any other exception. None of them is an answer of the server."""
_NO_SESSION: Final = "Failed to create MCP session"
_MOST: Final = 300
"""The most characters of the longest text of the SDK."""
_TIMED_OUT: Final = re.compile(
    r"Timed out while waiting for response to \w+\. Waited [0-9.]+ seconds\.|Request '[\w/]+' timed out"
)
"""What the MCP SDK 1 and 2 say after their own time limit, as the whole text."""
_QUOTED: Final = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,80}(?=\(|:(?: |\Z))", re.ASCII)
_ENDINGS: Final = ("Error", "Exception", "Timeout", "Interrupt", "Exit", "Warning", "Cancelled", "Retry")
"""How the names of exceptions end."""


def quoted_error(text: str) -> tuple[str, str] | None:
    """Return the type and the message of the exception that a text begins with, as ``repr`` or as Python prints it.

    ``ValueError('no such city')`` and ``httpx.ConnectError: no route`` are such texts. None for all others.
    """
    found = _QUOTED.match(text[:MAX_TEXT])
    if found is None or not found[0].endswith(_ENDINGS):
        return None
    rest = text[found.end() : MAX_TEXT]
    if rest.startswith(":"):
        return found[0], rest[2:]
    said = rest[1:].rstrip().removesuffix(")")
    quoted = len(said) > 1 and said[0] == said[-1] and said[0] in "'\""
    return found[0], said[1:-1] if quoted else said


def caught_error(text: str) -> ErrorClass | None:
    """Return the class of the exception that google-adk's McpTool turned into the text of an ``error``.

    None if the server answered, and for every other text. Ask only about texts of an McpTool: any tool may use the same words.
    """
    if text.startswith(_OF_SERVER):
        said = text.removeprefix(_OF_SERVER)
        timed_out = len(said) < _MOST and _TIMED_OUT.fullmatch(said.strip())
        return "timeout" if timed_out else client_error(said)
    if text.startswith(_OF_OTHERS):
        said = text.removeprefix(_OF_OTHERS)
        return outage_in_text(said) or ("transport" if said.startswith(_NO_SESSION) else "unknown")
    return None
