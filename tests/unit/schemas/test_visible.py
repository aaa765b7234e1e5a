"""Text as people see it: nothing unseen is left, nothing is lost, and what differs looks different."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from switchgear_schemas import visible
from tests.support.table import table
from tests.support.unseen import HOSTILE, unseen

pytestmark = pytest.mark.slow

texts = st.text(st.one_of(st.characters(), st.sampled_from(HOSTILE + "\n\t\r \\u0aF\ud800\U000e0100"))) | st.text()


@given(texts)
@example(HOSTILE)
def test_escaped_text_has_no_invisible_character(text):
    assert not unseen(visible.escaped(text)) - {"\t"}
    for shown in (visible.name(text), visible.line(text), visible.sentence(text)):
        assert not unseen(shown)
        assert "\n" not in shown


@given(texts)
@example(HOSTILE)
def test_an_escaped_json_document_has_the_same_value(text):
    document = json.dumps({"name": text}, ensure_ascii=False)
    assert json.loads(visible.escaped(document)) == {"name": text}


@given(texts, texts)
@example("a", "a\u200b")
@example("a", "a ")
@example("a b", "a  b")
@example("a b", "a\u00a0b")
@example("a\u202e", "a\\u202e")
@example("a\\\u202e", "a\\\\u202e")
@example("a\n", "a\\u000a")
@example("\U0001f3f4\U000e0067", "\U0001f3f4")
def test_names_that_differ_look_different(one, other):
    assert (visible.name(one) == visible.name(other)) == (one == other)


@given(texts)
def test_escaping_twice_changes_nothing_more(text):
    assert visible.escaped(visible.escaped(text)) == visible.escaped(text)


@table(
    "text", ["mcp:server:tool", "שלום עולם", "مرحبا", "日本語", "naïve café", "e\u0301", "🚀🇩🇪", "─│…→", "\\d+ C:\\new"]
)
def test_letters_of_every_script_stay_as_they_are(text):
    assert visible.escaped(text) == visible.name(text) == visible.sentence(text) == text


def test_the_lines_of_a_message_are_joined_and_its_text_stays():
    assert visible.sentence(" no\n\r\n  answer\x1b[31m\t now ") == "no answer\\u001b[31m now"


@pytest.mark.deep
def test_every_unicode_character_is_either_visible_or_escaped():
    every = [chr(code) for code in range(0x110000)]
    hidden = unseen("".join(every)) | {"\n"}
    seen = "".join(character for character in every if character not in hidden)
    assert visible.line(seen) == seen
    apart = "a".join(sorted(hidden))  # two surrogates side by side would read as one character
    shown = visible.line(apart)
    assert shown.isascii()
    assert json.loads(f'"{shown}"') == apart  # JSON refuses a control character that is not escaped
