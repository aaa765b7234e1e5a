"""What a model sees in its next turn: the tools that it is offered, and the messages about outages in its conversation.

Many frameworks send the history anew with each request. There each message stays where it was first put: if it moved, the prompt
would change from there on, and the provider would read the rest again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from switchgear.client import Switchgear
from switchgear.prompts import listed_name, named
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear.runtime.fork import call_in_child
from switchgear_schemas.ids import mint_metric_id

T = TypeVar("T")
MOST_CONVERSATIONS: Final = 10_000
"""The most conversations to remember. The one that was used longest ago is forgotten first."""
_MOST_LISTS: Final = 100


class Turn(NamedTuple, Generic[T]):
    """What a model sees in a turn."""

    tools: list[T]
    """The tools to offer."""
    message: str
    """What to append to the conversation. Usually empty."""


class Turns:
    """Base of :class:`~switchgear.integrations.tool_calls.ToolCalls`. Thread-safe.

    Args:
        gear: The client.
        circuit: Returns the circuit's name for the name of a tool.
    """

    def __init__(self, gear: Switchgear, circuit: Callable[[str], str]) -> None:
        self.gear = gear
        self.circuit = circuit
        self._names: dict[tuple[str, ...], dict[str, str]] = {}
        self._notes = Notes()
        self._id = mint_metric_id()

    def turn(self, tools: Sequence[T], *, session_id: str | None = None) -> Turn[T]:
        """Return the tools to offer, and the message to append to the conversation. Ask once before each request.

        Args:
            tools: All tools of the agent.
            session_id: The framework's name for the run or conversation.
        """
        return Turn(self.available(tools, session_id=session_id), self._message(tools, session_id))

    def turn_in(
        self,
        tools: Sequence[T],
        history: Sequence[Any],
        make: Callable[[str], Any],
        *,
        session_id: str | None,
        conversation: str | None = None,
        anchor: Callable[[Any], object] | None = None,
    ) -> tuple[list[T], list[Any]]:
        """Return the tools to offer, and the history with the messages about outages, where the framework sends it anew each time.

        Args:
            tools: All tools of the agent.
            history: The messages of the conversation, without these.
            make: Makes the framework's message of a text.
            session_id: The framework's name for the run or conversation.
            conversation: Tells the conversation apart, if ``session_id`` doesn't. Without both there are no messages.
            anchor: Returns what tells a message of the history apart, if equality doesn't.
        """
        offered, where = self.available(tools, session_id=session_id), conversation or session_id
        if where is None or not history:
            return offered, list(history)
        anchors = history if anchor is None else [anchor(each) for each in history]
        if not self._notes.fit(where, anchors):
            self.gear.forget_told(self._told(where))
        message = self._message(tools, where)
        return offered, self._notes.placed(where, history, anchors, message, make)

    def available(self, tools: Sequence[T], *, session_id: str | None = None) -> list[T]:
        """Return the tools to offer to the model. See :meth:`switchgear.Switchgear.available`."""
        return self.gear.available(tools, circuit_of=self.circuit, session_id=session_id)

    def message(self, names: Sequence[str], *, session_id: str | None) -> str:
        """Return the message about the tools with these names to append to a conversation now. It is usually empty."""
        return self._said(self.names(names), session_id)

    def _message(self, tools: Sequence[Any], session_id: str | None) -> str:
        """:meth:`message` for tools, of which some may be guarded themselves and have circuits of other names."""
        return self._said(
            {circuit: listed_name(tool) or circuit for circuit, tool in named(tools, self.circuit)}, session_id
        )

    def _said(self, names: Mapping[str, str], session_id: str | None) -> str:
        told = None if session_id is None else self._told(session_id)
        return self.gear.outage_message(told, name_of=names, tools=names) if names else ""

    def _told(self, conversation: str) -> str:
        """Return the name of a conversation of this agent. Others of the same session have conversations of their own."""
        return f"{conversation} {self._id}"

    def names(self, names: Sequence[str]) -> dict[str, str]:
        """Return the model's names of tools by circuit."""
        key = tuple(names)
        found = self._names.get(key)
        if found is None:
            found = {self.circuit(name): name for name in key}
            if len(self._names) >= _MOST_LISTS:
                self._names.clear()
            self._names[key] = found
        return found


class _Note(NamedTuple):
    place: int
    """How many messages of the history come before it."""
    after: object
    """What tells the last of these apart."""
    message: Any


class Notes:
    """The messages that were added to conversations, and where. Thread-safe."""

    def __init__(self) -> None:
        self._notes = BoundedDict[str, list[_Note]](MOST_CONVERSATIONS)
        self._make_lock()
        call_in_child(self._make_lock)

    def fit(self, conversation: str, anchors: Sequence[object]) -> bool:
        """Return whether all messages of a conversation still have their places. If not, the history was shortened: forget them."""
        with self._lock:
            notes = self._notes.get(conversation, [])
            if all(note.place <= len(anchors) and anchors[note.place - 1] == note.after for note in notes):
                return True
            self._notes.pop(conversation, None)
            return False

    def placed(
        self,
        conversation: str,
        history: Sequence[Any],
        anchors: Sequence[object],
        text: str,
        make: Callable[[str], Any],
    ) -> list[Any]:
        """Return the history with the messages of a conversation, and with a new one at its end if there is a ``text``."""
        with self._lock:
            notes = self._notes.get(conversation, [])
            if text:
                notes = [*notes, _Note(len(history), anchors[-1], make(text))]
                self._notes[conversation] = notes
        found = list(history)
        for note in reversed(notes):
            if found[note.place : note.place + 1] != [note.message]:  # some frameworks keep what they were given
                found.insert(note.place, note.message)
        return found

    def _make_lock(self) -> None:
        """Make the lock, again in the child of a fork: another thread of the parent may hold it."""
        self._lock = threading.RLock()
