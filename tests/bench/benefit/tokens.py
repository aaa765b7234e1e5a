"""What a model's turns cost, with the prompt cache of its provider.

A prompt is a sequence: the tools, the system prompt with its notice, then the conversation. A provider reads what begins as a recent
prompt did from its cache and writes the rest into it. So a change of the list of tools makes it write everything again, and a change
of the notice everything but the list. The list and the system prompt are shared by all agents; a conversation is its agent's own.

The weights are a provider's public price list in November 2026, as multiples of an uncached token of input (Anthropic, five
minutes): a read costs 0.1, a write 1.25, and a token of output 5. A token has four characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CHARS: Final = 4
READ: Final = 0.1
WRITTEN: Final = 1.25
OUTPUT: Final = 5.0
KEPT_S: Final = 300.0
"""The cache keeps a prompt for so long after its last use."""


def tokens(chars: int) -> int:
    """Return the tokens of so many characters."""
    return -(-chars // CHARS)


@dataclass(slots=True)
class Spent:
    """Tokens."""

    read: int = 0
    """Read from the cache."""
    written: int = 0
    """Written into it."""
    rewritten: int = 0
    """Of the written ones, those of a conversation or list that had been written before, in the same task."""
    output: int = 0

    @property
    def all(self) -> int:
        """The tokens of all prompts and answers, whatever they cost."""
        return self.read + self.written + self.output

    @property
    def billed(self) -> float:
        """What they cost, in tokens of uncached input."""
        return READ * self.read + WRITTEN * self.written + OUTPUT * self.output

    def add(self, other: Spent) -> None:
        """Add what another turn or task has spent."""
        self.read += other.read
        self.written += other.written
        self.rewritten += other.rewritten
        self.output += other.output


class SharedCache:
    """What the provider keeps of lists and system prompts, for all agents."""

    def __init__(self) -> None:
        self._used: dict[tuple[object, ...], float] = {}

    def use(self, prefix: tuple[object, ...], now: float) -> bool:
        """Return whether the provider has a prompt that begins so. From now on it does."""
        last = self._used.get(prefix)
        self._used[prefix] = now
        return last is not None and now - last <= KEPT_S


class Conversation:
    """The prompts of one task.

    Args:
        cache: What is shared with other agents.
        system_chars: Characters of the system prompt.
    """

    def __init__(self, cache: SharedCache, system_chars: int) -> None:
        self._cache = cache
        self._system = tokens(system_chars)
        self._history = 0
        self._kept: dict[tuple[object, object], tuple[int, float]] = {}
        """By list and notice: how much of the conversation the provider has behind it, and since when."""
        self._largest = 0
        """The longest prompt so far."""
        self.spent = Spent()

    def say(self, chars: int) -> None:
        """Add what a user, a tool or the model said."""
        self._history += tokens(chars)

    def turn(self, now: float, listed: object, listed_chars: int, notice: str, output_chars: int) -> int:
        """Let the model answer, and return the tokens of its answer.

        Args:
            now: Seconds.
            listed: Identifies the list of tools.
            listed_chars: Its length.
            notice: What the system prompt says about tools that are out.
            output_chars: The length of the answer, which becomes part of the conversation.
        """
        of_list, of_system = tokens(listed_chars), self._system + tokens(len(notice))
        read = 0
        if self._cache.use((listed,), now):
            read += of_list
        if self._cache.use((listed, self._system, notice), now) and read:
            read += of_system
        kept, since = self._kept.get((listed, notice), (0, now))
        if now - since <= KEPT_S and read == of_list + of_system:
            read += kept
        prompt = of_list + of_system + self._history
        written = prompt - read
        answer = tokens(output_chars)
        self.spent.add(Spent(read, written, max(0, min(written, self._largest - read)), answer))
        self._kept[listed, notice] = self._history, now
        self._largest = max(self._largest, prompt)
        self._history += answer
        return answer
