"""What a model is told about tools: a sentence for a prompt, and a message for a conversation.

Providers cache prompts by their beginning. So a text has no times: it stays the same to the byte until other tools are down. It
names only tools: the text of an error comes from a third party and must not get into a prompt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from switchgear.arguments import impossible, renamer
from switchgear.breaker.states import PASSING
from switchgear.guard.tool_function import guarded_by, guarded_inside, unwrapped
from switchgear.model_text import name_for_model
from switchgear.runtime.bounded_dict import BoundedDict
from switchgear.runtime.fork import call_in_child
from switchgear.tool_list import MOST_LISTS, Said, settle
from switchgear_schemas.circuit_ids import circuit_id, read_circuit_id, tool_circuit
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.follower.view import CircuitView
    from switchgear.guard.families import FamilyOf
    from switchgear.guard.local_circuits import LocalCircuit


T = TypeVar("T")
CircuitOf = Mapping[str, str] | Callable[[str], str] | None
"""Returns the name of the circuit (``mcp:server:tool``) for a name in the list. A mapping leaves names that it lacks unchanged."""

_CALLED_BY_US: Final = ("function", "custom")
_INNER: Final = ("function", "custom", "toolSpec")
"""Keys of OpenAI and Bedrock that hold the tool with its name."""
_DECLARATIONS: Final = ("function_declarations", "functionDeclarations")
"""Keys of Gemini that hold a list of tools. A list with one tool has its name."""
_PLACES: Final = frozenset({*_INNER, *_DECLARATIONS, "name", "type"})

MAX_TOOLS: Final = 10
"""The most tools to name. The others are counted."""

NOTHING_CALLABLE: Final = "No tool can be called now: their state is unknown. Go on without tools."
"""The text of a client with ``on_state_unavailable="deny"`` while the fleet is out of reach."""
SESSION_OVER: Final = "No tool can be called any more in this session. Finish with what you have."
"""The text after a limit of the session is reached. It has no numbers, because they may change."""
TO_TRY: Final = "The answer to a call of one says when to try it again."
"""Without it, a model that does as it is told would never find out that a tool works again."""
CALLABLE_AGAIN: Final = "Tools can be called again."
UNTESTED_S: Final = 600.0
"""A tool whose wait ended so long ago, and that nobody called since, isn't said to be down any more: maybe nobody calls it for that."""
MARK: Final = "[tool status]"
"""How a message in a conversation begins, so that it isn't taken for the user's."""

NameOf = Mapping[str, str] | Callable[[str], str] | None
"""Returns the name that the model knows for a circuit's name. A mapping leaves the names that it lacks unchanged."""
Fallbacks = Mapping[str, Sequence[str]]
"""The tools to use instead of a tool, best first."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A tool, or all tools of a family, that is down."""

    tool: str
    """Name of the tool, or of the family."""
    instead: tuple[str, ...] = ()
    """Tools to use instead, best first."""
    family: bool = False

    @property
    def key(self) -> str:
        """What tells it apart from all others."""
        return f"{self.tool}|family" if self.family else self.tool


class Down(NamedTuple):
    """What is down."""

    tools: tuple[Unavailable, ...] = ()
    everything: str = ""
    """The text to say in place of the tools' names, because no tool can be called."""

    @property
    def keys(self) -> frozenset[str]:
        """The set that decides whether a text changes."""
        return frozenset({self.everything} if self.everything else {each.key for each in self.tools})


def notice(tools: Iterable[Unavailable], *, name_of: NameOf = None) -> str:
    """Return the sentences for ``tools``, or an empty string without tools. Families come first, and each group is sorted by name.

    The names of families stay as they are. A substitute that is unavailable isn't recommended.

    Raises:
        SwitchgearError: ``name_of`` returns no name for a tool.
    """
    new_name = renamer("name_of", name_of)

    def shown(tool: str) -> str:
        return name_for_model(new_name(tool))  # some names come from other processes

    found: dict[str, list[Unavailable]] = {}
    for tool in sorted(tools, key=lambda each: (not each.family, each.tool)):
        found.setdefault(_name(tool, shown), []).append(tool)
    if not found:
        return ""
    names = sorted(found, key=lambda name: (not found[name][0].family, name))
    named = [_phrase(name, found, shown) for name in names[:MAX_TOOLS]]
    if len(found) > MAX_TOOLS:
        named.append(f"and {len(found) - MAX_TOOLS} more")
    return f"These tools are unavailable: {', '.join(named)}. {TO_TRY}"


def _name(tool: Unavailable, shown: Callable[[str], str]) -> str:
    return f"all tools of {name_for_model(tool.tool)}" if tool.family else shown(tool.tool)


def _phrase(name: str, out: Mapping[str, Sequence[Unavailable]], shown: Callable[[str], str]) -> str:
    substitutes = (shown(each) for tool in out[name] for each in tool.instead)
    substitute = next((each for each in substitutes if each not in out), None)
    return name if substitute is None else f"{name} (use {substitute} instead)"


def message(before: Down, after: Down, *, name_of: NameOf = None) -> str:
    """Return the message for a conversation about what went down, and what may be called again. It is empty if nothing did.

    Raises:
        SwitchgearError: ``name_of`` returns no name for a tool.
    """
    new_name = renamer("name_of", name_of)
    if after.everything:
        return "" if after.everything == before.everything else f"{MARK} {after.everything}"
    known, out = before.keys, after.keys
    texts = [CALLABLE_AGAIN] if before.everything else []
    if gone := [each for each in after.tools if each.key not in known]:
        texts.append(notice(gone, name_of=name_of))
    if back := [each for each in before.tools if each.key not in out and not before.everything]:
        names = sorted({_name(each, lambda tool: name_for_model(new_name(tool))) for each in back})
        more = [f"and {len(names) - MAX_TOOLS} more"] if len(names) > MAX_TOOLS else []
        texts.append(f"These tools may be called again: {', '.join([*names[:MAX_TOOLS], *more])}.")
    return " ".join([MARK, *texts]) if texts else ""


class NoticeBoard:
    """What the texts of one client say, by the place where they stand. Thread-safe.

    A family that is down is named once, in place of its tools.

    Args:
        clock: Returns monotonic seconds.
        wall: Returns seconds since 1970.
        family_of: Returns the family of a tool.
    """

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float], family_of: FamilyOf) -> None:
        self._clock = clock
        self._wall = wall
        self._family_of = family_of
        self._said = BoundedDict[object, Said[Down]](MOST_LISTS)
        self._make_lock()
        call_in_child(self._make_lock)

    def settled(self, place: object, down: Down, only: Collection[str] | None = None) -> tuple[Down, Down]:
        """Return what the text in a place said about, and what it says about now. See :func:`switchgear.tool_list.settle`.

        With ``only``, what is ``down`` are those of these tools, and the text goes on about others as it did.
        """
        with self._lock:
            said = self._said.get(place)
            before = Down() if said is None else said.about
            if only is not None and before.tools and not down.everything:
                concerned = self._concerned(only)
                down = Down((*(each for each in before.tools if each.key not in concerned), *down.tools))
            after = self._said[place] = settle(said, down.keys, down, self._clock())
            return before, after.about

    def forget(self, place: object) -> None:
        """Forget what the text in a place said."""
        with self._lock:
            self._said.pop(place, None)

    def down(
        self,
        local: Iterable[LocalCircuit],
        views: Mapping[str, CircuitView],
        fallbacks: Fallbacks,
        *,
        user_id: str = "",
        session_id: str = "",
        only: Collection[str] | None = None,
    ) -> Down:
        """Return what is down for a user and a session. Without an entry in ``fallbacks`` the fleet's policy names them."""
        owner = {"user": user_id, "session": session_id}
        local = list(local)
        if only is not None:  # a fleet has thousands of tools, an agent twenty
            ids = (each for tool in only for each in self._ids(tool, owner))
            views = {each: view for each in ids if (view := views.get(each)) is not None}
        found = [*self._of_fleet(views, fallbacks, owner), *self._of_process(local, views, fallbacks, owner)]
        if not found:
            return Down()
        if only is not None:
            concerned = self._concerned(only)
            found = [
                replace(each, instead=tuple(tool for tool in each.instead if tool in only))
                for each in found
                if each.key in concerned
            ]
        out = {each.tool for each in found if each.family}
        kept = [each for each in found if each.family or self._family(each.tool) not in out]
        return Down(
            tuple(
                replace(each, instead=tuple(tool for tool in each.instead if self._family(tool) not in out))
                for each in kept
            )
        )

    def _ids(self, tool: str, owner: Mapping[str, str]) -> Iterator[str]:
        """Yield the ids of all circuits that may decide about a tool's calls."""
        yield tool_circuit(tool)
        family = self._family_of(tool)
        if family is not None:
            yield family.circuit_id
        yield circuit_id(tool, "user", owner["user"])
        yield circuit_id(tool, "session", owner["session"])

    def _concerned(self, only: Collection[str]) -> set[str]:
        """Return the keys of tools and of their families."""
        families = (self._family(tool) for tool in only)
        return {*only, *(Unavailable(family, family=True).key for family in families if family is not None)}

    def _family(self, tool: str) -> str | None:
        found = self._family_of(tool)
        return None if found is None else found.name

    def _of_fleet(
        self, views: Mapping[str, CircuitView], fallbacks: Fallbacks, owner: Mapping[str, str]
    ) -> Iterator[Unavailable]:
        """Yield the tools whose circuits of the fleet aren't closed."""
        tested = self._wall() - UNTESTED_S
        for view in list(views.values()):
            if view.passes or view.recovers or (not view.forced and _ended_before(tested, view.state, view.open_until)):
                continue
            family = view.scope == "family"
            if family or _tool_of(view.circuit_id, view.scope, owner) is not None:
                instead = () if family else tuple(fallbacks.get(view.tool_name, ())) or view.fallback
                yield Unavailable(view.tool_name, instead, family)

    def _of_process(
        self,
        circuits: Iterable[LocalCircuit],
        views: Mapping[str, CircuitView],
        fallbacks: Fallbacks,
        owner: Mapping[str, str],
    ) -> Iterator[Unavailable]:
        """Yield the tools whose circuits of the process aren't closed, unless an operator overrules these."""
        tested = self._clock() - UNTESTED_S
        for circuit in circuits:
            breaker = circuit.breaker
            tool = circuit.family or _tool_of(breaker.circuit_id, breaker.policy.scope, owner)
            if tool is None or breaker.state in PASSING or _ended_before(tested, breaker.state, breaker.open_until):
                continue
            view = views.get(breaker.circuit_id) or views.get(tool_circuit(tool))
            if view is None or not view.overrides:
                instead = tuple(fallbacks.get(tool, ())) or (() if view is None else view.fallback)
                yield Unavailable(tool, instead, circuit.family is not None)

    def _make_lock(self) -> None:
        """Make the lock, again in the child of a fork: another thread of the parent may hold it."""
        self._lock = threading.RLock()


def _ended_before(at: float, state: str, open_until: float | None) -> bool:
    """Return whether the wait of an open circuit ended before ``at``."""
    return state == "open" and open_until is not None and open_until < at


def _tool_of(whole_id: str, scope: str, owner: Mapping[str, str]) -> str | None:
    """Return the tool of a circuit that decides for this user and session, None for another one's circuit.

    ``scope`` is that of the policy. The tool's own circuit decides for those without an id.
    """
    name, _, whose = read_circuit_id(whole_id)
    return name if whose == owner.get(scope, "") else None


# -- the list of tools ------------------------------------------------------------------------------------------------


class NamelessToolError(SwitchgearError):
    """An item of a tool list has no name."""


def named(tools: Iterable[T], circuit_of: CircuitOf = None) -> list[tuple[str, T]]:
    """Return the items of a list of tools with the names of their circuits.

    An item may be a name; a dict in the format of OpenAI (chat completions and responses), Anthropic, MCP, Bedrock or Gemini
    (with one declaration); an object with a ``name`` (MCP, LangChain, OpenAI agents), whose function may be guarded; a guarded
    function; any other function, by its ``__name__``; or a ``functools.partial`` of a function.

    Tools that the model's provider runs, and marks that aren't tools, usually have no circuit and stay in every list. A dict or
    object with a ``type`` and no name (``{"type": "web_search"}``) has its type as its name. A dict with one other key
    (``{"google_search": {}}``, ``{"cachePoint": {"type": "default"}}``) has the name in it, or the key.

    Args:
        tools: The agent's tools.
        circuit_of: See :data:`CircuitOf`.

    Raises:
        NamelessToolError: An item has no name. The message has its position and type.
        SwitchgearError: ``tools`` isn't a list, or ``circuit_of`` returns no name for an item.
    """
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        impossible("tools", "a list of tools", tools, "Put a single tool into a list.")
    circuit_name = renamer("circuit_of", circuit_of)
    found = []
    for position, tool in enumerate(tools):
        guarded = (guarded_by(unwrapped(tool)) if callable(tool) else None) or guarded_inside(tool)
        name = listed_name(tool) if guarded is None else guarded.plan.tool
        if name is None:
            raise NamelessToolError(
                f"tools[{position}] is a {type(tool).__name__} without a name.",
                hint="Give a name, a dict with a name or a function in it, or an object with .name. Of Gemini's tools give the declarations.",
            )
        found.append((name if guarded is not None else circuit_name(name), tool))
    return found


def listed_name(tool: object) -> str | None:
    """Return the name of an item of a tool list, or None."""
    if isinstance(tool, str):
        return tool or None
    return next((name for name in _names(tool) if isinstance(name, str) and name), None)


def _names(tool: object) -> Iterator[object]:
    """Yield what may be the name, likeliest first. To look for what an object lacks may cost it tens of microseconds (pydantic)."""
    yield _read(tool, "name")
    inner = [_read(tool, key) for key in _INNER]
    declared = [_read(tool, key) for key in _DECLARATIONS]
    inner += [each[0] for each in declared if isinstance(each, list) and len(each) == 1]
    yield from (_read(each, "name") for each in inner)
    yield _read(tool, "__name__")
    yield _read(unwrapped(tool), "__name__")
    kind = _read(tool, "type")
    yield None if kind in _CALLED_BY_US else kind
    yield from _alone(tool)


def _read(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _alone(tool: object) -> tuple[object, ...]:
    """Return the possible names of a dict with one key that isn't a known place of a name."""
    if not isinstance(tool, Mapping) or len(tool) != 1:
        return ()
    ((key, value),) = tool.items()
    return (value.get("name"), key) if isinstance(value, Mapping) and key not in _PLACES else ()
