"""What a call is about is read from its arguments, in the same way in all languages, and whatever they hold."""

import pytest

from switchgear.guard.targets import MOST_TARGET, host_of, plain, target_of, target_of_call
from tests.support.table import table

HOSTS = [
    ("https://example.org/a?b#c", "example.org"),
    ("HTTPS://Example.ORG:8443/", "example.org"),
    ("https://good.org@evil.org/", "evil.org"),
    ("https://a:b@c@evil.org/", "evil.org"),
    ("http://evil.org\\@good.org/", "evil.org"),
    ("http://evil.org?@good.org/", "evil.org"),
    ("http://evil.org#@good.org/", "evil.org"),
    ("//x", "x"),
    ("example.org/path", "example.org"),
    ("localhost:8080", "localhost"),
    ("http://127.0.0.1/", "127.0.0.1"),
    ("http://[::1]:80/", "[::1]"),
    ("http://[::1", ""),
    ("http://example.org./", "example.org"),
    ("http://example.org:99999/", "example.org"),
    ("http://example.org:999999/", ""),
    ("http://example.org:x/", ""),
    (" \t http://exam\nple.org/\r\n ", "example.org"),
    ("http:///path", ""),
    ("javascript:alert(1)", ""),
    ("data:text/html,x", ""),
    ("a search with spaces", ""),
    ("http://müller.example/", ""),
    ("http://\u017fite.example/", ""),
    ("http://ex\u212aample.org/", ""),
    ("http://ex ample.org/", ""),
    ("http://.org/", ""),
    ("http://-x.org/", ""),
    ("http://a..b/", "a..b"),
    ("", ""),
    ("//", ""),
    ("@" * 3_000, ""),
    ("http://" + "a@" * 3_000 + "x/", ""),
    ("http://" + "a" * 10_000, ""),
    ("http://" + "a" * MOST_TARGET + "/", "a" * MOST_TARGET),
    ("http://" + "a" * (MOST_TARGET + 1) + "/", ""),
    ("http://a\ud800b/", ""),
    ("http://a\0b/", ""),
]


@table(("url", "host"), HOSTS)
def test_hostile_urls_have_the_host_that_both_languages_read(url, host):
    assert host_of(url) == host


@table(
    ("value", "found"),
    [
        ("index-1", "index-1"),
        ("a|user=b@c", "a|user=b@c"),
        ("", ""),
        (7, "7"),
        (7.0, "7"),
        (-0.0, "0"),
        (7.5, ""),
        (2**53 - 1, "9007199254740991"),
        (2**53, ""),
        (10**5_000, ""),
        (float("inf"), ""),
        (float("nan"), ""),
        (True, ""),
        (None, ""),
        ([], ""),
        ({}, ""),
        (b"x", ""),
        ("a\nb", ""),
        ("a\x7fb", ""),
        ("a\u2028b", ""),
        ("\ud800", ""),
        ("\U0001f600" * MOST_TARGET, "\U0001f600" * MOST_TARGET),
        ("x" * (MOST_TARGET + 1), ""),
    ],
)
def test_only_lines_and_whole_numbers_of_a_bounded_length_are_targets(value, found):
    assert plain(value) == target_of("index", {"index": value}) == found


@table(
    ("rule", "found"),
    [
        ("url.host", "example.org"),
        ("url", "https://example.org/"),
        ("query.index", "pages"),
        ("query.index.host", "pages"),
        ("query.index.name", ""),
        ("query", ""),
        ("query.host", ""),
        ("missing", ""),
        ("missing.host", ""),
        ("url.host.host", ""),
    ],
)
def test_a_rule_is_a_path_through_the_arguments(rule, found):
    assert target_of(rule, {"url": "https://example.org/", "query": {"index": "pages"}}) == found


def test_arguments_that_fail_name_no_target():
    class Broken(dict):
        def get(self, *_):
            raise RuntimeError("no")

        __contains__ = get

    assert target_of("url.host", Broken()) == ""
    assert target_of_call("url.host", Broken()) == ""
    assert target_of_call("url.host", {"x": Broken()}) == ""


@pytest.mark.parametrize("others", [(), ({"url": "https://second.org"},)])
def test_the_first_mapping_that_knows_the_name_is_read_if_no_argument_has_it(others):
    arguments = {"url": "https://example.org"}
    assert target_of_call("url.host", {"name": "fetch", "arguments": arguments}, others) == "example.org"
    assert target_of_call("url.host", {"url": 5, "arguments": arguments}, others) == ""
    assert target_of_call("path", {"name": "fetch", "arguments": arguments}, others) == ""
