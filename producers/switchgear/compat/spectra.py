"""Use the names of Spectra's tool resilience: options, fallback map and events, on a local client.

    gear = from_spectra(configure)              # builder.AddToolResilience(opts => { … })
    tools = wrap_tools(gear, tools)             # "Spectra wraps each registered tool"

There are two differences. While a circuit is half-open, at most ``half_open_max_attempts`` probes run at a time, and a probe
that doesn't return within ten minutes counts as lost. If the circuits of a tool and its fallback are both open, the tool is
called anyway: if everything is open, the problem is probably in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol, get_args

from switchgear import arguments
from switchgear.client import Switchgear
from switchgear.guard.calls import Calling
from switchgear.guard.rejections import Rejection
from switchgear.numeric import possible_wait
from switchgear.telemetry.dispatch import HookList
from switchgear.telemetry.hooks import CircuitChange, FunctionHooks
from switchgear_schemas.enums import MOST_CALLS, MOST_PROBES, SHORTEST_WAIT_S, ErrorClass
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.policy import BreakerPolicy

_COUNTED: Final = frozenset(get_args(ErrorClass)) - {"cancelled", "policy"}
"""Spectra counts every failure of a tool."""
_LONGEST_PROBE_S: Final = 600.0
_LONGEST_COOLDOWN_S: Final = timedelta.max.total_seconds()
_OPTION_OF: Final = {"fallbacks": "fallback_tools", "local_policies": "failure_threshold, cooldown_period and so on"}
"""Arguments of a client that the options replace."""


@dataclass(frozen=True, slots=True)
class FallbackUsed:
    """A call of ``tool`` went to ``fallback``, because the circuit of ``tool`` is open."""

    tool: str
    fallback: str


SpectraEvent = CircuitChange | FallbackUsed
"""What an event sink receives. ``CircuitChange`` has ``tool``, ``previous``, ``state`` and ``reason``."""


class EventSink(Protocol):
    """Spectra's ``IEventSink``. A plain function works too."""

    def publish(self, event: SpectraEvent, /) -> object:
        """Handle one event, in the caller's thread. Keep it short. Exceptions are logged and don't affect the call."""


@dataclass(slots=True)
class SpectraOptions:
    """``ToolResilienceOptions`` with Spectra's defaults, and names in Python's style."""

    failure_threshold: int = 5
    """Consecutive failures that open the circuit."""
    cooldown_period: timedelta | float = timedelta(seconds=60)
    """How long the circuit stays open before a probe. A number is seconds."""
    half_open_max_attempts: int = 1
    """The most probes at a time in state half-open."""
    success_threshold_to_close: int = 1
    """Successful probes that close the circuit."""
    fallback_tools: dict[str, str] = field(default_factory=dict)
    """The tool to use while the circuit of another tool is open, by names such as ``mcp:server:tool``."""

    def policy(self) -> BreakerPolicy:
        """Return the options as the policy of a breaker.

        Raises:
            OptionError: An option is out of range. The message names it.
        """
        period = self.cooldown_period
        cooldown_s = period.total_seconds() if isinstance(period, timedelta) else period
        arguments.number("cooldown_period", cooldown_s, least=SHORTEST_WAIT_S, most=_LONGEST_COOLDOWN_S)
        for name in ("failure_threshold", "half_open_max_attempts", "success_threshold_to_close"):
            arguments.whole(name, getattr(self, name))
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
    """Return a client whose circuits behave as Spectra's.

    Args:
        configure: A function that sets options, as the one for ``AddToolResilience``; or the options themselves.
        event_sink: Receives changes of state and fallbacks.
        client: Other arguments of :class:`Switchgear`. The client is a local one without ``bootstrap_servers``.

    Raises:
        OptionError: An option is out of range, or ``configure`` isn't a plain function. The message names it.
        SettingsError: An option is given twice, or ``configure`` returned other options than it received.
    """
    for name, option in _OPTION_OF.items():
        if name in client:
            raise SettingsError(f"from_spectra sets {name} from the options.", hint=f"Set {option} instead.")
    options = _configured(configure)
    if not isinstance(options.fallback_tools, Mapping):
        arguments.impossible("fallback_tools", "a dict from a tool to its fallback", options.fallback_tools)
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
    """Return every tool behind its circuit, by name. The agent calls them as before.

    A fallback among ``tools`` is the function given here, not another agent's function with the same name.

    Raises:
        OptionError: ``gear`` isn't a client, ``tools`` isn't a dict of functions, or one of them can't be guarded.
    """
    if not isinstance(gear, Calling):  # gear.with_options(...) is one
        arguments.impossible("gear", "a Switchgear", gear, "wrap_tools(from_spectra(configure), tools)")
    return gear.guard_all(tools)


def _configured(configure: Callable[[SpectraOptions], object] | SpectraOptions | None) -> SpectraOptions:
    """Return the options. A function that returns other options is rejected, because those would have no effect."""
    if isinstance(configure, SpectraOptions):
        return configure
    options = SpectraOptions()
    if configure is None:
        return options
    if not callable(configure):
        arguments.impossible("configure", "SpectraOptions, or a function that sets them", configure)
    arguments.function("configure", configure)
    returned = configure(options)
    if isinstance(returned, SpectraOptions) and returned is not options:
        raise SettingsError(
            "configure returned other options than it received.",
            hint="Set them on the options that it receives, or give SpectraOptions(...) instead of the function.",
        )
    return options


def _hooks_of(sink: EventSink | Callable[[SpectraEvent], object]) -> FunctionHooks:
    publish: Callable[[SpectraEvent], object] | None = getattr(sink, "publish", None)
    if publish is None:
        if not callable(sink):
            arguments.impossible("event_sink", "a function, or an object with publish(event)", sink)
        publish = sink
    send = publish  # for mypy: not None

    def on_fallback(rejection: Rejection, tool: str) -> object:
        return send(FallbackUsed(rejection.tool, tool))

    return FunctionHooks(on_transition=send, on_fallback=on_fallback)
