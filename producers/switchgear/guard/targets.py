"""What a call is about, read from its arguments as a policy's ``target`` says.

The TypeScript client reads the same, so all processes keep the same circuits. That is why the host of a URL is read by an expression
of its own: the URL parsers of languages differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

MOST_READ: Final = 2_048
"""Characters of a URL that are looked at."""
MOST_TARGET: Final = 200
"""Characters of a target. A longer one is none."""
_HOST: Final = "host"
_LARGEST: Final = 2**53 - 1
"""Numbers beyond it aren't the same in all languages."""

_LETTERS: Final = re.IGNORECASE | re.ASCII  # without the letters of other scripts that are an s or a k in lower case
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]{0,30}://|//", _LETTERS)
_AUTHORITY: Final = re.compile(
    r"(?:[^/?#\\]*@)?(\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?)\.?(?::[0-9]{1,5})?(?:[/?#\\]|\Z)",
    _LETTERS,
)
"""The first group is the host. What comes before it are credentials, also several of them."""
_UNSEEN: Final = re.compile(r"[\t\r\n]")
_AROUND: Final = re.compile(r"\A[\x00-\x20]+|[\x00-\x20]+\Z")
_UNREADABLE: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]")


def target_of(rule: str, arguments: Mapping[str, Any]) -> str:
    """Return what a call is about, in at most :data:`MOST_TARGET` characters. Empty if its arguments don't say. It never raises.

    Args:
        rule: The ``target`` of a policy: names with dots between them. If the last one is ``host``, the value before it may be a URL.
        arguments: The call's arguments by name.
    """
    try:
        return _read(rule.split("."), arguments)
    except Exception:  # noqa: BLE001 - a user's mapping may fail in any way, and the call must not
        return ""


def target_of_call(rule: str, named: Mapping[str, Any], others: Sequence[Any] = ()) -> str:
    """Return what a call of a function is about.

    Args:
        rule: As for :func:`target_of`.
        named: Its arguments by name. If none has the name that the rule begins with, the first mapping among all arguments that knows the
            name is read, as in ``call_tool(name, arguments)``.
        others: Its arguments without a name.
    """
    first = rule.partition(".")[0]
    try:
        if first not in named:
            found = (each for each in (*named.values(), *others) if isinstance(each, Mapping) and first in each)
            named = next(found, {})
    except Exception:  # noqa: BLE001 - as above
        return ""
    return target_of(rule, named)


def _read(path: list[str], arguments: Mapping[str, Any]) -> str:
    value: Any = arguments
    for place, name in enumerate(path):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, str) and name == _HOST and place == len(path) - 1:
            return host_of(value)
        else:
            return ""
    return plain(value)


def host_of(url: str) -> str:
    """Return the host of a URL in lower case, without its port. Empty if it has none in ASCII."""
    text = _AROUND.sub("", _UNSEEN.sub("", url[:MOST_READ]))  # as browsers do
    if len(url) > MOST_READ:
        text += " "  # no host ends where the text was cut
    scheme = _SCHEME.match(text)
    found = _AUTHORITY.match(text, 0 if scheme is None else scheme.end())
    host = "" if found is None else found[1].lower()
    return host if len(host) <= MOST_TARGET else ""


def plain(value: object) -> str:
    """Return a text of one line, or a whole number, as the target that it names. Empty for everything else."""
    if isinstance(value, str):
        return str(value) if len(value) <= MOST_TARGET and not _UNREADABLE.search(value) else ""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST:
        return ""
    return str(int(value)) if value == int(value) else ""
