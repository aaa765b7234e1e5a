"""One server of an MCP client's configuration: its entry behind the proxy, and the former one back from that.

Secrets stay out of arguments, because all users of a machine can see those: headers and addresses go into ``env``, which the client's
file keeps as secret as before. Of variables, arguments have the names alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any, Final

CONTAINERS: Final = ("mcpServers", "servers", "context_servers", "mcp_servers")
"""The keys of the servers in the files of clients."""
HEADERS: Final = {"headers": "SWITCHGEAR_MCP_HEADER_", "http_headers": "SWITCHGEAR_MCP_HTTP_HEADER_"}
"""The keys of headers, of most clients and of Codex, with the beginning of the variables that hold them when they are wrapped."""
ADDRESSES: Final = {
    "url": "SWITCHGEAR_MCP_URL",
    "httpUrl": "SWITCHGEAR_MCP_HTTP_URL",
    "serverUrl": "SWITCHGEAR_MCP_SERVER_URL",
}
"""The keys of an address, of most clients, Gemini CLI and Windsurf, with the variable that holds it when it is wrapped."""
TYPE: Final = "SWITCHGEAR_MCP_TYPE"
"""Holds the ``type`` of a remote server, which :func:`unwrapped` restores. The proxy doesn't read it."""
FROM_VARIABLE: Final = "bearer_token_env_var"
FROM_VARIABLES: Final = "env_http_headers"
VARIABLES: Final = "env_vars"
"""Keys of Codex: the variable of a token, those of other headers, and those that a server gets."""
_KINDS: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http", "sse"})
_LOGINS: Final = ("oauth", "auth", "authProviderType", "headersHelper")
"""Keys of remote servers that the client logs in to. A client doesn't log in to a program, which the proxy is then."""
_BEARER: Final = re.compile(r"Authorization: Bearer \$\{(\w+)\}")
_VARIABLE: Final = re.compile(r"(.+): \$\{(\w+)\}")

Entry = dict[str, Any]


def is_wrapped(entry: object) -> bool:
    """Return whether a server runs behind the proxy."""
    if not isinstance(entry, Mapping):
        return False
    command, args = entry.get("command"), entry.get("args")
    if not isinstance(command, str) or not isinstance(args, list) or "mcp-proxy" not in args:
        return False
    place = args.index("mcp-proxy")
    started = (PurePath(command.replace("\\", "/")).stem, *args[:place])
    ours = "switchgear" in started or "switchgear_cli" in started
    return ours and len(args) > place + 2 and args[place + 1] == "--name"


def address_of(entry: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Return the key and the value of a remote server's address; None if it has none."""
    return next(((key, entry[key]) for key in ADDRESSES if key in entry), None)


def wrapped(plain: str, entry: Entry, command: Sequence[str], options: Sequence[str] = ()) -> Entry | str:
    """Return the entry behind the proxy, or why it stays as it is.

    Args:
        plain: The server's name in circuits.
        entry: The entry.
        command: How to start Switchgear.
        options: More options of the proxy.
    """
    if is_wrapped(entry):
        return _with_new_variables(entry)
    start = [*command[1:], "mcp-proxy", "--name", plain, *options]
    address = address_of(entry)
    if "command" in entry:
        found = _of_command(entry, start)
    elif address is not None:
        found = _why_not(entry, address[1]) or _of_address(entry, *address, start)
    else:
        found = "It has neither a command nor a url."
    return found if isinstance(found, str) else _in_order(entry, {"command": command[0], **found})


def _of_command(entry: Entry, start: list[str]) -> Entry | str:
    args, env = entry.get("args", []), entry.get("env") or {}
    if not isinstance(entry["command"], str) or not isinstance(args, list):
        return "Its command is not text, or its args are not a list."
    if not isinstance(env, dict):
        return "Its env is not an object."
    return {"args": [*start, *_passed(entry), "--", entry["command"], *args]} | _without(entry, "command", "args")


def _passed(entry: Entry) -> list[str]:
    """Return the options that pass the entry's variables on to the server, by their names."""
    named = [each.get("name") if isinstance(each, dict) else each for each in entry.get(VARIABLES) or ()]
    names = dict.fromkeys((*(entry.get("env") or {}), *filter(None, named)))
    return [f"--env={name}" for name in names if name and "=" not in name]


def _with_new_variables(entry: Entry) -> Entry | str:
    """Return a wrapped entry that passes on the variables that were added to it since. Those of Switchgear are for the proxy."""
    args, env = entry["args"], entry.get("env")
    start = args.index("mcp-proxy") + 3
    end = args.index("--", start) if "--" in args[start:] else None
    given = set() if end is None else set(args[:end])
    new = (
        [each for each in _passed(entry) if each not in given and not each.startswith("--env=SWITCHGEAR_")]
        if end is not None and isinstance(env, dict)
        else []
    )
    return entry | {"args": [*args[:end], *new, *args[end:]]} if new else "It runs behind the proxy already."


def _of_address(entry: Entry, key: str, url: Any, start: list[str]) -> Entry:
    """Return a remote server's entry. Its address, type and headers move into ``env``."""
    kind, added, words = entry.get("type"), dict[str, Any](), list[str]()
    for place, begin in HEADERS.items():
        headers = entry.get(place, {})
        for number, (header, value) in enumerate(headers.items(), 1):
            added[f"{begin}{number}"] = f"{header}: {value}"
            words += ["--header-env", f"{begin}{number}"]
        if place in entry and not headers:
            added[begin.rstrip("_")] = ""
    if kind:
        added[TYPE] = kind
    added[ADDRESSES[key]] = url
    named = {"Authorization": f"Bearer ${{{entry[FROM_VARIABLE]}}}"} if FROM_VARIABLE in entry else {}
    named |= {header: f"${{{variable}}}" for header, variable in entry.get(FROM_VARIABLES, {}).items()}
    for header, value in named.items():
        words += ["--header", f"{header}: {value}"]
    found: Entry = {"args": [*start, *words, "--url-env", ADDRESSES[key]]}
    found |= _without(entry, key, "type", *HEADERS, "env", FROM_VARIABLE, FROM_VARIABLES)
    found["env"] = entry.get("env", {}) | added
    return found | ({VARIABLES: re.findall(r"\$\{(\w+)\}", "".join(named.values()))} if named else {})


def _why_not(entry: Entry, url: Any) -> str | None:
    """Return why a remote server stays as it is, or None."""
    kind, env = entry.get("type"), entry.get("env", {})
    objects = [entry.get(key, {}) for key in (*HEADERS, FROM_VARIABLES)]
    if (
        sum(key in entry for key in ADDRESSES) > 1
        or not isinstance(url, str)
        or not all(isinstance(each, dict) for each in (env, *objects))
    ):
        return "Its url is not one text, or its headers or env are not an object."
    if not all(isinstance(value, str) and ":" not in header for each in objects for header, value in each.items()):
        return "A header is not text."
    if any(variable.startswith("SWITCHGEAR_MCP_") for variable in env):
        return "Its env has variables of the proxy already."
    login = next((key for key in _LOGINS if key in entry), None)
    if login is not None:
        return f"The client logs in to it ({login}), which it doesn't do for a program. Give it a header with a token and wrap again."
    return None if not kind or kind in _KINDS else f"Its type {kind!r} is not known."


def unwrapped(entry: Entry) -> Entry | str:
    """Return the entry without the proxy, from its args and env, or why there is none."""
    if not is_wrapped(entry):
        return "It doesn't run behind the proxy."
    args = entry["args"]
    words = args[args.index("mcp-proxy") + 3 :]
    if "--" in words:
        command, *rest = words[words.index("--") + 1 :] or [""]
        found = {"command": command} | ({"args": rest} if rest else {})
        return _in_order(entry, found | _without(entry, "command", "args"))
    env = dict(entry.get("env") or {})
    variable = _after("--url-env", words)
    key = next((key for key, known in ADDRESSES.items() if known == variable), "url")
    url = env.pop(variable, None) if variable is not None else _after("--url", words)
    if not isinstance(url, str):
        return "Its args have neither a command nor a url."
    kind = env.pop(TYPE, None)
    found = ({"type": kind} if kind else {}) | {key: url}
    for place, begin in HEADERS.items():
        names = sorted(
            (each for each in env if re.fullmatch(rf"{begin}[0-9]+", each)), key=lambda name: int(name[len(begin) :])
        )
        headers = dict(str(env.pop(each)).split(": ", 1) for each in names)
        if env.pop(begin.rstrip("_"), None) is not None or headers:
            found[place] = headers
    from_variables = _from_variables(words)
    found |= from_variables | ({"env": env} if env else {})
    return found | _without(entry, "command", "args", "env", *([VARIABLES] if from_variables else []), *found)


def _from_variables(words: Sequence[str]) -> Entry:
    """Return what Codex's entry said about headers that are in variables."""
    found: Entry = {}
    given = [value for option, value in pairwise(words) if option == "--header"]
    for line in given:
        if token := _BEARER.fullmatch(line):
            found[FROM_VARIABLE] = token[1]
        elif header := _VARIABLE.fullmatch(line):
            found.setdefault(FROM_VARIABLES, {})[header[1]] = header[2]
    return found


def is_same(former: Entry, entry: Entry) -> bool:
    """Return whether ``entry`` is ``former`` behind the proxy, however Switchgear is started and whatever options it has."""
    args: list[str] = entry["args"]
    place = args.index("mcp-proxy")
    plain = wrapped(args[place + 2], former, [entry["command"], *args[:place]])
    if isinstance(plain, str):
        return False
    end = len(args) - len(plain["args"]) + place + 3
    return wrapped(args[place + 2], former, [entry["command"], *args[:place]], args[place + 3 : end]) == entry


def _in_order(entry: Entry, found: Entry) -> Entry:
    """Return ``found`` with the keys in the order of ``entry``; the new ones come first."""
    return {key: found[key] for key in sorted(found, key=[*(key for key in found if key not in entry), *entry].index)}


def _without(entry: Entry, *keys: str) -> Entry:
    return {key: value for key, value in entry.items() if key not in keys}


def _after(option: str, words: Sequence[str]) -> str | None:
    return words[words.index(option) + 1] if option in words[:-1] else None
