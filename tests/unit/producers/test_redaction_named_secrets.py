"""Values of secret names are removed in every notation, and the text around them stays."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear.redaction import MARK, redact, without_named
from tests.support.table import table

SECRET = "s3cr3tValueThatMustStayHidden42"


@table(
    ("text", "expected"),
    [
        (f'{{"X-Api-Key": ["{SECRET}"], "page": 2}}', f'{{"X-Api-Key": {MARK}, "page": 2}}'),
        (f"{{'token': ['abc', '{SECRET}']}} failed", f"{{'token': {MARK}}} failed"),
        (f"{{'password': b'{SECRET}'}}", f"{{'password': {MARK}}}"),
        (f'{{"token":{{"value":"a}}b{SECRET}"}},"page":2}}', f'{{"token":{MARK},"page":2}}'),
        (f'{{"password": "hun\\"{SECRET} rest", "page": 2}}', f'{{"password": {MARK}, "page": 2}}'),
        (f"token=SecretStr('{SECRET}') is wrong", f"token={MARK} is wrong"),
        (f"credentials: [ana, {SECRET}] failed", f"credentials: {MARK} failed"),
        (f"password => {SECRET}", f"password => {MARK}"),
        (f"[password] => {SECRET}", f"[password] => {MARK}"),
        (f"if password == '{SECRET}'", f"if password == {MARK}"),
        (f"os.environ['API_KEY'] = '{SECRET}' failed", f"os.environ['API_KEY'] = {MARK} failed"),
        (f"SECRET_KEY={SECRET}", f"SECRET_KEY={MARK}"),
        (f"secretKey: {SECRET}", f"secretKey: {MARK}"),
        (f"SECRET_KEY_BASE: {SECRET}", f"SECRET_KEY_BASE: {MARK}"),
        (f"('Cookie','sid={SECRET}; x=y')", f"('Cookie',{MARK})"),
        (f'("x-api-key", "{SECRET}")', f'("x-api-key", {MARK})'),
        (f"[(b'authorization', b'token {SECRET}'), (b'a', b'b')]", f"[(b'authorization', {MARK}), (b'a', b'b')]"),
        (f"('token', '{SECRET}", f"('token', {MARK}"),
        (f'{{"set-cookie": ["theme=dark", "sid={SECRET}"]}}', f'{{"set-cookie": {MARK}}}'),
        (f"{{'cookies': {{'sid': '{SECRET}'}}, 'page': 2}}", f"{{'cookies': {MARK}, 'page': 2}}"),
        (f'{{"body": "x", "token": "{SECRET}', f'{{"body": "x", "token": {MARK}'),
    ],
)
def test_removes_exactly_the_value_of_a_secret_name(text, expected):
    assert redact(text) == expected
    assert redact(expected) == expected


def test_removes_a_value_in_nested_json():
    text = json.dumps({"password": SECRET, "city": "Oslo"})
    for _ in range(4):
        text = json.dumps({"error": text, "code": 5})
        found = redact(text)
        assert SECRET not in found
        assert "Oslo" in found
        assert found.endswith('"code": 5}')


def test_removes_an_argument_of_a_command():
    with pytest.raises(subprocess.CalledProcessError) as failed:
        subprocess.run([sys.executable, "-c", "raise SystemExit(1)", "--password", SECRET, "city"], check=True)
    with pytest.raises(subprocess.TimeoutExpired) as slow:
        subprocess.run([sys.executable, "-c", "input()", "--api-key", SECRET], timeout=0, stdin=-1, check=True)
    for found in (failed, slow):
        assert SECRET in str(found.value)
        assert SECRET not in redact(str(found.value))
    assert f"'--password', {MARK}, 'city']' returned non-zero exit status 1." in redact(str(failed.value))


@table(
    ("text", "expected"),
    [
        (f"curl --api-key {SECRET} https://host", f"curl --api-key {MARK} https://host"),
        (f"--password '{SECRET} two' x", f"--password {MARK} x"),
        (f"-password  {SECRET}", f"-password  {MARK}"),
        (f"(x --auth-token {SECRET},--user ana)", f"(x --auth-token {MARK} ana)"),
        (f"--token is-{SECRET} failed", f"--token {MARK} failed"),
        (
            f"error: unrecognized arguments: --client-secret {SECRET}",
            f"error: unrecognized arguments: --client-secret {MARK}",
        ),
    ],
)
def test_removes_the_value_of_an_option_in_a_text(text, expected):
    assert redact(text) == expected
    assert redact(expected) == expected


@table(
    "text",
    [
        "the option --password is required; use --token or --api-key.",
        "--password --user ana",
        "--password-stdin ana",
        "--page-token-file /run/token",
        "--user ana --pages 3",
        "sub-token count",
        "no token - token count",
        "give --token",
    ],
)
def test_keeps_an_option_that_the_text_is_about(text):
    assert redact(text) == text


def test_removes_secrets_from_headers_of_httpx():
    headers = httpx.Headers({"X-Api-Key": SECRET, "Cookie": f"sid={SECRET}", "Accept": "text/plain"})
    found = redact(f"sent {headers.raw} and {headers.multi_items()}")
    assert SECRET not in found
    assert found.count("text/plain") == 2


@table(
    "text",
    [
        "missing fields: ['password', 'name']",
        '{"required": ["token", "user"]}',
        "{'loc': ('body', 'token'), 'msg': 'field required'}",
        "('token', 'user', 'city') are required",
        '{"token": "", "password": \'\', "secret": b\'\'}',
        r"{\"token\": \"\", \"page\": 2}",
        "the cookie: it crumbled",
        "authorization: pending",
        f"token={MARK} and ['token', {MARK}]",
    ],
)
def test_keeps_names_without_a_value(text):
    assert without_named(text) == text


odd = st.text(alphabet="ab'\"\\[](){}:=,; \n@/<>&", max_size=8)
secrets = st.builds(lambda before, after: f"{before}{SECRET}{after}", odd, odd)
names = st.sampled_from(["token", "password", "X-Api-Key", "apiKey", "SECRET_KEY", "Cookie", "Authorization"])


@pytest.mark.slow
@given(names, secrets, st.data())
def test_removes_values_in_every_notation_of_python_and_json(name, secret, data):
    value = data.draw(st.sampled_from([secret, [secret], ["x", secret], {"value": secret}, {"a": {"b": [secret]}}]))
    write = data.draw(st.sampled_from([json.dumps, repr]))
    text = write({"city": "Oslo", name: value, "page": 2})
    for _ in range(data.draw(st.integers(0, 4))):
        text = json.dumps({"error": text, "code": 5})
    found = redact(f"failed: {text}")
    assert SECRET not in found
    assert "Oslo" in found
    assert redact(found) == found


@pytest.mark.slow
@given(names, secrets, st.booleans())
def test_removes_values_from_pairs_and_arguments(name, secret, binary):
    value = secret.encode() if binary else secret
    for text in (repr((name, value)), repr([(name.encode(), value), ("a", "b")]), repr(["x", f"--{name}", value])):
        found = redact(text)
        assert SECRET not in found
        assert redact(found) == found


PIECES = [
    "a", "-_", "a:", "token:", 'token="', "token='", "token: (", "token: (x: ", 'token: {"', "token: [[", "token=a('",
    "token: [b'\\'", "token:\\'\"", "token: (a b ", '("token",\'', "('token','\\", "'--token',\"", "\\", '\\"', "'\"\\",
    "token => ", '"]=', "cookie: [", "authorization: {", "_token=[", "token: {a:{b:",
]  # fmt: skip


@pytest.mark.slow
@table("piece", PIECES)
def test_redaction_takes_linear_time(piece):
    """Without the bound of a message, four times the text takes about four times as long, not sixteen."""

    def took(characters):
        text = (piece * characters)[:characters]
        return min(timed(text) for _ in range(3))

    def timed(text):
        began = time.thread_time()
        without_named(text)
        return time.thread_time() - began

    assert took(80_000) < 10 * took(20_000) + 0.02


@pytest.mark.slow
def test_redaction_takes_linear_time_with_many_escapes():
    text = "token: ['" + "".join("\\" * number + "'" for number in range(1, 400))
    began = time.thread_time()
    without_named(text)
    assert time.thread_time() - began < 0.5
