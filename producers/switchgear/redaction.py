"""Remove secrets from error messages before they leave the process.

The patterns match credentials with a published prefix, cookies and authorization headers, and values whose name says that they
are secret: ``token=abc``, ``"apiKey": ["abc"]``, ``('Cookie', 'sid=abc')``, ``--password abc``, ``<password>abc</password>``. Such a value is a string of Python
or JSON (also in nested JSON), a list or object with its content, or a word.

The text is cut first, and every pattern takes linear time: its quantifiers are bounded or possessive, so no part of a text is read again
and again. A pattern that needs a certain word isn't tried without it. ``re`` compiles the patterns at the first message, so the import
stays fast. Secrets without a known name or prefix (a 40-character AWS secret) and personal data (e-mail addresses, names) stay:
use your own function for them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Final

log: Final = logging.getLogger("switchgear.redact")

Redactor = Callable[[str], str]
"""A user's rule: it receives an already redacted message and returns what may leave the process."""

_Replacement = str | Callable[[re.Match[str]], str]

MARK: Final = "[redacted]"
MAX_MESSAGE_CHARACTERS: Final = 2_000
_CONSIDERED: Final = 2 * MAX_MESSAGE_CHARACTERS
_LONGEST_SECRET: Final = 600

# -- credentials by their form ----------------------------------------------------------------------------------------

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
_WEBHOOK: Final = (  # their paths are their passwords
    r"(?P<kept>\b(?:hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/(?:v[0-9]{1,3}/)?webhooks"
    r"|webhook\.office\.com|outlook\.office(?:365)?\.com/webhook|hooks\.zapier\.com/hooks|hook\.[a-z0-9]{2,8}\.make\.com"
    r"|maker\.ifttt\.com/(?:trigger|use)|events\.pagerduty\.com/integration)/)[A-Za-z0-9/_.@%~-]+"
)
_KEY_IN_URL: Final = r"(?P<kept>(?:[?&]|&amp;|\\u0026)key=)[^\s\"'<>&#,;)\[\]}\\]+"
_LOGIN_OPTION: Final = (  # curl -u name:password. A port or a URL is no password, nor is a number of a user and a group
    r"(?P<kept>(?:(?<=curl )-u|(?<![A-Za-z0-9_-])(?:-[uU]|--(?:proxy-)?user)[\s=])\s{0,4})(?![0-9]{1,10}:[0-9]{1,10}(?:\s|\Z))"
    r"(?:\"[^\s:\"]{1,80}:(?!//)[^\"]*\"?|'[^\s:']{1,80}:(?!//)[^']*'?|[^\s:\"']{1,80}:(?!//)[^\s\"'`]+)"
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
    # Postman, Google's OAuth, SendGrid; Databricks
    r"(?:PMAK-|GOCSPX-|ya29\.|SG\.)[A-Za-z0-9._-]{16,}",
    r"dapi[0-9a-f]{32}\b",
    # Tavily, NVIDIA, Figma, Docker; Firecrawl
    r"(?:tvly-|nvapi-|figd_|dckr_pat_)[A-Za-z0-9_-]{16,}",
    r"fc-[0-9a-f]{32}\b",
    # Tokens and permits of our own servers
    r"sg(?:t|p1)_[A-Za-z0-9._-]{16,}",
)
_JWT: Final = r"\beyJ[A-Za-z0-9_-]{8,}+(?P<rest>\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)?"
"""A JSON Web Token, or a word that only begins like one: it is read once, also if it has ``-eyJ`` a thousand times."""
_SCHEME: Final = r"(?i)(?P<kept>\b(?:bearer|basic)\s{1,4})[A-Za-z0-9._~+/=-]{8,}"
_TELEGRAM: Final = r"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"
_PATTERNS: Final[tuple[tuple[str, _Replacement], ...]] = (
    (_JWT, lambda found: MARK if found["rest"] else found[0]),
    (_AUTHORIZATION, _KEPT),
    (_COOKIE, _KEPT),
    (
        r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        MARK,
    ),
    (_SCHEME, _KEPT),
    (_WEBHOOK, _KEPT),
    (_KEY_IN_URL, _KEPT),
    (_LOGIN_OPTION, _KEPT),
    (rf"\b(?:{'|'.join(_KNOWN_FORMS)})", MARK),
    (_TELEGRAM, MARK),
)
_NEEDS: Final = {
    _IN_URL: ("@",),
    _AUTHORIZATION: ("authorization",),
    _COOKIE: ("cookie",),
    _SCHEME: ("bearer", "basic"),
    _WEBHOOK: ("hook", "maker.ifttt.com", "events.pagerduty.com"),
    _KEY_IN_URL: ("key=",),
    _LOGIN_OPTION: ("-u",),
    _JWT: ("eyj",),
    _TELEGRAM: (":aa",),
}
"""What a text must have, in lower case, for a pattern to match: one of these. A pattern that isn't here is always tried."""

# -- values of secret names -------------------------------------------------------------------------------------------

_WORDS: Final = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|credentials?"
    r"|client[_-]?secret|refresh[_-]?token|access[_-]?token|id[_-]?token|session[_-]?key|signature|sig|x-api-key"
    r"|account[_-]?key|shared[_-]?key|signing[_-]?key|encryption[_-]?key|secret[_-]?key(?:[_-]?base)?"
)
_NAME_OF_SECRET: Final = rf"(?i)(?:^|[_-]|(?=(?-i:[A-Z])))(?:{_WORDS})$"
"""The end of a secret's name: the whole name, the part after a dash, or the last part in camelCase."""
_HEADER: Final = r"(?i)(?:^|[_-])(?:authorization|cookies?)$"
"""Names that are secret if the value is written as data. A plain value (``Cookie: a=b; c=d``) goes to the end of the line, or is prose."""
_NAME: Final = (
    r"(?<![A-Za-z0-9_-])(?P<name>[A-Za-z0-9_-]{2,160}+)"
    r"(?:\\{0,32}[\"']?\]?\s{0,4}[:=]{1,2}>?|\\{0,32}[\"'](?P<comma>,))\s{0,4}"
)
"""A name and the characters before its value. The quantifiers are possessive, so that no word is read twice. A comma is in pairs and arguments."""
_A_STRING: Final = r"[bBuU]?\\{0,32}[\"']"
_OPENS_PAIR: Final = rf"\(\s{{0,4}}{_A_STRING}$"
_CLOSES_PAIR: Final = r"[\"']\s{0,4}\)"
_BEFORE_STRING: Final = r"[bBuUrRfF]{0,2}(?=\\{0,32}[\"'])"
_QUOTE: Final = r"(?<!\\)(?P<escapes>\\*+)(?P<quote>[\"'])"
_BRACKET_OR_QUOTE: Final = rf"{_QUOTE}|(?P<opens>[\[({{])|[\])}}]"
_DATA: Final = (
    rf"(?:[A-Za-z_][A-Za-z0-9_.]{{0,40}}(?=[\[({{]\s{{0,4}}{_A_STRING}))?"
    rf"[\[({{]\s{{0,8}}(?={_A_STRING}|[\[({{0-9]|\w{{1,80}}+\s?[:=])"
)
"""The beginning of a list, an object, or something like ``SecretStr('abc')``. A bracket in prose doesn't match."""
_WORD: Final = r"[\[({][^\[\](){}]{0,400}[\])}]|[^\s\"'&,;)}\]]+"
"""A value without quotes, also one in brackets."""
_OPTION: Final = (
    r"(?<![A-Za-z0-9_-])--?(?P<name>[A-Za-z][A-Za-z0-9_-]{1,80}+)\s{1,4}+(?!-|(?i:a|an|and|are|as|but|by|can|cannot|did|does|for|from|has|have"
    r"|if|in|is|it|may|must|needs?|no|not|of|on|or|requires?|required|should|the|then|to|was|were|when|which|will|with|without)[.,;:!?]?(?:\s|\Z))"
)
"""An option in a command line. A word of prose after it means that the text is about the option."""
_TAG: Final = r"<(?:[A-Za-z0-9_.-]{1,80}:)?(?P<name>[A-Za-z0-9_-]{2,160}+)(?:\s[^<>]{0,200})?>"
_BEFORE_END_TAG: Final = r"(?:<!\[CDATA\[[^<\]]*\]\]>|[^<]+)(?=</)"
"""The text of an XML element. Without its end, a name in angle brackets is a placeholder in prose."""
_SHELL_WORD: Final = r"[^\s\"'`]+"


def redact(text: str) -> str:
    """Return ``text`` without credentials, at most ``MAX_MESSAGE_CHARACTERS`` long. An ellipsis marks a cut.

    Redacting again changes nothing: the guard, a user's rule and the emitter may each call this.
    """
    found = text[:_CONSIDERED]
    folded = found.lower() if found.isascii() else None  # (?i) takes a long s for an s
    found = _substituted(_IN_URL, rf"\g<kept>{MARK}@", found, folded)
    found = without_named(found)
    for pattern, replacement in _PATTERNS:
        found = _substituted(pattern, replacement, found, folded)
    if len(text) > _CONSIDERED:
        found = found[:-_LONGEST_SECRET]  # it may end with half a secret, which has no known form
    if len(found) > MAX_MESSAGE_CHARACTERS or len(text) > _CONSIDERED:
        return found[: MAX_MESSAGE_CHARACTERS - 1] + "…"
    return found


def _substituted(pattern: str, replacement: _Replacement, text: str, folded: str | None) -> str:
    needed = _NEEDS.get(pattern)
    possible = needed is None or folded is None or any(each in folded for each in needed)
    return re.sub(pattern, replacement, text) if possible else text


def considered(text: str) -> str:
    """Return the part of ``text`` that :func:`redact` looks at, to store it until then."""
    return text[: _CONSIDERED + 1]


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


def one_line(text: str, most: int) -> str:
    """Return ``text`` on one line without control characters, at most ``most`` characters long. An ellipsis marks a cut."""
    text = text[: 4 * most]
    plain = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def without_named(text: str) -> str:
    """Return ``text`` without the values of secret names, options and XML elements. The names stay, and so does ``MARK``."""
    found = _without(_OPTION, _end_of_option, _without(_NAME, _end_of_secret, text))
    return _without(_TAG, _end_of_element, found)


def _without(pattern: str, end_of_value: Callable[[str, re.Match[str]], int | None], text: str) -> str:
    """Return ``text`` with ``MARK`` in place of what follows ``pattern``, up to the end of the value."""
    parts: list[str] = []
    done = 0
    for name in re.finditer(pattern, text):
        at = name.end()
        if name.start() < done or text.startswith(MARK, at):
            continue
        end = end_of_value(text, name)
        if end is not None and end > at:
            parts += text[done:at], MARK
            done = end
    return "".join((*parts, text[done:]))


def _end_of_option(text: str, option: re.Match[str]) -> int | None:
    if re.search(_NAME_OF_SECRET, option["name"]) is None:
        return None
    end = _end_of_string(text, option.end())
    return _end_of(_SHELL_WORD, text, option.end()) if end is None else end


def _end_of_element(text: str, tag: re.Match[str]) -> int | None:
    return None if re.search(_NAME_OF_SECRET, tag["name"]) is None else _end_of(_BEFORE_END_TAG, text, tag.end())


def _end_of_secret(text: str, pair: re.Match[str]) -> int | None:
    """Return the end of the value after ``pair``, or None if the name isn't secret. An empty value ends where it begins."""
    name, at = pair["name"], pair.end()
    is_secret = re.search(_NAME_OF_SECRET, name) is not None
    if not is_secret and re.search(_HEADER, name) is None:
        return None
    if pair["comma"] is None:
        end = _end_of_data(text, at)
        return _end_of(_WORD, text, at) if end is None and is_secret else end
    end = _end_of_string(text, at)
    if end is None or name.startswith("-"):  # an argument of a command
        return end
    # Only a pair of exactly two: longer lists, such as ['token', 'user'], usually have names only.
    opens = re.search(_OPENS_PAIR, text[max(0, pair.start() - 40) : pair.start()]) is not None
    closes = end == len(text) or re.compile(_CLOSES_PAIR).search(text, at + 1, end + 6) is not None
    return end if opens and closes else None


def _end_of_data(text: str, at: int) -> int | None:
    """Return the end of the string, list or object that begins at ``at``, or None. A truncated one ends with the text."""
    end = _end_of_string(text, at)
    if end is not None:
        return end
    data = re.compile(_DATA).match(text, at)
    if data is None:
        return None
    next_one = re.compile(_BRACKET_OR_QUOTE).search
    depth, found = 0, next_one(text, at)
    while found is not None:
        at = found.end()
        if found["quote"] is not None:
            at = _closing(text, at, found["quote"], len(found["escapes"])) or at
        else:
            depth += 1 if found["opens"] else -1
            if depth == 0:
                return at
        found = next_one(text, at)
    return len(text)


def _end_of_string(text: str, at: int) -> int | None:
    before = re.compile(_BEFORE_STRING).match(text, at)
    opening = None if before is None else re.compile(_QUOTE).match(text, before.end())
    if opening is None:
        return None
    end = _closing(text, opening.end(), opening["quote"], len(opening["escapes"]))
    if end is None:
        return len(text)
    return end if end > opening.end() + len(opening[0]) else at  # an empty string has nothing to hide


def _closing(text: str, at: int, quote: str, escapes: int) -> int | None:
    """Return the end of a string's closing quote, which has as many escapes as the opening quote (nested JSON has several).

    A quote with more escapes is part of the string. In doubt, the string is longer, so that nothing secret remains.
    """
    candidates = re.compile(rf"(?<!\\)(\\*+){quote}").finditer(text, at)
    return next((found.end() for found in candidates if len(found[1]) <= escapes), None)


def _end_of(pattern: str, text: str, at: int) -> int | None:
    found = re.compile(pattern).match(text, at)
    return None if found is None else found.end()
