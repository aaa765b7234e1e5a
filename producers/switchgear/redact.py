"""Secrets are taken out of error messages before they leave the process.

The patterns are those of well-known credentials (their issuers' published prefixes) and of ``name=value`` pairs whose
name says that the value is secret. All are linear in the length of the text, which is bounded first.
"""

from __future__ import annotations

import re
from typing import Final

MAX_MESSAGE_CHARACTERS: Final = 2_000
_CONSIDERED: Final = 2 * MAX_MESSAGE_CHARACTERS
MARK: Final = "[redacted]"

_TELLING_NAME: Final = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?"
    r"|client[_-]?secret|refresh[_-]?token|access[_-]?token|id[_-]?token|session[_-]?key|signature|sig|x-api-key"
)
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MARK),
    # scheme://user:password@host, keeping the host
    (
        re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://)[^\s/@:]{0,256}:[^\s/@]{1,256}@"),
        rf"\g<scheme>{MARK}@",
    ),
    # Authorization: Bearer …, and a bare "Bearer …"
    (
        re.compile(
            r"(?P<name>\b(?:proxy-)?authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?)[^\s\"',;]+(?:\s[^\s\"',;]+)?",
            re.IGNORECASE,
        ),
        rf"\g<name>{MARK}",
    ),
    (re.compile(r"(?P<name>\b(?:bearer|basic)\s{1,4})[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\g<name>{MARK}"),
    # name=value, "name": "value"
    (
        re.compile(
            rf"(?P<name>(?<![A-Za-z0-9])(?:[A-Za-z0-9]{{1,32}}[_-]){{0,4}}(?:{_TELLING_NAME})[\"']?\s{{0,4}}[:=]\s{{0,4}})"
            r"(?:\"[^\"]{1,2000}\"?|'[^']{1,2000}'?|[^\s\"'&,;)}\]]+)",
            re.IGNORECASE,
        ),
        rf"\g<name>{MARK}",
    ),
    # Keys that are known by their prefix: OpenAI/Anthropic/Stripe, GitHub, GitLab, Slack, AWS, Google, Hugging Face, npm
    (re.compile(r"\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]{1,12}[-_]){0,4}[A-Za-z0-9_-]{16,}"), MARK),
    (re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})"), MARK),
    (re.compile(r"\bxox[a-z]-[A-Za-z0-9-]{10,}"), MARK),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MARK),
    (re.compile(r"\bAIza[A-Za-z0-9_-]{30,}"), MARK),
    (re.compile(r"\b(?:hf|npm)_[A-Za-z0-9]{20,}"), MARK),
    # JSON Web Tokens
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"), MARK),
)


def redact(text: str) -> str:
    """``text`` without what looks like a credential, at most ``MAX_MESSAGE_CHARACTERS`` long (an ellipsis marks a cut)."""
    found = text[:_CONSIDERED]
    for pattern, replacement in _RULES:
        found = pattern.sub(replacement, found)
    if len(found) > MAX_MESSAGE_CHARACTERS or len(text) > _CONSIDERED:
        return found[: MAX_MESSAGE_CHARACTERS - 1] + "…"
    return found
