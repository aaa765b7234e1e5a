"""The options of a guard: what it does besides asking the circuit."""

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
"""A tool to use instead, several in order, or a function, guarded or not."""
Adapter = Callable[..., tuple[Sequence[Any], Mapping[str, Any]]]
"""Takes the arguments of the call and returns those for the fallback: ``(args, kwargs)``."""
OnDuplicate = Literal["refuse"] | Callable[["Duplicate"], object]
"""What to do about a repeated call: refuse it, or call a function."""

ResultClassifier = Callable[[Any], "Classification | ErrorClass | None"]
"""Takes a result and returns the class of its failure, None for a success, or ``IGNORE`` if it says nothing about the tool."""


class OptionError(SwitchgearError, ValueError):
    """An option is unknown, out of range, or impossible for its function."""


class Overrides(TypedDict, total=False):
    """The keywords of ``gear.guard`` and ``gear.with_options``. The client's defaults hold for those that you leave out."""

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
    """The options of one guard, or of a client as its defaults.

    Raises:
        OptionError: A value is of the wrong type or out of range. The message names the option.
    """

    fallback: Fallback = None
    """What to call if the circuit refuses: a tool guarded by the same client, several in order, or a function."""
    adapt: Adapter | Mapping[str, Adapter] | None = None
    """A function that makes the arguments for the fallback from those of the call, or one for each fallback tool by name."""
    timeout: float | None = None
    """The longest duration in seconds. Then the call raises a TimeoutError and counts as ``timeout``. An async generator has
    this time for each item."""
    cache: CachePolicy | None = None
    """Keep results. Fresh ones are served without a call, stale ones while the circuit refuses."""
    single_flight: bool = False
    """Make identical calls that are under way at the same time once. All callers get the result."""
    usage: UsageExtractor | None = None
    """A function that takes the result and returns what it cost: a :class:`~switchgear.Usage` or a number of tokens."""
    on_duplicate: OnDuplicate | None = None
    """What to do about the ``duplicate_after``-th identical call of a session and each one after it: ``"refuse"``, or a
    function to call."""
    duplicate_after: int = 3
    """How many calls with the same tool, parameters and session make a repeated call."""
    classify: Classifier | None = None
    """A rule for this tool's exceptions. If it returns None, the client's rule decides; ``IGNORE`` leaves the call uncounted."""
    classify_result: ResultClassifier | None = None
    """A rule for results that are failures. The default is :func:`~switchgear.classify_result`, which reads MCP's. The caller
    gets the result all the same. It counts as a failure, or with ``IGNORE`` as neither, and isn't cached."""
    parameters: Callable[..., Any] | None = None
    """A function that takes the arguments and returns what identifies the call, for the hash, the cache, single flight and
    repeated calls. By default it is all arguments and the function itself."""

    def __post_init__(self) -> None:
        _check_fallback(self.fallback)
        _check_adapt(self.adapt)
        if self.timeout is not None and not (is_number(self.timeout) and 0 < self.timeout <= threading.TIMEOUT_MAX):
            raise OptionError(
                f"The option timeout must be a number of seconds above 0, not {self.timeout!r:.100}.",
                hint=f"The longest is {threading.TIMEOUT_MAX:.0f}. Leave it out for no limit.",
            )
        if self.cache is not None and (isinstance(self.cache, type) or not hasattr(self.cache, "ttl_s")):
            raise OptionError(
                f"The option cache must be a CachePolicy, not {self.cache!r}.", hint="CachePolicy(ttl_s=60)"
            )
        if not isinstance(self.single_flight, bool):
            raise OptionError(f"The option single_flight must be True or False, not {self.single_flight!r:.100}.")
        if not is_whole(self.duplicate_after) or self.duplicate_after < 2:
            raise OptionError(
                f"The option duplicate_after must be a whole number from 2, not {self.duplicate_after!r}."
            )
        if self.on_duplicate is not None and self.on_duplicate != "refuse" and not callable(self.on_duplicate):
            raise OptionError(f'The option on_duplicate must be "refuse" or a function, not {self.on_duplicate!r}.')
        for name in ("usage", "classify", "classify_result", "parameters"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise OptionError(f"The option {name} must be a function, not {value!r}.")
        for name in ("usage", "classify", "classify_result", "parameters", "on_duplicate"):
            _check_plain(name, getattr(self, name))

    @property
    def chain(self) -> tuple[str, ...]:
        """The fallback tools in order; empty if the fallback is a function."""
        if self.fallback is None or callable(self.fallback):
            return ()
        return (self.fallback,) if isinstance(self.fallback, str) else tuple(self.fallback)

    def override(self, overrides: Overrides) -> GuardOptions:
        """Return these options with some of them replaced.

        Raises:
            OptionError: One of them is unknown or impossible. The message names the nearest known option.
        """
        if not overrides:
            return self
        for name in overrides:
            if name not in NAMES:
                import difflib  # noqa: PLC0415 - only for the wording

                near = difflib.get_close_matches(name, NAMES, n=1)
                hint = f"Did you mean {near[0]}?" if near else f"The options are {', '.join(NAMES)}."
                raise OptionError(f"A guard has no option {name}.", hint=hint)
        return dataclasses.replace(self, **overrides)


NAMES = tuple(field.name for field in dataclasses.fields(GuardOptions))


def _check_fallback(fallback: object) -> None:
    if fallback is None or callable(fallback):
        return
    chain = (fallback,) if isinstance(fallback, str) else fallback
    if not isinstance(chain, Sequence) or not all(isinstance(tool, str) and tool for tool in chain):
        raise OptionError(
            f"The option fallback must be a tool's name, a list of names, or a function, not {fallback!r}."
        )


def _check_adapt(adapt: object) -> None:
    if adapt is None or callable(adapt):
        _check_plain("adapt", adapt)
        return
    if not isinstance(adapt, Mapping) or not all(callable(one) for one in adapt.values()):
        raise OptionError(
            f"The option adapt must be a function, or a dict of functions by fallback tool, not {adapt!r}."
        )
    for tool, one in adapt.items():
        if not isinstance(tool, str) or not tool:
            raise OptionError(f"The option adapt must have the names of fallback tools, not {tool!r:.100}.")
        _check_plain("adapt", one)


def _check_plain(name: str, value: object) -> None:
    """Check that what a function returns can be used at once: it is neither awaited nor iterated."""
    if callable(value) and examine(value).kind != "function":
        raise OptionError(
            f"The option {name} must be a plain function, not {name_of(value)}, whose result is awaited or iterated."
        )
