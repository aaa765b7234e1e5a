"""Names: globs, families, circuit ids, the targets of a call, and how frameworks list tools."""

# ruff: noqa: INP001 - a part of a script

from __future__ import annotations

from typing import Any

from switchgear.guard.targets import host_of, target_of
from switchgear.prompts import listed_name
from switchgear_schemas.circuit_ids import circuit_id
from switchgear_schemas.enums import CircuitScope
from switchgear_schemas.families import family_of
from switchgear_schemas.globs import matches

TOOLS: list[Any] = [
    "plain",
    {"name": "a"},
    {"type": "function", "function": {"name": "b"}},
    {"type": "web_search"},
    {"toolSpec": {"name": "c"}},
    {"google_search": {}},
    {"function_declarations": [{"name": "d"}]},
    {"cachePoint": {"type": "default"}},
    {},
    {"type": "function"},
]
NAMES = ["mcp:github:search", "mcp:github:a:b", "mcp:github", "mcp::x", "search", "mcp:x:", ":a:b"]
GLOBS = [
    "*", "?", "", "mcp:weather:*", "mcp:*:get_?orecast", "[abc]", "[!abc]", "[a-c]x", "[c-a]", "[!c-a]", "[]a]", "[!]a]",
    "[a", "[]", "[!]", "[a-]", "[-a]", "[a-c-e]", "[--0]", "[\\]", "[^a]", "[[]", "[a]", "a.c", "a+(b|c)$", "**a**b", "é", "[à-ü]",
    "\U0001f600?", "*\n*", "*" * 40 + "b",
]  # fmt: skip
GLOBBED = [
    "", "a", "b", "c", "d", "e", "-", "]", "[", "!", "^", "\\", ".", "0", "ax", "abc", "a.c", "a+(b|c)$", "[a]", "[]", "[!]", "[a",
    "mcp:weather:get_forecast", "mcp:weather", "MCP:weather:x", "é", "\U0001f600", "\U0001f600x", "a\nb", "xaxxb", "a" * 250,
]  # fmt: skip
PATTERNS = ["mcp:*:*", "", "mcp:*:*,http:*", "*:*"]
MARKED = [
    "search",
    "a|b",
    "a@b",
    "mcp:@scope/x:y",
    "a@b@c",
    "100%40",
    "x@y:z@w",
    "search|user=ana",
    "x|session=",
    "x|tenant=acme",
    "mcp:a|family",
    "|family|family",
    "100%25",
    "%7Cuser=",
    "|family\n",
    "é%|",
]
URLS = [
    *(
        "https://example.org/a?b#c",
        "HTTPS://Example.ORG:8443/",
        "https://good.org@evil.org/",
        "https://a:b@c@evil.org/",
        "//x",
    ),
    *(
        "http://evil.org\\@good.org/",
        "http://evil.org?@good.org/",
        "http://evil.org#@good.org/",
        "example.org/p",
        "localhost:8080",
    ),
    *(
        "http://[::1]:80/",
        "http://[::1",
        "http://example.org./",
        "http://example.org:99999/",
        "http://example.org:999999/",
    ),
    *(
        "http://example.org:x/",
        " \t http://exam\nple.org/\r\n ",
        "http:///path",
        "javascript:alert(1)",
        "data:text/html,x",
        "a b",
    ),
    *(
        "http://müller.example/",
        "http://\u017fite.example/",
        "http://ex\u212aample.org/",
        "http://-x.org/",
        "http://a..b/",
        "",
        "//",
    ),
    *(
        "@" * 3_000,
        "http://" + "a" * 10_000,
        "http://" + "a" * 200 + "/",
        "http://" + "a" * 201 + "/",
        "\u00a0http://a.org",
        "x\0y",
    ),
]
RULES = ["url.host", "url", "query.index", "query.index.host", "query", "missing.host", "constructor", "url.host.host"]
ARGUMENTS: list[dict[str, Any]] = [
    {"url": "https://example.org/", "query": {"index": "pages"}},
    {"url": 7, "query": {"index": True}},
    {"url": "a|user=b@c", "query": ["x"]},
    {"url": {"host": "inner"}, "query": None},
    {"url": "two\nlines", "query": {"index": 2**53}},
    {"url": "x" * 201, "query": {"index": 7.5}},
]
CIRCUITS: list[tuple[str, CircuitScope, str]] = [
    *((name, scope, "") for name in MARKED for scope in ("tool", "family")),
    *(
        (name, scope, whose)
        for name in MARKED
        for scope in ("user", "session", "tenant", "target")
        for whose in ("ana", "|family", "a|user=b%7C", "[::1]", "a@b%3A")
    ),
]


def answers() -> dict[str, Any]:
    """Return what the names mean."""
    return {
        "globs": [[glob, name, matches(glob, name)] for glob in GLOBS for name in GLOBBED],
        "names": [[tool, listed_name(tool)] for tool in TOOLS],
        "families": [[pattern, name, family_of(name, pattern)] for pattern in PATTERNS for name in NAMES],
        "circuit_ids": [[*name, circuit_id(*name)] for name in CIRCUITS],
        "hosts": [[url, host_of(url)] for url in URLS],
        "targets": [[rule, value, target_of(rule, value)] for rule in RULES for value in ARGUMENTS],
    }
