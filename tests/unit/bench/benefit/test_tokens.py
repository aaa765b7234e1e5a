import pytest

from tests.bench.benefit.tokens import KEPT_S, Conversation, SharedCache, Spent, tokens

LIST, SYSTEM, SAID, ANSWER = 4_000, 800, 400, 40
"""Characters: 1,000, 200, 100 and 10 tokens."""


def _conversation(cache: SharedCache | None = None) -> Conversation:
    conversation = Conversation(cache or SharedCache(), SYSTEM)
    conversation.say(SAID)
    return conversation


def _turn(conversation: Conversation, now: float, *, listed: object = "all", notice: str = "") -> Spent:
    before = conversation.spent.read, conversation.spent.written, conversation.spent.rewritten
    conversation.turn(now, listed, LIST, notice, ANSWER)
    spent = conversation.spent
    return Spent(spent.read - before[0], spent.written - before[1], spent.rewritten - before[2])


def test_a_token_has_four_characters_rounded_up():
    assert [tokens(chars) for chars in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_the_first_turn_writes_everything_into_the_cache():
    assert _turn(_conversation(), 0.0) == Spent(read=0, written=1_300, rewritten=0)


def test_the_next_turn_reads_what_was_written_and_writes_the_rest():
    conversation = _conversation()
    _turn(conversation, 0.0)
    conversation.say(SAID)
    assert _turn(conversation, 5.0) == Spent(read=1_300, written=110, rewritten=0)


def test_another_agent_reads_the_list_and_the_system_prompt_but_not_the_conversation():
    cache = SharedCache()
    _turn(_conversation(cache), 0.0)
    assert _turn(_conversation(cache), 1.0) == Spent(read=1_200, written=100, rewritten=0)


def test_a_change_of_the_list_writes_everything_again():
    conversation = _conversation()
    _turn(conversation, 0.0)
    assert _turn(conversation, 5.0, listed="fewer") == Spent(read=0, written=1_310, rewritten=1_300)


def test_a_change_of_the_notice_writes_everything_but_the_list_again():
    conversation = _conversation()
    _turn(conversation, 0.0)
    assert _turn(conversation, 5.0, notice="four") == Spent(read=1_000, written=311, rewritten=300)


def test_a_list_that_comes_back_finds_what_was_kept_with_it():
    conversation = _conversation()
    _turn(conversation, 0.0)
    _turn(conversation, 5.0, listed="fewer")
    assert _turn(conversation, 10.0).read == 1_300


def test_the_cache_forgets_after_its_time():
    conversation = _conversation()
    _turn(conversation, 0.0)
    assert _turn(conversation, KEPT_S + 1).read == 0


def test_reads_are_cheap_and_output_is_dear():
    assert Spent(read=1_000, written=100, output=10).billed == pytest.approx(100 + 125 + 50)
    assert Spent(read=1_000, written=100, output=10).all == 1_110
