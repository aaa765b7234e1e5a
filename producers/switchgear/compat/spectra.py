"""Spectra's tool resilience, by its own names: options, fallback map and events, on a local Switchgear.

    gear = from_spectra(configure)              # builder.AddToolResilience(opts => { … })
    tools = wrap_tools(gear, tools)             # "Spectra wraps each registered tool"

Two differences. While a circuit is half-open no more calls go than ``half_open_max_attempts`` at a time, and one that never
returns is given up after ten minutes. And where the circuits of a tool and of its fallback are both open, the tool is called
all the same: everything open at once says more about this process than about the tools.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol, get_args

from switchgear import arguments
from switchgear.client import Switchgear
from switchgear.guard.calls import Calling
from switchgear.guard.rejections import Rejection
from switchgear.numeric import is_number, is_whole, possible_wait
from switchgear.telemetry.dispatch import HookList
from switchgear.telemetry.hooks import CircuitChange, FunctionHooks
from switchgear_schemas.enums import MOST_CALLS, MOST_PROBES, ErrorClass
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.policy import BreakerPolicy

_COUNTED: Final = frozenset(get_args(ErrorClass)) - {"cancelled", "policy"}
"""Spectra counts every failure of a tool, whatever its kind."""
_LONGEST_PROBE_S: Final = 600.0
_OPTION_OF: Final = {"fallbacks": "fallback_tools", "local_policies": "failure_threshold, cooldown_period and so on"}
"""Arguments of a client that the options stand for."""


@dataclass(frozen=True, slots=True)
class FallbackUsed:
    """A call of ``tool`` was routed to ``fallback``, because the circuit of ``tool`` is open."""

    tool: str
    fallback: str


SpectraEvent = CircuitChange | FallbackUsed
"""What an event sink is given: ``CircuitChange`` has ``tool``, ``previous``, ``state`` and ``reason``."""


class EventSink(Protocol):
    """Spectra's ``IEventSink``. A plain function will do as well."""

    def publish(self, event: SpectraEvent, /) -> object:
        """Take one event. Called in the caller's thread: be quick; what it raises is logged and goes no further."""


@dataclass(slots=True)
class SpectraOptions:
    """``ToolResilienceOptions`` with Spectra's defaults; names in Python's case."""

    failure_threshold: int = 5
    """Consecutive failures before opening the circuit."""
    cooldown_period: timedelta | float = timedelta(seconds=60)
    """How long the circuit stays open before probing again; a number is seconds."""
    half_open_max_attempts: int = 1
    """Number of probe calls allowed in half-open state."""
    success_threshold_to_close: int = 1
    """Successful probe calls required to close the circuit."""
    fallback_tools: dict[str, str] = field(default_factory=dict)
    """Tool to the tool to use while its circuit is open, such as ``mcp:server:tool`` names."""

    def policy(self) -> BreakerPolicy:
        """The same as a breaker's policy.

        Raises:
            SettingsError: naming the option that is out of range.
        """
        period = self.cooldown_period
        cooldown_s = period.total_seconds() if isinstance(period, timedelta) else period
        if not is_number(cooldown_s) or not 0 < cooldown_s <= sys.float_info.max:
            raise SettingsError(f"cooldown_period is a timedelta or a number of seconds above 0, not {period!r}.")
        for name in ("failure_threshold", "half_open_max_attempts", "success_threshold_to_close"):
            value = getattr(self, name)
            if not is_whole(value) or value < 1:
                raise SettingsError(f"{name} is a number of calls from 1, not {value!r}.")
        return BreakerPolicy(
            consecutive_failures=min(self.failure_threshold, MOST_CALLS),
            wait_duration_in_open_state_s=possible_wait(cooldown_s),
            permitted_number_of_calls_in_half_open_state=min(self.half_open_max_attempts, MOST_PROBES),
            success_threshold_to_close=min(self.success_threshold_to_close, MOST_CALLS),
            max_wait_duration_in_half_open_state_s=_LONGEST_PROBE_S,
            counted_error_classes=_COUNTED,
            honor_retry_after=False,
        )


def from_spectra(
    configure: Callable[[SpectraOptions], object] | SpectraOptions | None = None,
    *,
    event_sink: EventSink | Callable[[SpectraEvent], object] | None = None,
    **client: Any,
) -> Switchgear:
    """A client whose circuits behave as Spectra's.

    Args:
        configure: Sets options on what it is given, as the function for ``AddToolResilience`` does; or the options themselves.
        event_sink: Told of changes of state and of fallbacks.
        client: Further arguments of :class:`Switchgear`. It is a local one unless ``bootstrap_servers`` is among them.

    Raises:
        SettingsError: naming the option that is out of range, or given twice.
        OptionError: ``configure`` is a coroutine function or a generator.
    """
    for name, option in _OPTION_OF.items():
        if name in client:
            raise SettingsError(f"from_spectra makes {name} from the options.", hint=f"Set {option}.")
    options = _configured(configure)
    if not isinstance(options.fallback_tools, Mapping):
        raise SettingsError(f"fallback_tools names a fallback for each tool, not {options.fallback_tools!r}.")
    hooks = list(HookList(client.pop("hooks", ())).hooks)
    if event_sink is not None:
        hooks.append(_hooks_of(event_sink))
    return Switchgear(
        client.pop("bootstrap_servers", None),
        local_policies=options.policy(),
        fallbacks=dict(options.fallback_tools),
        hooks=hooks,
        **client,
    )


def wrap_tools(gear: Switchgear, tools: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Every registered tool behind its circuit, by name: the agent calls them as before.

    A fallback that is one of ``tools`` is the function given here, not another agent's of the same name.

    Raises:
        OptionError: ``gear`` is no client, ``tools`` are no functions by name, or one of them can't be guarded.
    """
    if not isinstance(gear, Calling):  # gear.with_options(...) is one
        arguments.impossible("gear", "a Switchgear", gear, "wrap_tools(from_spectra(configure), tools)")
    return gear.guard_all(tools)


def _configured(configure: Callable[[SpectraOptions], object] | SpectraOptions | None) -> SpectraOptions:
    """The options that are meant. Whatever would leave the defaults in force without a word is refused."""
    if isinstance(configure, SpectraOptions):
        return configure
    options = SpectraOptions()
    if configure is None:
        return options
    if not callable(configure):
        raise SettingsError(f"configure is SpectraOptions, or a function that sets them, not {configure!r}.")
    if SpectraOptions in getattr(configure, "__mro__", ()):
        raise SettingsError(
            "configure is SpectraOptions, or a function that sets them, not the class itself.",
            hint="SpectraOptions(failure_threshold=3)",
        )
    arguments.function("configure", configure)
    returned = configure(options)
    if isinstance(returned, SpectraOptions) and returned is not options:
        raise SettingsError(
            "configure returned other options than it was given, and only those are read.",
            hint="Set them on what it is given, or give the options in its place.",
        )
    if inspect.isawaitable(returned):
        if inspect.iscoroutine(returned):
            returned.close()  # else Python warns that it was never awaited
        raise SettingsError("configure returned something to await.", hint="It is called and not awaited.")
    return options


def _hooks_of(sink: EventSink | Callable[[SpectraEvent], object]) -> FunctionHooks:
    publish: Callable[[SpectraEvent], object] | None = getattr(sink, "publish", None)
    if publish is None:
        if not callable(sink):
            raise SettingsError(f"event_sink is a function, or an object with publish(event), not {sink!r}.")
        publish = sink
    tell = publish

    def on_fallback(rejection: Rejection, tool: str) -> object:
        return tell(FallbackUsed(rejection.tool, tool))

    return FunctionHooks(on_transition=tell, on_fallback=on_fallback)
