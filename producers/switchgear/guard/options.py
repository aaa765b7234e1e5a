"""The options of a guard: what it does besides asking the circuit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from switchgear import arguments
from switchgear.arguments import OptionError
from switchgear.classify import Classification, Classifier
from switchgear.usage import UsageExtractor
from switchgear_schemas.enums import ErrorClass

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
    credential: Callable[..., str | None] | None


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
    """A function that takes the result, or the exception of a failed call, and returns what the call cost: a
    :class:`~switchgear.Usage` or a number of tokens."""
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
    credential: Callable[..., str | None] | None = None
    """A function that takes the arguments and returns what the call signs in with, such as its token. Only a salted hash is kept.
    A credential that the tool rejects again and again is refused. By default the session or the user stands for it."""

    def __post_init__(self) -> None:
        if self.fallback is not None and not callable(self.fallback):
            arguments.tool_names("The option fallback", self.fallback, "Or pass a function.")
        if self.adapt is not None:
            for tool, adapter in self.adapt.items() if isinstance(self.adapt, Mapping) else [("", self.adapt)]:
                arguments.text("A fallback tool's name in the option adapt", tool)
                arguments.function("The option adapt", adapter)
        if self.timeout is not None:
            arguments.number("The option timeout", self.timeout, least=0.001)
        if self.cache is not None and (isinstance(self.cache, type) or not hasattr(self.cache, "ttl_s")):
            arguments.impossible("The option cache", "a CachePolicy", self.cache, "CachePolicy(ttl_s=60)")
        arguments.flag("The option single_flight", self.single_flight)
        arguments.whole("The option duplicate_after", self.duplicate_after, least=2)
        if self.on_duplicate is not None and self.on_duplicate != "refuse":
            arguments.function("The option on_duplicate", self.on_duplicate, 'Or "refuse".')
        for name in ("usage", "classify", "classify_result", "parameters", "credential"):
            if getattr(self, name) is not None:
                arguments.function(f"The option {name}", getattr(self, name))

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
