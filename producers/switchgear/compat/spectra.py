"""Use the names of Spectra's tool resilience: options, fallback map and events, on a local client.

    gear = from_spectra(configure)              # builder.AddToolResilience(opts => { … })
    tools = wrap_tools(gear, tools)             # "Spectra wraps each registered tool"

There are two differences. While a circuit is half-open, at most ``half_open_max_attempts`` probes run at a time, and a probe
that doesn't return within ten minutes counts as lost. If the circuits of a tool and its fallback are both open, the tool is
called anyway: if everything is open, the problem is probably in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol, get_args

from switchgear import arguments
from switchgear.client import Switchgear
from switchgear.guard.calls import Calling
from switchgear.numeric import possible_wait
from switchgear.telemetry.hooks import CircuitChange, FunctionHooks, Hooks
from switchgear.transport import Servers
from switchgear_schemas.enums import MOST_CALLS, MOST_PROBES, SHORTEST_WAIT_S, ErrorClass
from switchgear_schemas.policy import BreakerPolicy

_COUNTED: Final = frozenset(get_args(ErrorClass)) - {"cancelled", "policy"}
"""Spectra counts every failure of a tool."""
_LONGEST_PROBE_S: Final = 600.0
_LONGEST_COOLDOWN_S: Final = timedelta.max.total_seconds()


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
    bootstrap_servers: Servers = None,
    hooks: Iterable[Hooks] = (),
    **client: Any,
) -> Switchgear:
    """Return a client whose circuits behave as Spectra's.

    Args:
        configure: A function that sets options, as the one for ``AddToolResilience``; or the options themselves.
        event_sink: Receives changes of state and fallbacks.
        bootstrap_servers: The brokers. Without them, the client is a local one.
        hooks: Other hooks.
        client: Other arguments of :class:`Switchgear`, but for the policies and fallbacks that the options set.

    Raises:
        OptionError: An option is out of range, or ``configure`` isn't a plain function. The message names it.
    """
    options = configure if isinstance(configure, SpectraOptions) else SpectraOptions()
    if configure is not None and not isinstance(configure, SpectraOptions):
        arguments.function("configure", configure)
        configure(options)
    return Switchgear(
        bootstrap_servers,
        local_policies=options.policy(),
        fallbacks=options.fallback_tools,
        hooks=hooks if event_sink is None else [*hooks, _hooks_of(event_sink)],
        **client,
    )


def wrap_tools(gear: Calling, tools: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Return every tool behind its circuit, by name. The agent calls them as before.

    A fallback among ``tools`` is the function given here, not another agent's function with the same name.

    Raises:
        OptionError: ``tools`` isn't a dict of functions, or one of them can't be guarded.
    """
    return gear.guard_all(tools)


def _hooks_of(sink: EventSink | Callable[[SpectraEvent], object]) -> FunctionHooks:
    publish: Any = getattr(sink, "publish", None) or sink
    arguments.function("event_sink", publish)
    return FunctionHooks(
        on_transition=publish, on_fallback=lambda rejection, tool: publish(FallbackUsed(rejection.tool, tool))
    )
