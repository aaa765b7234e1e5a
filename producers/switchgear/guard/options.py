"""GuardOptions: what a guard does besides asking the circuit. Given to one guard, or to the client as its defaults."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from switchgear.classify import Classification, Classifier
from switchgear.guard.tool_function import examine, name_of
from switchgear.numeric import is_number, is_whole
from switchgear.sessions.usage import UsageExtractor
from switchgear_schemas.enums import ErrorClass
from switchgear_schemas.errors import SwitchgearError

if TYPE_CHECKING:
    from switchgear.caching.cache import CachePolicy
    from switchgear.caching.repeated_calls import Duplicate

Fallback = str | Sequence[str] | Callable[..., Any] | None
"""The tool to use instead, a chain of them in order, or a function: a guarded one, which is asked for like its tool, or any."""
Adapter = Callable[..., tuple[Sequence[Any], Mapping[str, Any]]]
"""Takes the arguments of the call, returns those for the fallback tool: ``(args, kwargs)``."""
OnDuplicate = Literal["refuse"] | Callable[["Duplicate"], object]
"""What happens at a call that was made before, again and again: it is refused, or a function is told."""


ResultClassifier = Callable[[Any], "Classification | ErrorClass | None"]
"""From a result to what kind of failure it is; None for one that is none, ``IGNORE`` for one that says nothing of the tool."""


class OptionError(SwitchgearError, ValueError):
    """An option that is unknown, out of range, or impossible for the function it is given for."""


class Overrides(TypedDict, total=False):
    """The keywords of ``gear.guard`` and ``gear.with_options``: those left out have the client's defaults."""

    fallback: Fallback
    adapt: Adapter | Mapping[str, Adapter] | None
    timeout: float | None
    cache: CachePolicy | None
    single_flight: bool
    usage: UsageExtractor | None
    on_duplicate: OnDuplicate | None
    duplicate_after: int
    classify: Classifier | None
    classify_result: ResultClassifier | None
    parameters: Callable[..., Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardOptions:
    """Checked when made.

    Raises:
        OptionError: naming the option, for a value out of its type or range.
    """

    fallback: Fallback = None
    """On a refusal: a tool guarded by the same client, a chain of them in order, or a function, which may be guarded itself."""
    adapt: Adapter | Mapping[str, Adapter] | None = None
    """Arguments for the fallback: a function from this call's, or one for each tool by name."""
    timeout: float | None = None
    """Longest duration in seconds; then the call ends in a TimeoutError and counts as ``timeout``. Of an async generator: until each item."""
    cache: CachePolicy | None = None
    """Results kept by what was called with which parameters: fresh ones are served without a call, fresh and stale ones while the circuit refuses."""
    single_flight: bool = False
    """Identical calls at the same time are made once; all get its result."""
    usage: UsageExtractor | None = None
    """From the result to what it cost: a :class:`~switchgear.Usage` or a number of tokens."""
    on_duplicate: OnDuplicate | None = None
    """At the ``duplicate_after``-th identical call of a session and each one after it: ``"refuse"``, or a function to tell."""
    duplicate_after: int = 3
    """Calls with the same tool, parameters and session from which on they are duplicates."""
    classify: Classifier | None = None
    """A rule of this tool for its exceptions; None from it leaves them to the client's, ``IGNORE`` takes the call out of
    every count."""
    classify_result: ResultClassifier | None = None
    """A rule of this tool for results that are failures, with :func:`~switchgear.classify_result` (MCP's) as the default. The
    caller gets the result all the same. It is reported as a failure, or with ``IGNORE`` as neither, and not kept in the cache."""
    parameters: Callable[..., Any] | None = None
    """What identifies a call, from its arguments: for the hash, the cache, single flight and duplicates. Default: all of
    them, and the function itself."""

    def __post_init__(self) -> None:
        _check_fallback(self.fallback)
        _check_adapt(self.adapt)
        if self.timeout is not None and not (is_number(self.timeout) and 0 < self.timeout <= threading.TIMEOUT_MAX):
            raise OptionError(
                f"The option timeout is a positive number of seconds, not {self.timeout!r:.100}.",
                hint=f"The longest is {threading.TIMEOUT_MAX:.0f}; leave it out for none.",
            )
        if self.cache is not None and (isinstance(self.cache, type) or not hasattr(self.cache, "ttl_s")):
            raise OptionError(f"The option cache is a CachePolicy, not {self.cache!r}.", hint="CachePolicy(ttl_s=60)")
        if not isinstance(self.single_flight, bool):
            raise OptionError(f"The option single_flight is True or False, not {self.single_flight!r:.100}.")
        if not is_whole(self.duplicate_after) or self.duplicate_after < 2:
            raise OptionError(
                f"The option duplicate_after is a number of calls from 2 on, not {self.duplicate_after!r}."
            )
        if self.on_duplicate is not None and self.on_duplicate != "refuse" and not callable(self.on_duplicate):
            raise OptionError(f'The option on_duplicate is "refuse" or a function, not {self.on_duplicate!r}.')
        for name in ("usage", "classify", "classify_result", "parameters"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise OptionError(f"The option {name} is a function, not {value!r}.")
        for name in ("usage", "classify", "classify_result", "parameters", "on_duplicate"):
            _check_plain(name, getattr(self, name))

    @property
    def chain(self) -> tuple[str, ...]:
        """The fallback tools in order; none where the fallback is a function."""
        if self.fallback is None or callable(self.fallback):
            return ()
        return (self.fallback,) if isinstance(self.fallback, str) else tuple(self.fallback)

    def override(self, overrides: Overrides) -> GuardOptions:
        """These, with some replaced.

        Raises:
            OptionError: one of them is unknown (the nearest known one is named) or impossible.
        """
        if not overrides:
            return self
        for name in overrides:
            if name not in NAMES:
                import difflib  # noqa: PLC0415 - only for the wording

                near = difflib.get_close_matches(name, NAMES, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(NAMES)}."
                raise OptionError(f"A guard has no option {name}.", hint=hint)
        return dataclasses.replace(self, **overrides)


NAMES = tuple(field.name for field in dataclasses.fields(GuardOptions))


def _check_fallback(fallback: object) -> None:
    if fallback is None or callable(fallback):
        return
    chain = (fallback,) if isinstance(fallback, str) else fallback
    if not isinstance(chain, Sequence) or not all(isinstance(tool, str) and tool for tool in chain):
        raise OptionError(f"The option fallback is a tool's name, a list of them, or a function, not {fallback!r}.")


def _check_adapt(adapt: object) -> None:
    if adapt is None or callable(adapt):
        _check_plain("adapt", adapt)
        return
    if not isinstance(adapt, Mapping) or not all(callable(one) for one in adapt.values()):
        raise OptionError(f"The option adapt is a function, or functions by the fallback tool's name, not {adapt!r}.")
    for tool, one in adapt.items():
        if not isinstance(tool, str) or not tool:
            raise OptionError(f"The option adapt has functions by the fallback tool's name, not by {tool!r:.100}.")
        _check_plain("adapt", one)


def _check_plain(name: str, value: object) -> None:
    """What it returns is used at once: nobody awaits or iterates it."""
    if callable(value) and examine(value).kind != "function":
        raise OptionError(
            f"The option {name} is a plain function, not {name_of(value)}, whose result is to be awaited or iterated."
        )
