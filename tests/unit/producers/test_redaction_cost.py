"""Redaction costs as much as its text is long, whatever the text is, and skips only rules that can't match."""

from __future__ import annotations

import time

import pytest

from switchgear import redaction
from switchgear.redaction import MARK, redact
from tests.support.table import table

SECRET = "s3cr3tValueThatMustStayHidden42"
BEGINNINGS = [
    "Authorization: Bearer ", "proxy-authorization=", 'Authorization: Digest a="b", ', "AUTHORIZATION => Basic ",
    "Cookie: theme=", "set-cookie => ", "bearer ", "BASIC  ", "https://", "https://user:", "git+ssh://a@", "a://b:c@d@",
    "https://hooks.slack.com/services/", "https://discord.com/api/webhooks/", "https://discordapp.com/api/webhooks/1/",
    "-----BEGIN RSA PRIVATE KEY-----\n", "-----BEGIN PGP PRIVATE KEY BLOCK-----", "sk-", "sk-ant-api03-", "rk_live_",
    "ghp_", "github_pat_", "glpat-", "xoxb-", "xapp-1-", "AKIA", "AIza", "hf_", "npm_", "gsk_", "lin_api_", "hvs.", "ya29.",
    "SG.", "dapi", "tvly-", "fc-", "eyJhbGciOiJIUzI1NiJ9.", "eyJ", "123456789:AA", "bot123456789:AA", "token=", "token='",
    '"apiKey": ["', "--password ", "--token '", "('Cookie', '", '("token","', '\\"token\\":\\"', "client_secret => ", "passwd: {",
    "SecretStr('", "signature=(", "-", "_", ":", "=", "@", "/", ".", "{", "[", "(", '"', "'", "\\", ", ", " ", "A", "0",
]  # fmt: skip
"""How secrets begin, and the characters that the rules look for."""


@pytest.mark.slow
@table("beginning", BEGINNINGS)
@table("then", ["", "a", "a.", 'a="', "A-", "x/", "0123456789"])
def test_four_times_the_text_takes_about_four_times_as_long(beginning, then, monkeypatch):
    """Without the cut: a rule that reads a part again and again would take sixteen times as long."""
    monkeypatch.setattr(redaction, "_CONSIDERED", 10**9)
    piece = beginning + then

    def took(characters):
        text = (piece * characters)[:characters]
        began = time.thread_time()
        redact(text)
        return time.thread_time() - began

    limit = 10 * min(took(3_000), took(3_000)) + 0.02
    assert took(12_000) < limit or took(12_000) < limit, "and again: other processes may take the caches away once"


def test_text_beyond_the_cut_costs_nothing():
    text = "token='" + "x" * 50_000_000
    began = time.thread_time()
    redact(text)
    assert time.thread_time() - began < 0.5


@table("beginning", [each for each in BEGINNINGS if len(each) > 2])
@table(
    "change", [str, str.upper, str.lower, lambda text: f"caf\u00e9 {text}", lambda text: text.replace("s", "\u017f")]
)
def test_rule_that_is_skipped_without_its_word_would_not_have_matched(beginning, change, monkeypatch):
    texts = [change(f"failed: {beginning}{end}") for end in (SECRET, f"{SECRET}@host/x", f"a={SECRET}", "b" * 33)]
    found = [redact(text) for text in texts]
    monkeypatch.setattr(redaction, "_NEEDS", {})
    assert found == [redact(text) for text in texts]


def test_letters_that_only_look_like_others_to_a_rule_do_not_hide_a_secret():
    assert redact(f"ba\u017fic {SECRET}") == f"ba\u017fic {MARK}"
    assert redact(f"author\u0131zation: x {SECRET}") == f"author\u0131zation: {MARK}"
