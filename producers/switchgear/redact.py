"""Secrets are taken out of error messages before they leave the process.

The patterns are those of well-known credentials (their issuers' published prefixes), of cookies and authorization headers,
and of ``name=value`` pairs whose name says that the value is secret. All are linear in the length of the text, which is
bounded first. What has no telling name or form (a bare 40-character AWS secret), and what is personal rather than secret
(e-mail addresses, names), is left: give a function of your own for those.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Final

log: Final = logging.getLogger("switchgear.redact")

Redactor = Callable[[str], str]
"""A user's own rule: from a message, already without what is found here, to what may leave the process."""

MAX_MESSAGE_CHARACTERS: Final = 2_000
_CONSIDERED: Final = 2 * MAX_MESSAGE_CHARACTERS
MARK: Final = "[redacted]"

_TELLING_NAME: Final = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?"
    r"|client[_-]?secret|refresh[_-]?token|access[_-]?token|id[_-]?token|session[_-]?key|signature|sig|x-api-key"
    r"|account[_-]?key|shared[_-]?key|signing[_-]?key|encryption[_-]?key"
)
_TELLING: Final = rf"(?i)(?:^|[_-]|(?=(?-i:[A-Z])))(?:{_TELLING_NAME})$"
"""The end of a name: of the whole, after a dash, or camelCase."""
_NAME: Final = r"(?<![A-Za-z0-9_-])([A-Za-z0-9_-]{2,160}+)[\"']?\s{0,4}[:=]\s{0,4}"
"""What stands before a value: possessive, so that no word is looked at twice."""
_VALUE: Final = r"(?!\[redacted\])(?:\"[^\"]{1,2000}\"?|'[^']{1,2000}'?|[^\s\"'&,;)}\]]+)"
_AUTHORIZATION: Final = (  # Authorization: Bearer …
    r"(?i)(?P<kept>\b(?:proxy-)?authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?)(?!\[redacted\])"
    r"[^\s\"',;]+(?:\s[^\s\"',;]+)?"
)
_COOKIE: Final = r"(?i)(?P<kept>\b(?:set-)?cookie[\"']?\s{0,4}:\s{0,4}[\"']?)[^\s=;\"']{1,80}=[^\r\n\"']*"
_KEPT: Final = rf"\g<kept>{MARK}"
_WITH_SIGNS: Final = (
    # scheme://user:password@host, keeping the host
    (r"(?P<kept>\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://)[^\s/@:]{0,256}:[^\s/@]{1,256}@", rf"\g<kept>{MARK}@"),
    (_AUTHORIZATION, _KEPT),
    (_COOKIE, _KEPT),
)
"""What has a ``:`` or a ``=`` in it."""
_KNOWN_FORMS: Final = (
    # OpenAI, Anthropic, Stripe; GitHub, GitLab; Slack; AWS; Google; Hugging Face, npm
    r"(?:sk|pk|rk)[-_](?:[A-Za-z0-9]{1,12}[-_]){0,4}[A-Za-z0-9_-]{16,}",
    r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}",
    r"xox[a-z]-[A-Za-z0-9-]{10,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"(?:hf|npm)_[A-Za-z0-9]{20,}",
    # Groq, xAI, Perplexity, Replicate, Notion, Linear, Shopify, Supabase, DigitalOcean, Vault, webhooks, PyPI, Grafana
    r"(?:gsk_|xai-|pplx-|r8_|ntn_|lin_api_|shp(?:at|ca|pa|ss)_|sbp_|dop_v1_|hv[sb]\.|whsec_|pypi-|glsa_)[A-Za-z0-9._-]{16,}",
    # Postman, Google's OAuth, SendGrid; Databricks; JSON Web Tokens
    r"(?:PMAK-|GOCSPX-|ya29\.|SG\.)[A-Za-z0-9._-]{16,}",
    r"dapi[0-9a-f]{32}\b",
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
"""What has a word of 14 characters or more in it."""
_ALWAYS: Final = (
    (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", MARK),
    (r"(?i)(?P<kept>\b(?:bearer|basic)\s{1,4})[A-Za-z0-9._~+/=-]{8,}", _KEPT),
)


def redact(text: str) -> str:
    """``text`` without what looks like a credential, at most ``MAX_MESSAGE_CHARACTERS`` long (an ellipsis marks a cut).

    What was redacted once stays as it is: the guard, a user's rule and the emitter may each pass it through here.
    """
    found = text[:_CONSIDERED]
    if ":" in found or "=" in found:
        found = _applied(_WITH_SIGNS, found)
        found = _without_values(found)
    found = _applied(_ALWAYS, found)
    if re.search(_LONG, found) is not None:
        found = _applied(_WITH_LONG_WORDS, found)
    if len(found) > MAX_MESSAGE_CHARACTERS or len(text) > _CONSIDERED:
        return found[: MAX_MESSAGE_CHARACTERS - 1] + "…"
    return found


def _applied(rules: Iterable[tuple[str, str]], text: str) -> str:
    """Compiled at the first message, and then kept by ``re``: the import must not wait for it."""
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    return text


def _without_values(text: str) -> str:
    """``name=value``, ``"name": "value"`` and ``camelName=value`` without the value, where the name says that it is secret."""
    value_at = re.compile(_VALUE).match
    parts: list[str] = []
    done = 0
    for pair in re.finditer(_NAME, text):
        if pair.start() < done or re.search(_TELLING, pair[1]) is None:
            continue
        value = value_at(text, pair.end())
        if value is not None:
            parts += text[done : pair.end()], MARK
            done = value.end()
    return "".join((*parts, text[done:]))


def redactor(extra: Redactor | None) -> Redactor:
    """:func:`redact`, then the user's ``extra`` rule.

    Where ``extra`` fails, or returns something else than text, the whole message is withheld and the failure logged: what
    it would have taken out is not known.
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
