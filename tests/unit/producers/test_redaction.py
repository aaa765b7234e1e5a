"""Secrets are removed from error messages, and ordinary words stay."""

from __future__ import annotations

import time

import pytest

from switchgear.redaction import MARK, MAX_MESSAGE_CHARACTERS, redact, redactor
from tests.support.table import table

SECRET = "s3cr3tValueThatMustStayHidden42"


@table(
    "text",
    [
        f"401 for Authorization: Bearer {SECRET}",
        f"header authorization=Basic {SECRET}==",
        f'{{"Authorization": "Bearer {SECRET}"}}',
        f"sent bearer {SECRET} and failed",
        f"api_key={SECRET}",
        f"OPENAI_API_KEY={SECRET} is wrong",
        f'"apiKey": "{SECRET}"',
        f"x-api-key: {SECRET}",
        f"password = '{SECRET}'",
        f"GET https://api.test/v1?token={SECRET}&page=2",
        f"GET https://api.test/v1?page=2&access_token={SECRET}",
        f"could not connect to postgresql://admin:{SECRET}@db:5432/x",
        f"amqp://:{SECRET}@host",
        f"https://{SECRET}@host/x",
        f"git+https://{SECRET}@host:8443/x?y=z@w",
        f"client_secret={SECRET}",
        f"key sk-{SECRET}",
        f"key sk-ant-api03-{SECRET}",
        f"ghp_{SECRET}",
        f"glpat-{SECRET}",
        f"xoxb-{SECRET}",
        f"hf_{SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f"authToken={SECRET}",
        f"dbPassword: {SECRET}",
        f"AWSAccessKeyId={SECRET}&Expires=5",
        f"aws_secret_access_key = {SECRET}",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}==;EndpointSuffix=x",
        f"Endpoint=sb://x/;SharedAccessKeyName=root;SharedAccessKey={SECRET}",
        f"GET https://b.s3.amazonaws.com/k?X-Amz-Credential=c&X-Amz-Signature={SECRET}",
        f"X-Auth-Token: {SECRET}",
        f"Cookie: theme=dark; session={SECRET}; x=y",
        f"{{'Set-Cookie': 'sid={SECRET}; HttpOnly'}}",
        f"gsk_{SECRET}",
        f"xai-{SECRET}",
        f"SG.{SECRET}.{SECRET}",
        f"whsec_{SECRET}",
        f"hvs.{SECRET}",
        f"ya29.{SECRET}",
        f"POST https://hooks.slack.com/services/T000/B000/{SECRET}",
        f"POST https://discord.com/api/webhooks/12345/{SECRET}",
        f"postgres://user:p@{SECRET}@host/db",
        f"postgres://ana@corp:{SECRET}@host/db",
        f'Authorization: Digest username="ana", realm="x", nonce="n", response="{SECRET}", qop=auth',
        f"Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x-amz-date, Signature={SECRET}",
        f"Authorization: Bearer  {SECRET} failed",
        f"authorization => Bearer {SECRET} failed",
        f"['Set-Cookie'] => sid={SECRET}; HttpOnly",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{SECRET}\n-----END PGP PRIVATE KEY BLOCK-----",
        f"xapp-1-A012-345-{SECRET}",
        f"tvly-dev-{SECRET}",
        f"nvapi-{SECRET}",
        f"figd_{SECRET}",
        f"dckr_pat_{SECRET}",
        f"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{SECRET}",
        f"jwt eyJhbGciOiJIUzI1NiJ9-eyJ9-sk-eyJ9.eyJzdWIiOiIxMjM0In0.{SECRET}",
        f"eyJhbGciOiJIUzI1NiJ9-sk-{SECRET} is a key",
        f"the token sgt_abcdefghij_{SECRET} is unknown",
        f"permit sgp1_{SECRET}.{SECRET}",
        f"GET https://maps.test/json?key={SECRET} answered 403",
        f"GET https://maps.test/json?q=a&key={SECRET}&page=2",
        f'{{"url": "https://maps.test/json?q=a\\u0026key={SECRET}"}}',
        f"curl -u ana:{SECRET} https://api.test/x",
        f"curl -uana:{SECRET} https://api.test/x",
        f"curl --user 'ana:{SECRET} and more' https://api.test/x",
        f'curl -x p:3128 --proxy-user="ana:{SECRET}" https://api.test/x',
        f"<password>{SECRET}</password>",
        f'<wsse:Password Type="text">{SECRET}</wsse:Password>',
        f"<login><dbPassword><![CDATA[{SECRET}]]></dbPassword></login>",
        f"POST https://acme.webhook.office.com/webhookb2/1f-2@3e/IncomingWebhook/{SECRET}/4a",
        f"POST https://outlook.office.com/webhook/{SECRET}",
        f"POST https://prod-1.westeurope.logic.azure.com:443/workflows/1/triggers/manual/paths/invoke?sp=%2F&sig={SECRET}",
        f"POST https://hooks.zapier.com/hooks/catch/12345/{SECRET}/",
        f"POST https://hooks.slack.com/triggers/T000/1/{SECRET}",
        f"POST https://discord.com/api/v10/webhooks/12345/{SECRET}",
        f"POST https://hook.eu1.make.com/{SECRET}",
        f"POST https://maker.ifttt.com/trigger/x/with/key/{SECRET}",
    ],
)
def test_removes_a_secret(text):
    found = redact(text)
    assert SECRET not in found
    assert MARK in found
    assert redact(f"{found} and so on") == f"{found} and so on"


@table(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE is not authorised",
        "AIza" + "B" * 35,
        "dapi" + "0" * 32,
        "fc-" + "0123456789abcdef" * 2,
        "https://api.telegram.org/bot" + "123456789:AA" + "b" * 33,
    ],
)
def test_removes_cloud_keys(text):
    assert MARK in redact(text)


@table(
    "text",
    [
        "connection refused by 10.0.0.1:5432",
        "the token limit of 4096 was exceeded",
        "http://localhost:8080/path?page=2 answered 500",
        "flight HAT271 has no seats; use sky-high search",
        "password is required",
        "signature verification failed",
        "basic search failed, the bearer is unknown",
        "the cookie: it crumbled",
        "maxTokens=4096 exceeded by 5 tokens",
        "KeyError: 'passwordless'",
        "no such user ana@example.org",
        "SG-1 and hvs are not keys",
        "fc-barcelona plays at xapp-1",
        "http://localhost:8080/users/ana@example.org",
        "git@github.com:shop/web.git and ssh://git@github.com/shop/web.git",
        "see https://api.test?mail=ana@example.org",
        '["https://api.test","ana@example.org"]',
        "see https://api.test/a and mail ana@example.org: it is down",
        "usage: login <user> <password> [options]",
        "expected <token> but found a brace",
        "the key=value pairs sgt_short and ?keys=1",
        "docker run -u 1000:1000 image and nuclei -u https://api.test",
        "<passwordPolicy>8 letters</passwordPolicy>",
        "see https://hooks.zapier.com and https://teams.webhook.office.com",
        "",
    ],
)
def test_keeps_ordinary_words(text):
    assert redact(text) == text


def test_keeps_the_host_and_path_of_a_url():
    assert redact("to postgresql://u:pw@db:5432/shop failed") == f"to postgresql://{MARK}@db:5432/shop failed"
    assert redact("to postgres://u:p@ss@db/shop, ask a@b.c") == f"to postgres://{MARK}@db/shop, ask a@b.c"
    assert redact('Authorization: Digest a="b", response="c" failed') == f"Authorization: {MARK} failed"
    assert redact("GET /x?token=abcdefgh&page=2") == f"GET /x?token={MARK}&page=2"


def test_cuts_a_long_message_with_an_ellipsis():
    found = redact("x" * 10_000)
    assert len(found) == MAX_MESSAGE_CHARACTERS
    assert found.endswith("…")


@table("end", [*range(3_968, 4_003), 4_500])
@table(
    ("form", "between"),
    [
        ("dapi" + "0123456789abcdef" * 2, " "),
        ("dapi" + "0123456789abcdef" * 2, ","),
        ("https://ana:0123456789abcdef" + "@host/x", " "),
    ],
)
def test_removes_a_secret_that_the_cut_divides(form, between, end):
    """The secret before it becomes shorter, so the text at the cut is in the result."""
    head = "token='" + "A" * 3_000 + "'"
    text = head + (f"{between}x" * 4_000)[: end - len(head) - len(form) - 1] + between + form
    assert "01234" not in redact(text + f"{between}and so on" * 10)


def test_keeps_a_message_of_the_greatest_length():
    assert redact("x y " * 500) == "x y " * 500


@table(
    "text",
    [
        "a" * 100_000,
        "password" * 10_000,
        "-_" * 50_000,
        "://" * 30_000,
        "a:" * 50_000,
        "eyJ" * 9_000,
        "eyJA-" * 9_000,
        '"' * 9_000,
        "aA" * 9_000,
        "cookie:" * 900,
        "SG." * 9_000,
        "a=" * 9_000,
        'token="' * 900,
        "_token" * 900 + "=",
        "a://b:c@" * 9_000,
        "a://b@" * 9_000,
        "a://" + "b" * 9_000,
        "--token " * 900,
        "--token '" * 900,
        "--token \\" * 900,
        "-a" * 9_000,
        "--" + "a_token" * 900,
        "https://" * 900 + "@",
        'Authorization: Digest a="' * 900,
        "Authorization: a b=c," * 900,
        "-----BEGIN A PRIVATE KEY" * 900,
        "-----BEGIN PRIVATE KEY-----" * 900,
        "<password>" * 900,
        "<password><![CDATA[" * 900,
        "<" + "a:" * 9_000,
        "<token " * 900,
        "curl -u a:" * 900,
        "-u " + "a" * 9_000,
        'curl -u "a:' * 900,
        "?key=" * 900,
        "webhook.office.com/" * 900,
    ],
)
def test_redacts_any_text_in_bounded_time(text):
    began = time.thread_time()
    redact(text)
    assert time.thread_time() - began < 0.5


def test_users_rule_runs_after_the_built_in_ones():
    seen = []

    def without_people(text):
        seen.append(text)
        return text.replace("ana@example.org", "(someone)")

    both = redactor(without_people)
    assert both(f"no key sk-{SECRET} for ana@example.org") == f"no key {MARK} for (someone)"
    assert SECRET not in seen[0]
    assert redactor(None) is redact


@pytest.mark.parametrize("broken", [lambda _text: 1 / 0, lambda _text: None])
def test_failing_rule_withholds_the_message(broken, caplog):
    assert redactor(broken)("ana@example.org") == MARK
    assert "withheld" in caplog.text


def test_users_rule_can_not_make_a_message_too_long():
    assert len(redactor(lambda text: text * 9_000)("ana")) == MAX_MESSAGE_CHARACTERS
