"""TOML is changed in place."""

from __future__ import annotations

import tomllib

import pytest

from switchgear_schemas.toml_text import patched

TEXT = """# head
model = "o3" # the best

[servers.a] # first
command = "x" # a # b
args = [ # of x
  "1",
]
env = { "A B" = "1" }

[servers."b c".env]
X = "1"
"""


def test_what_stays_the_same_keeps_its_bytes_and_comments_stay():
    value = tomllib.loads(TEXT)
    assert patched(TEXT, value) == TEXT
    value["servers"]["a"] |= {"command": "y#z", "args": ["a", 'b"\x7f\t'], "timeout": 1.5, "on": True}
    del value["servers"]["a"]["env"]
    value["servers"]["b c"]["env"]["Y z"] = "2"
    assert patched(TEXT, value) == (
        '# head\nmodel = "o3" # the best\n\n[servers.a] # first\ncommand = "y#z"  # a # b\nargs = ["a", "b\\"\\u007f\\t"]\n'
        'timeout = 1.5\non = true\n\n[servers."b c".env]\nX = "1"\n"Y z" = "2"\n'
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a = { b = { c = 1 } }\n", {"a": {"b": {"c": 2}}}),
        ("a.b.c = 1\n[d]\n", {"a": {"b": {"c": 2, "e": 3}}, "d": {}}),
        ("[a]\nb = 1", {"a": {"b": 1, "c": {"d": "x"}}}),
        ("[a]\nb = 1\n[a.c]\nd = 1\n[[e]]\nb = 1\n", {"a": {"b": 1}, "e": [{"b": 1}]}),
        ("x = '''\n[a]\n'''\n[a]\ny = '#' # c\n", {"x": "[a]\n", "a": {"y": "# #"}}),
    ],
)
def test_a_value_is_changed_wherever_it_is(text, value):
    assert tomllib.loads(patched(text, value)) == value


@pytest.mark.parametrize(
    ("text", "value"), [("", {"a": {"b": 1}}), ("[[a]]\nb = 1\n", {"a": [{"b": 2}]}), ("a = 1\n", {"a": None})]
)
def test_what_can_not_be_changed_in_place_is_an_error(text, value):
    with pytest.raises(ValueError, match="can't be changed in place"):
        patched(text, value)
