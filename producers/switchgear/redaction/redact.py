"""Remove secrets from error messages before they leave the process.

The patterns match credentials with a published prefix, cookies and authorization headers, and values whose name says that they
are secret (:mod:`switchgear.redaction.named_secrets`). Every pattern takes linear time, and the text is cut first. Secrets without
a known name or prefix (a 40-character AWS secret) and personal data (e-mail addresses, names) stay: use your own function for them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Final

from switchgear.redaction.named_secrets import MARK, without_named, without_options

log: Final = logging.getLogger("switchgear.redact")

Redactor = Callable[[str], str]
"""A user's rule: it receives an already redacted message and returns what may leave the process."""

MAX_MESSAGE_CHARACTERS: Final = 2_000
_CONSIDERED: Final = 2 * MAX_MESSAGE_CHARACTERS
_LONGEST_WORD: Final = 600
"""The cut goes back at most this far to the end of a word. Longer secrets are known by their beginnings."""
_PARAMETER: Final = r"[A-Za-z0-9_-]{1,40}=(?:\\{0,8}\"[^\"]*\"?|[^\s\"',\\]+)"
_AUTHORIZATION: Final = (  # Authorization: Bearer …; Digest username="…", response="…"
    r"(?i)(?P<kept>\b(?:proxy-)?authorization[\"']?\]?\s{0,4}[:=]{1,2}+>?+\s{0,4}+[\"']?+)(?!\[redacted\])"
    rf"(?:[A-Za-z0-9-]{{2,40}}\s{{1,4}}{_PARAMETER}(?:\s{{0,4}},\s{{0,4}}{_PARAMETER})*|[^\s\"',;]+(?:\s{{1,4}}[^\s\"',;]+)?)"
)
_COOKIE: Final = r"(?i)(?P<kept>\b(?:set-)?cookie[\"']?\]?\s{0,4}(?::|=>)\s{0,4}+[\"']?+)(?!\[redacted\])[^\s=;\"']{1,80}=[^\r\n\"']*"
_KEPT: Final = rf"\g<kept>{MARK}"
_IN_URL: Final = (  # scheme://user:password@host, keeping the host. Both may contain an @. A single word may be a token
    r"(?P<kept>\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://)(?:[^\s/:]{0,256}:[^\s/@]{1,256}|(?!git@)[^\s/:@?#\"'<>]{1,256})@"
    r"(?:[^\s/@\"'<>]{0,256}@){0,8}"
)
_PLAIN_HEADERS: Final = (
    (_AUTHORIZATION, _KEPT),
    (_COOKIE, _KEPT),
)
_KNOWN_FORMS: Final = (
    # OpenAI, Anthropic, Stripe; GitHub, GitLab; Slack; AWS; Google; Hugging Face, npm
    r"(?:sk|pk|rk)[-_](?:[A-Za-z0-9]{1,12}[-_]){0,4}[A-Za-z0-9_-]{16,}",
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}",
    r"x(?:ox[a-z]|app)-[A-Za-z0-9-]{10,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"(?:hf|npm)_[A-Za-z0-9]{20,}",
    # Groq, xAI, Perplexity, Replicate, Notion, Linear, Shopify, Supabase, DigitalOcean, Vault, webhooks, PyPI, Grafana
    r"(?:gsk_|xai-|pplx-|r8_|ntn_|lin_api_|shp(?:at|ca|pa|ss)_|sbp_|dop_v1_|hv[sb]\.|whsec_|pypi-|glsa_)[A-Za-z0-9._-]{16,}",
    # Postman, Google's OAuth, SendGrid; Databricks; JSON Web Tokens
    r"(?:PMAK-|GOCSPX-|ya29\.|SG\.)[A-Za-z0-9._-]{16,}",
    r"dapi[0-9a-f]{32}\b",
    # Tavily, NVIDIA, Figma, Docker; Firecrawl
    r"(?:tvly-|nvapi-|figd_|dckr_pat_)[A-Za-z0-9_-]{16,}",
    r"fc-[0-9a-f]{32}\b",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
)
_LONG: Final = r"[A-Za-z0-9_.-]{14}"
_WITH_LONG_WORDS: Final = (
    # The paths of Slack's and Discord's webhooks are their passwords
    (r"(?P<kept>\bhooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]+", _KEPT),
    (r"(?P<kept>\bdiscord(?:app)?\.com/api/webhooks/)[A-Za-z0-9/_-]+", _KEPT),
    (rf"\b(?:{'|'.join(_KNOWN_FORMS)})", MARK),
    (r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}", MARK),  # Telegram
)
"""Patterns that need a word of at least 14 characters."""
_SIGNS: Final = (":", "=", "',", '",')
"""Characters between a name and its value."""
_ALWAYS: Final = (
    (
        r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        MARK,
    ),
    (r"(?i)(?P<kept>\b(?:bearer|basic)\s{1,4})[A-Za-z0-9._~+/=-]{8,}", _KEPT),
)


def redact(text: str) -> str:
    """Return ``text`` without credentials, at most ``MAX_MESSAGE_CHARACTERS`` long. An ellipsis marks a cut.

    Redacting again changes nothing: the guard, a user's rule and the emitter may each call this.
    """
    found = text if len(text) <= _CONSIDERED else _whole_words(text[: _CONSIDERED + 1])
    if "://" in found:
        found = re.sub(_IN_URL, rf"\g<kept>{MARK}@", found)
    if any(sign in found for sign in _SIGNS):
        found = without_named(found)
        found = _applied(_PLAIN_HEADERS, found)
    if "-" in found:
        found = without_options(found)
    found = _applied(_ALWAYS, found)
    if re.search(_LONG, found) is not None:
        found = _applied(_WITH_LONG_WORDS, found)
    if len(found) > MAX_MESSAGE_CHARACTERS or len(text) > _CONSIDERED:
        return found[: MAX_MESSAGE_CHARACTERS - 1] + "…"
    return found


def considered(text: str) -> str:
    """Return the part of ``text`` that :func:`redact` looks at, to store it until then."""
    return text[: _CONSIDERED + 1]


def _whole_words(text: str) -> str:
    """Return ``text`` up to the end of its last whole word, because half a secret can't be recognized."""
    at = len(text) - _LONGEST_WORD
    for between in (r"\s", r"[^\w.~+/=%-]"):
        ends = [found.start() for found in re.compile(between).finditer(text, at)]
        if ends:
            return text[: ends[-1]]
    return text[:-1]


def _applied(rules: Iterable[tuple[str, str]], text: str) -> str:
    """Apply the rules. ``re`` compiles each at the first message, so the import stays fast."""
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text


def redactor(extra: Redactor | None) -> Redactor:
    """Return a function that applies :func:`redact` and then the user's rule.

    If the rule fails or doesn't return text, the whole message is withheld and the failure is logged.
    """
    if extra is None:
        return redact

    def both(text: str) -> str:
        try:
            found = extra(redact(text))
        except Exception:
            log.exception("the redact function failed; the message is withheld")
            return MARK
        if not isinstance(found, str):
            log.error("the redact function returned %s, not text; the message is withheld", type(found).__name__)
            return MARK
        return found[:MAX_MESSAGE_CHARACTERS]

    return both


MOST_NAME: Final = 80
"""The most characters of a tool's name in a text."""


def one_line(text: str, most: int) -> str:
    """Return ``text`` on one line without control characters, at most ``most`` characters long. An ellipsis marks a cut."""
    text = text[: 4 * most]
    plain = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"
