"""Secrets leave no process in an error message; ordinary words do."""

from __future__ import annotations

import time

import pytest

from switchgear.redact import MARK, MAX_MESSAGE_CHARACTERS, redact

SECRET = "s3cr3tValueThatNobodyMaySee42"


@pytest.mark.parametrize(
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
        f"client_secret={SECRET}",
        f"key sk-{SECRET}",
        f"key sk-ant-api03-{SECRET}",
        f"ghp_{SECRET}",
        f"glpat-{SECRET}",
        f"xoxb-{SECRET}",
        f"hf_{SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{SECRET}",
    ],
)
def test_a_secret_is_taken_out(text):
    found = redact(text)
    assert SECRET not in found
    assert MARK in found


@pytest.mark.parametrize("text", ["AKIAIOSFODNN7EXAMPLE is not authorised", "AIza" + "B" * 35])
def test_cloud_keys_are_known_by_their_form(text):
    assert MARK in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "connection refused by 10.0.0.1:5432",
        "the token limit of 4096 was exceeded",
        "http://localhost:8080/path?page=2 answered 500",
        "flight HAT271 has no seats; use sky-high search",
        "password is required",
        "signature verification failed",
        "basic search failed, the bearer is unknown",
        "",
    ],
)
def test_ordinary_words_stay(text):
    assert redact(text) == text


def test_the_host_and_what_follows_stay_readable():
    assert redact("to postgresql://u:pw@db:5432/shop failed") == f"to postgresql://{MARK}@db:5432/shop failed"
    assert redact("GET /x?token=abcdefgh&page=2") == f"GET /x?token={MARK}&page=2"


def test_a_long_message_is_cut_with_an_ellipsis():
    found = redact("x" * 10_000)
    assert len(found) == MAX_MESSAGE_CHARACTERS
    assert found.endswith("…")


def test_a_message_of_the_greatest_length_is_kept():
    assert redact("x y " * 500) == "x y " * 500


@pytest.mark.parametrize(
    "text",
    ["a" * 100_000, "password" * 10_000, "-_" * 50_000, "://" * 30_000, "a:" * 50_000, "eyJ" * 9_000, '"' * 9_000],
)
def test_no_text_takes_long(text):
    began = time.perf_counter()
    redact(text)
    assert time.perf_counter() - began < 0.5
