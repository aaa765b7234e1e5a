"""The part of a client that a model sees: the list of tools, the notice, and the messages about outages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from switchgear import arguments
from switchgear.sessions import session_of
from switchgear.tool_list import Session, ToolLists

if TYPE_CHECKING:
    from switchgear.follower.view import CircuitView
    from switchgear.guard.decision import CircuitDecision
    from switchgear.guard.fleet_state import Availability
    from switchgear.guard.runtime import Runtime
    from switchgear.prompts import CircuitOf, Down, NameOf, NoticeBoard

T = TypeVar("T")


class ForModels:
    """Base of :class:`~switchgear.Switchgear` with the methods for what a model sees."""

    _runtime: Runtime
    _decision: CircuitDecision
    _availability: Availability | None
    _clocks: tuple[Callable[[], float], Callable[[], float]]
    _lists: ToolLists
    _board: NoticeBoard | None = None
    _start: Callable[[], None]
    _look_at_calls: Callable[[], None]
    circuits: Callable[[], Mapping[str, CircuitView]]

    def available(self, tools: Iterable[T], *, circuit_of: CircuitOf = None, session_id: str | None = None) -> list[T]:
        """Return the tools to offer to the model, unchanged and in order, by the client's ``tool_list``.

        By default that are all of them. :meth:`is_open` says whether a call would be refused.

        Args:
            tools: The agent's tools. See :func:`switchgear.prompts.named` for the kinds of items.
            circuit_of: See :data:`switchgear.prompts.CircuitOf`.
            session_id: The conversation that the list is for, for ``new_sessions``. In a session of the client, its id.

        Raises:
            NamelessToolError: An item has no name. The message has its position and type.
            SwitchgearError: ``tools`` isn't a list, or ``circuit_of`` returns no name for an item.
        """
        from switchgear.prompts import named  # noqa: PLC0415 - not every program has a list of tools

        found = named(tools, circuit_of)
        self._start()
        names = [name for name, _ in found]
        for name in names:
            arguments.tool_name(name)
        session = session_of(self._runtime)
        whose = Session(session_id or "") if session is None else Session(session.session_id, own=True)
        offered = self._lists.offered(names, whose, self._runtime.condition, self._runtime.ask_ahead)
        return [tool for (_, tool), is_offered in zip(found, offered, strict=True) if is_offered]

    def notice(self, *, name_of: NameOf = None, tools: Collection[str] | None = None) -> str:
        """Return a text for a prompt: which tools are down, and what to use instead.

        Most of the time it is empty. It stays the same to the byte until other tools are down, and changes at most once a
        minute, so that the prompt's cache stays valid.

        Args:
            name_of: See :data:`switchgear.prompts.NameOf`.
            tools: The circuits of the agent's tools. The notice leaves out all others. None: every circuit of the fleet.
        """
        from switchgear.prompts import notice  # noqa: PLC0415 - see available

        place = ("notice", None if tools is None else frozenset(tools))
        _, down = self._told(place, "", name_of, tools)
        return down.everything or notice(down.tools, name_of=name_of)

    def outage_message(
        self, session_id: str | None = None, *, name_of: NameOf = None, tools: Collection[str] | None = None
    ) -> str:
        """Return the message to append to a conversation now: which tools went down since the last one, and which may be called again.

        Most of the time it is empty. Ask before each turn of the model. An outage is told once, and its end once.

        Args:
            session_id: The conversation. By default that of the running session, or the only one of the process.
            name_of: See :data:`switchgear.prompts.NameOf`.
            tools: The circuits of the agent's tools. The message leaves out all others. None: every circuit of the fleet.
        """
        from switchgear.prompts import message  # noqa: PLC0415 - see available

        before, after = self._told(("message",), session_id, name_of, tools)
        return message(before, after, name_of=name_of)

    def forget_told(self, session_id: str) -> None:
        """Forget what a conversation was told: it begins again, or was shortened. Then it is told what is down."""
        if self._board is not None:
            self._board.forget(("message", session_id))

    def _told(
        self, place: tuple[object, ...], session_id: str | None, name_of: NameOf, tools: Collection[str] | None
    ) -> tuple[Down, Down]:
        """Return what a text in a place said before, and what it says now."""
        from switchgear.prompts import NOTHING_CALLABLE, SESSION_OVER, Down, NoticeBoard  # noqa: PLC0415 - see available

        arguments.renamer("name_of", name_of)  # checks it, even if the text has no names
        self._start()
        self._look_at_calls()
        if self._board is None:
            self._board = NoticeBoard(*self._clocks, self._decision.family_of)
        session = session_of(self._runtime)
        mode = "fleet" if self._availability is None else self._availability.mode
        if session is not None and session.exhausted is not None:
            down = Down(everything=SESSION_OVER)
        elif mode == "deny":
            down = Down(everything=NOTHING_CALLABLE)
        else:
            decision = self._decision if session is None else session.decision
            own = decision.local
            local = own.all_now() if tools is None else [each for tool in tools for each in own.of_tool(tool)]
            if session is None and self._decision.families is not None:
                local += self._decision.families.all_now()
            fleet = self._decision.fleet
            views = {} if fleet is None or mode == "local_only" else self.circuits() if tools is None else fleet.views
            down = self._board.down(
                local,
                views,
                self._runtime.fallbacks.chains(),
                user_id="" if session is None else session.user_id,
                session_id="" if session is None else session.session_id,
                only=tools,
            )
        return self._board.settled((*place, session_id or ("" if session is None else session.session_id)), down, tools)
