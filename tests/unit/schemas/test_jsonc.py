"""JSON with comments is read, and changed in place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchgear_schemas.jsonc import parsed, patched

TEXT = """// the head
{
\t"a": {"x": 1, "list": [1, 2,], /* inside */ "n": 1.50},
\t"b": { // of b
\t\t"url": "https://x", // not a "comment"
\t\t"keep": 1e5,
\t},
\t"c": 1
}
"""


def test_comments_and_trailing_commas_are_left_out_and_texts_that_look_like_them_stay():
    assert parsed(TEXT)["b"] == {"url": "https://x", "keep": 1e5}
    assert parsed('["// no", "/* no */ ,]", 1,]') == ["// no", "/* no */ ,]", 1]


def test_what_stays_the_same_keeps_its_bytes():
    value = parsed(TEXT)
    assert patched(TEXT, value) == TEXT
    value["b"] = {"command": "y", "keep": 1e5}
    value["c"] = [1]
    value["a"]["x"] = {"deep": 1}
    assert patched(TEXT, value) == (
        '// the head\n{\n\t"a": {"x": {"deep": 1}, "list": [1, 2,], /* inside */ "n": 1.50},\n\t"b": {\n\t\t"command": "y", // of b\n'
        '\t\t // not a "comment"\n\t\t"keep": 1e5,\n\t},\n\t"c": [\n\t\t1\n\t]\n}\n'
    )


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ('{"a": 1}', {"b": 2}, '{"b": 2}'),
        ('{"a": 1,"b":2}', {"b": 2, "c": {"d": [1]}}, '{"b":2, "c": {"d": [1]}}'),
        ("{}", {"a": 1}, '{"a": 1}'),
        ('{\n  "a": {}\n}', {"a": {"b": 1}}, '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\r\n  "a": 1\r\n}\r\n', {"a": 1, "b": [1]}, '{\r\n  "a": 1,\r\n  "b": [\r\n    1\r\n  ]\r\n}\r\n'),
        ('{"a": 1}', {"a": "\ud83d"}, '{"a": "\\ud83d"}'),
    ],
)
def test_members_are_added_and_removed_in_the_form_of_their_neighbours(text, value, expected):
    assert patched(text, value) == expected


KEYS = st.sampled_from("abcd")
PLAIN = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "// a", "/* */ ,}", '"'])
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
COMMENTS = st.sampled_from(["", " ", "/* c, } */", " // c }\n", "\n"])


def commented(text, comments):
    """Return JSON with comments after its punctuation."""
    found, in_text, escaped = "", False, False
    for character in text:
        found += character
        in_text ^= character == '"' and not escaped
        escaped = character == "\\" and not escaped
        if not in_text and character in "{,:[":
            found += next(comments, "")
    return found


@pytest.mark.slow
@given(OBJECTS, OBJECTS, st.lists(COMMENTS, max_size=20), st.sampled_from([None, 2, "\t"]))
def test_any_object_becomes_any_other_and_itself(old, new, comments, indent):
    text = commented(json.dumps(old, indent=indent), iter(comments))
    assert parsed(text) == old
    assert patched(text, old) == text
    assert parsed(patched(text, new)) == new
