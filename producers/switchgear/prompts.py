"""What the model gets to see: the list of usable tools, and one sentence for the system prompt about the others.

Model providers cache prompts by their beginning, so a sentence with a countdown would invalidate the cache in every turn. The
notice has points in time instead. It stays the same to the byte until a circuit opens or closes, or its wait ends. It names
only tools and times: the text of an error comes from a third party and must not get into a system prompt.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from switchgear.arguments import impossible, renamer
from switchgear.breaker.states import PASSING
from switchgear.guard.tool_function import guarded_by, guarded_inside, unwrapped
from switchgear.model_text import name_for_model
from switchgear.sessions import session_of
from switchgear_schemas.circuit_ids import read_circuit_id, tool_circuit
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.follower.view import CircuitView
    from switchgear.guard.families import FamilyOf
    from switchgear.guard.fleet_state import GuardMode
    from switchgear.guard.local_circuits import LocalCircuit
    from switchgear.guard.runtime import Runtime


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

MOST_DRIFT_S: Final = 1.0
"""How far the wall clock may drift from the monotonic clock before the times in the notice follow it."""

NOTHING_CALLABLE: Final = "No tool can be called now: their state is unknown. Go on without tools."
"""The notice of a client with ``on_state_unavailable="deny"`` while the fleet is out of reach."""
SESSION_OVER: Final = "No tool can be called any more in this session. Finish with what you have."
"""The notice after a limit of the session is reached. It has no numbers, because they may change."""

NameOf = Mapping[str, str] | Callable[[str], str] | None
"""Returns the name that the model knows for a circuit's name. A mapping leaves the names that it lacks unchanged."""
Fallbacks = Mapping[str, Sequence[str]]
"""The tools to use instead of a tool, best first."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A tool, or all tools of a family, that must not be called now."""

    tool: str
    """Name of the tool, or of the family."""
    until: float | None = None
    """When it may be tried, in seconds since 1970. None if that isn't known."""
    instead: tuple[str, ...] = ()
    """Tools to use instead, best first."""
    family: bool = False


def notice(tools: Iterable[Unavailable], *, name_of: NameOf = None) -> str:
    """Return the sentence for ``tools``, or an empty string without tools. Families come first, and each group is sorted by name.

    The names of families stay as they are. If several tools have the same name, the latest time counts. A substitute that is unavailable isn't recommended.

    Raises:
        SwitchgearError: ``name_of`` returns no name for a tool.
    """
    new_name = renamer("name_of", name_of)

    def shown(tool: str) -> str:
        return name_for_model(new_name(tool))  # some names come from other processes

    found: dict[str, list[Unavailable]] = {}
    for tool in sorted(tools, key=lambda each: (not each.family, each.tool)):
        name = f"all tools of {name_for_model(tool.tool)}" if tool.family else shown(tool.tool)
        found.setdefault(name, []).append(tool)
    if not found:
        return ""
    names = sorted(found, key=lambda name: (not found[name][0].family, name))
    named = [_phrase(name, found, shown) for name in names[:MAX_TOOLS]]
    if len(found) > MAX_TOOLS:
        named.append(f"and {len(found) - MAX_TOOLS} more")
    return f"These tools are unavailable, do not call them: {', '.join(named)}."


def _phrase(name: str, out: Mapping[str, Sequence[Unavailable]], shown: Callable[[str], str]) -> str:
    tools = sorted(out[name], key=lambda tool: math.inf if tool.until is None else tool.until, reverse=True)
    latest = tools[0]
    when = "until further notice" if latest.until is None else f"not before {_instant(latest.until)}"
    substitutes = (shown(each) for tool in tools for each in tool.instead)
    substitute = next((each for each in substitutes if each not in out), None)
    use = "" if substitute is None else f"; use {substitute} instead"
    return f"{name} ({when}{use})"


def _instant(until: float) -> str:
    return (
        f"{datetime.fromtimestamp(math.ceil(until), UTC):%H:%M:%S} UTC"  # rounded up: the model must not try too early
    )


class NoticeBoard:
    """Write the notice of one client from its circuits. Thread-safe.

    A family that refuses calls is named once, in place of its tools. While it only waits for a probe, any tool of it may be called.

    Local circuits have monotonic times. The offset to the wall clock is kept, because a new one in every notice would now and
    then round to another second and change the sentence.
    """

    def __init__(self, clock: Callable[[], float], wall: Callable[[], float], family_of: FamilyOf) -> None:
        self._clock = clock
        self._wall = wall
        self._family_of = family_of
        self._offset_s = wall() - clock()

    def notice(
        self,
        local: Iterable[LocalCircuit],
        views: Mapping[str, CircuitView],
        fallbacks: Fallbacks,
        *,
        user_id: str = "",
        session_id: str = "",
        name_of: NameOf = None,
        only: Collection[str] | None = None,
    ) -> str:
        """Return the notice for a user and a session. Without an entry in ``fallbacks`` the fleet's policy names them."""
        owner = {"user": user_id, "session": session_id}
        local = list(local)
        tools = [*self._of_fleet(views, fallbacks, owner), *self._of_process(local, views, fallbacks, owner)]
        if only is not None:
            families = {self._family(tool) for tool in only}
            tools = [
                dataclasses.replace(each, instead=tuple(tool for tool in each.instead if tool in only))
                for each in tools
                if each.tool in (families if each.family else only)
            ]
        out = {view.tool_name for view in list(views.values()) if view.scope == "family" and not view.passes}
        out |= {one.family for one in local if one.family is not None and one.breaker.state not in PASSING}
        return notice(self._without(out, tools) if out else tools, name_of=name_of)

    def _without(self, out: Collection[str | None], tools: Iterable[Unavailable]) -> Iterator[Unavailable]:
        """Leave out the tools of families that are ``out``, except those that an operator has forced open."""
        for each in tools:
            if each.family or each.until is None or self._family(each.tool) not in out:
                instead = tuple(tool for tool in each.instead if self._family(tool) not in out)
                yield dataclasses.replace(each, instead=instead)

    def _family(self, tool: str) -> str | None:
        found = self._family_of(tool)
        return None if found is None else found.name

    def _of_fleet(
        self, views: Mapping[str, CircuitView], fallbacks: Fallbacks, owner: Mapping[str, str]
    ) -> Iterator[Unavailable]:
        """Yield the tools that the fleet's circuits refuse. After a circuit's wait the next call may probe."""
        now = self._wall()
        for view in list(views.values()):
            family = view.scope == "family"
            own = family or _tool_of(view.circuit_id, view.scope, owner) is not None
            if own and _refused(view, now):
                instead = () if family else tuple(fallbacks.get(view.tool_name, ())) or view.fallback
                yield Unavailable(view.tool_name, None if view.forced else view.open_until, instead, family)

    def _of_process(
        self,
        circuits: Iterable[LocalCircuit],
        views: Mapping[str, CircuitView],
        fallbacks: Fallbacks,
        owner: Mapping[str, str],
    ) -> Iterator[Unavailable]:
        """Yield the tools that the process's own circuits refuse, unless an operator overrules these."""
        now = self._clock()
        offset_s = self._wall() - now
        if abs(offset_s - self._offset_s) > MOST_DRIFT_S:
            self._offset_s = offset_s
        for circuit in circuits:
            breaker = circuit.breaker
            tool = circuit.family or _tool_of(breaker.circuit_id, breaker.policy.scope, owner)
            if tool is None or breaker.state in PASSING:
                continue
            with circuit.lock:
                wait = breaker.open_at(now)
            view = views.get(breaker.circuit_id) or views.get(tool_circuit(tool))
            if wait is None or (view is not None and view.overrides):
                continue
            instead = tuple(fallbacks.get(tool, ())) or (() if view is None else view.fallback)
            _, until = wait
            yield Unavailable(tool, until + self._offset_s, instead, circuit.family is not None)


def _refused(view: CircuitView, now: float) -> bool:
    if view.passes:
        return False
    return view.forced or (view.state == "open" and view.open_until is not None and now < view.open_until)


def _tool_of(circuit_id: str, scope: str, owner: Mapping[str, str]) -> str | None:
    """Return the tool of a circuit that decides for this user and session, None for another one's circuit.

    ``scope`` is that of the policy. The tool's own circuit decides for those without an id.
    """
    name, _, whose = read_circuit_id(circuit_id)
    return name if whose == owner.get(scope, "") else None


def notice_now(
    runtime: Runtime,
    board: NoticeBoard,
    mode: GuardMode,
    circuits: Mapping[str, CircuitView],
    name_of: NameOf,
    only: Collection[str] | None = None,
) -> str:
    """Return the notice of a client, for the running session if there is one."""
    renamer("name_of", name_of)  # checks it, even if the notice has no names
    mine = session_of(runtime)
    if mine is not None and mine.exhausted is not None:
        return SESSION_OVER
    if mode == "deny":
        return NOTHING_CALLABLE
    decision = runtime.decision
    circuits_here = (decision.local if mine is None else mine.decision.local).all_now()
    if mine is None and decision.families is not None:
        circuits_here += decision.families.all_now()
    unavailable = board.notice(
        circuits_here,
        circuits,
        runtime.fallbacks.chains(),
        user_id="" if mine is None else mine.user_id,
        session_id="" if mine is None else mine.session_id,
        name_of=name_of,
        only=only,
    )
    rejected = [tool for tool in runtime.rejected_tools() if only is None or tool in only]
    return f"{unavailable} {_rejections(rejected, name_of)}".strip()


def _rejections(tools: Iterable[str], name_of: NameOf) -> str:
    """Return the sentence for tools that rejected the model's last calls. It has no numbers, as :data:`SESSION_OVER`."""
    new_name = renamer("name_of", name_of)
    names = sorted({name_for_model(new_name(tool)) for tool in tools})
    if not names:
        return ""
    if len(names) > MAX_TOOLS:
        names[MAX_TOOLS:] = [f"and {len(names) - MAX_TOOLS} more"]
    return (
        f"Your last calls of these tools were rejected, change the arguments or use another tool: {', '.join(names)}."
    )


# -- the list of tools ------------------------------------------------------------------------------------------------


class NamelessToolError(SwitchgearError):
    """An item of a tool list has no name."""


def available(tools: Iterable[T], refuses: Callable[[str], bool], *, circuit_of: CircuitOf = None) -> list[T]:
    """Return the items of ``tools`` whose circuit doesn't refuse calls, unchanged and in order.

    An item may be a name; a dict in the format of OpenAI (chat completions and responses), Anthropic, MCP, Bedrock or Gemini
    (with one declaration); an object with a ``name`` (MCP, LangChain, OpenAI agents), whose function may be guarded; a guarded
    function; any other function, by its ``__name__``; or a ``functools.partial`` of a function.

    Tools that the model's provider runs, and marks that aren't tools, usually have no circuit and stay in the list. A dict or
    object with a ``type`` and no name (``{"type": "web_search"}``) has its type as its name. A dict with one other key
    (``{"google_search": {}}``, ``{"cachePoint": {"type": "default"}}``) has the name in it, or the key.

    If all circuits refuse, the list is empty: a model that is offered a refused tool wastes a turn on it. Leave the parameter
    out of the request then, because OpenAI's API rejects an empty list.

    Args:
        tools: The agent's tools.
        refuses: Returns whether the circuit with a name would refuse a call.
        circuit_of: See :data:`CircuitOf`.

    Raises:
        NamelessToolError: An item has no name. The message has its position and type.
        SwitchgearError: ``tools`` isn't a list, or ``circuit_of`` returns no name for an item.
    """
    if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
        impossible("tools", "a list of tools", tools, "Put a single tool into a list.")
    circuit_name = renamer("circuit_of", circuit_of)
    kept = []
    for position, tool in enumerate(tools):
        guarded = guarded_by(unwrapped(tool)) or guarded_inside(tool)
        name = listed_name(tool) if guarded is None else guarded.plan.tool
        if name is None:
            raise NamelessToolError(
                f"tools[{position}] is a {type(tool).__name__} without a name.",
                hint="Give a name, a dict with a name or a function in it, or an object with .name. Of Gemini's tools give the declarations.",
            )
        if not refuses(name if guarded is not None else circuit_name(name)):
            kept.append(tool)
    return kept


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
