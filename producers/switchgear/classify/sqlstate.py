"""Databases: the five characters of SQLSTATE (ISO 9075), which psycopg, asyncpg and others put on their exceptions."""

from __future__ import annotations

from typing import Final

from switchgear.classify.classification import Classification, attribute
from switchgear_schemas.words import ErrorClass

_BY_STATE: Final[dict[str, ErrorClass]] = {
    "42501": "auth",  # insufficient privilege
    "57014": "timeout",  # the statement's time limit, as a rule
}
_BY_PREFIX: Final[dict[str, ErrorClass]] = {
    "08": "transport",
    "22": "invalid_input",
    "23": "invalid_input",
    "28": "auth",
    "3D": "invalid_input",
    "3F": "invalid_input",
    "40": "tool",  # serialization failure, deadlock: it works, try again
    "42": "invalid_input",
    "53": "server",  # out of connections, memory, disk
    "55": "tool",  # the object is locked
    "57": "server",  # shutting down
    "58": "server",
    "XX": "server",
}


def by_sqlstate(error: BaseException) -> Classification | None:
    """Classify by ``sqlstate`` (psycopg, asyncpg, MySQL) or ``pgcode`` (psycopg2), None without one that is known."""
    for name in ("sqlstate", "pgcode"):
        state = attribute(error, name)
        if isinstance(state, str) and len(state) == 5:
            found = _BY_STATE.get(state) or _BY_PREFIX.get(state[:2])
            return None if found is None else Classification(found)
    return None
