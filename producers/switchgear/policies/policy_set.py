"""A set of policies: tables of values by glob, over a default.

    [default]
    wait_duration_in_open_state_s = 30

    [tools."mcp:*"]
    minimum_reporters = 3

    [tools."mcp:weather:*"]
    cusum = "off"

    [family."mcp:*"]
    minimum_tools = 3

Every table whose glob covers the tool takes part. Each value comes from the most specific table that names it: a plain name wins
over a glob, then the longer literal prefix, then more literal characters, then the table earlier in the file. ``"off"`` (or false)
turns a rule off. Values that no table names come from the default, and then from the built-in default.

Tables of ``family`` are for the circuits of families. They lie over the families' built-in default, and ``[default]`` doesn't.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, Self, get_args

import pydantic

from switchgear.policies.errors import PolicyError, impossible, unknown_key
from switchgear.policies.glob import TooManyOverlapsError, coverings, is_glob, matches, specificity
from switchgear.policies.load import read_file
from switchgear_schemas.enums import MAX_NAME_LENGTH
from switchgear_schemas.policy import FAMILY_DEFAULT, FLEET_DEFAULT, OWN_FALLBACK, BreakerPolicy, Cusum

BUILT_IN: Final = "built-in default"
DEFAULT: Final = "[default]"
REMEMBERED_TOOLS: Final = 4096
"""Tools whose policy stays in memory. A caller that invents names makes look-ups slower, not the memory larger."""
MAX_TABLES: Final = 1000
_TOP_LEVEL: Final = ("default", "tools", "family")
NOT_FOR_FAMILIES: Final = {
    "fallback": "a family has no fallback",
    "scope": "a family has one circuit for all its users",
    "target": "a family has one circuit for all its targets",
}
"""Why a family's policy can't have these values."""
_OF: Final = {"tools": "tool's", "family": "family's"}
_OFF: Final = {"pace": "off"}
"""Values for which off is one of several, and not the lack of one."""
_MAY_BE_OFF: Final = frozenset(
    name for name, field in BreakerPolicy.model_fields.items() if name in _OFF or NoneType in get_args(field.annotation)
)


class Explanation(pydantic.BaseModel):
    """The effective policy of one tool or family, and the table that each value comes from."""

    model_config = pydantic.ConfigDict(frozen=True)

    tool_name: str
    policy: BreakerPolicy
    tables: tuple[str, ...] = pydantic.Field(description="The tables that cover the tool, most specific first.")
    sources: dict[str, str] = pydantic.Field(description="Field to the table that gave it; cusum's by cusum.<field>.")


class PolicySet:
    """Policies by tool name. A set does not change, so threads may share it.

    Args:
        default: Values over ``base``, for every tool.
        tools: Glob to values, in the file's order.
        base: The policy in force where no value is given.
        family: Glob to values for families.
        family_base: The policy in force for families where no value is given.
        source: Where the values are from, for messages.

    Raises:
        PolicyError: A key is unknown, a value is out of range, or values contradict each other: in one table, in several that can
            cover one tool, or over the default.
    """

    def __init__(
        self,
        default: Mapping[str, Any] | None = None,
        tools: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        base: BreakerPolicy = FLEET_DEFAULT,
        family: Mapping[str, Mapping[str, Any]] | None = None,
        family_base: BreakerPolicy = FAMILY_DEFAULT,
        source: str = "policies",
        kind: Literal["tools", "family"] = "tools",
    ) -> None:
        self.source = source
        self._kind = kind
        if kind == "tools":
            self._families = PolicySet(None, family, base=family_base, source=source, kind="family")
        self._base = base
        self._default = self._read(DEFAULT, default or {})
        if len(tools or {}) > MAX_TABLES:
            raise PolicyError(f"{source}: {len(tools or {})} tables are more than {MAX_TABLES}.", hint="Use globs.")
        for pattern in tools or {}:
            if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_NAME_LENGTH:
                raise PolicyError(
                    f"{source}: {kind}: {str(pattern)[:60]!r} is not a {_OF[kind]} name.",
                    hint=f"A name is text of 1 to {MAX_NAME_LENGTH} characters: put a number in quotes.",
                )
        named = {pattern: self._read(self._title(pattern), values) for pattern, values in (tools or {}).items()}
        # sorted() is stable: among equals the file's order stays
        self._tables = sorted(named.items(), key=lambda item: specificity(item[0]), reverse=True)
        self._merged = lru_cache(maxsize=REMEMBERED_TOOLS)(self._merge)
        self._remembered = lru_cache(maxsize=REMEMBERED_TOOLS)(self._look_up)
        self._check()

    @classmethod
    def load(
        cls,
        path: str | Path | None,
        *,
        base: BreakerPolicy = FLEET_DEFAULT,
        family_base: BreakerPolicy = FAMILY_DEFAULT,
    ) -> Self:
        """Return the policies of a TOML or YAML file. Without a file, every tool has ``base``, and every family ``family_base``.

        Raises:
            PolicyError: The file is missing or unreadable, or its values are not possible. The message names the table and the key.
        """
        if path is None:
            return cls(base=base, family_base=family_base)
        content = read_file(Path(path))
        for key, value in content.items():
            if key not in _TOP_LEVEL:
                raise unknown_key(str(path), "top level", key, list(_TOP_LEVEL))
            if not isinstance(value, dict | None):
                raise PolicyError(f"{path}: {key} is a {type(value).__name__}.", hint="Make it a table.")
        return cls(
            content.get("default"),
            content.get("tools"),
            base=base,
            family=content.get("family"),
            family_base=family_base,
            source=str(path),
        )

    @property
    def patterns(self) -> tuple[str, ...]:
        """The globs, the most specific first."""
        return tuple(pattern for pattern, _ in self._tables)

    def effective(self, tool_name: str) -> BreakerPolicy:
        """Return the policy in force for a tool. Tools with the same tables share one object."""
        return self._remembered(tool_name)

    def effective_family(self, family: str) -> BreakerPolicy:
        """Return the policy in force for the circuit of a family."""
        return self._families.effective(family)

    def explain_family(self, family: str) -> Explanation:
        """Return the policy in force for the circuit of a family, with the table that each value comes from."""
        return self._families.explain(family)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools that have a table of their own, without the globs."""
        return tuple(pattern for pattern in self.patterns if not is_glob(pattern))

    def explain(self, tool_name: str) -> Explanation:
        """Return the policy in force for a tool, with the table that each value comes from."""
        covering = self._covering(tool_name)
        policy = self._merged(covering)
        sources = dict.fromkeys(BreakerPolicy.model_fields, BUILT_IN)
        if policy.cusum is not None:
            sources |= {f"cusum.{field}": BUILT_IN for field in Cusum.model_fields}
        for title, layer in self._layers(covering):
            for key, value in layer.items():
                sources[key] = title
                for part in value if isinstance(value, dict) else ():
                    sources[f"cusum.{part}"] = title
        tables = tuple(self._title(self._tables[index][0]) for index in covering)
        return Explanation(tool_name=tool_name, policy=policy, tables=tables, sources=sources)

    def _look_up(self, tool_name: str) -> BreakerPolicy:
        return self._merged(self._covering(tool_name))

    def _layers(self, covering: tuple[int, ...]) -> list[tuple[str, dict[str, Any]]]:
        """Return titles and values from the default to the most specific table."""
        tables = [self._tables[index] for index in reversed(covering)]
        return [(DEFAULT, self._default), *((self._title(pattern), values) for pattern, values in tables)]

    def _covering(self, tool_name: str) -> tuple[int, ...]:
        return tuple(index for index, (pattern, _) in enumerate(self._tables) if matches(pattern, tool_name))

    def _read(self, title: str, values: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(values, Mapping):
            raise PolicyError(
                f"{self.source}: {title} is a {type(values).__name__}.", hint="Make it a table of values."
            )
        read = dict(values)
        for key, value in read.items():
            if key not in BreakerPolicy.model_fields:
                raise unknown_key(self.source, title, key, list(BreakerPolicy.model_fields))
            if self._kind == "family" and (key in ("fallback", "target") or (key == "scope" and value != "tool")):
                raise PolicyError(f"{self.source}: {title}: {NOT_FOR_FAMILIES[key]}.", hint="Set it for the tools.")
            for part in value if key == "cusum" and isinstance(value, dict) else ():
                if part not in Cusum.model_fields:
                    raise unknown_key(self.source, f"{title}.cusum", part, list(Cusum.model_fields))
            if value == "off" or (value is False and key != "honor_retry_after"):
                if key not in _MAY_BE_OFF:
                    raise PolicyError(f"{self.source}: {title}: {key} can't be turned off.", hint="Leave it out.")
                read[key] = _OFF.get(key)
            elif key == "cusum" and value is True:
                read[key] = {}
        return read

    def _merge(self, covering: tuple[int, ...]) -> BreakerPolicy:
        values = self._base.model_dump(exclude_unset=False)
        layers = self._layers(covering)
        for _, layer in layers:
            for key, value in layer.items():
                below = values[key]
                values[key] = {**below, **value} if isinstance(value, dict) and isinstance(below, dict) else value
            if "wait_duration_in_open_state_s" in layer and "max_wait_duration_in_open_state_s" not in layer:
                cap, wait = values["max_wait_duration_in_open_state_s"], layer["wait_duration_in_open_state_s"]
                if isinstance(wait, int | float) and isinstance(cap, int | float) and wait > cap:
                    values["max_wait_duration_in_open_state_s"] = wait
        try:
            return BreakerPolicy.model_validate(values)
        except pydantic.ValidationError as error:
            raise impossible(self.source, " over ".join(title for title, _ in reversed(layers)), error) from None

    def _check(self) -> None:
        """Merge every table alone over the default, and every set of tables that can cover a tool."""
        self._merge(())
        for index, (pattern, values) in enumerate(self._tables):
            policy = self._merge((index,))
            if "fallback" in values and pattern in policy.fallback:
                raise PolicyError(
                    f"{self.source}: {self._title(pattern)}: fallback: {OWN_FALLBACK}.", hint="Leave it out."
                )
        try:
            for name in chain(self.patterns, coverings(self.patterns)):  # a tool's name may look like a glob
                self._merged(self._covering(name))
        except TooManyOverlapsError:
            raise PolicyError(
                f"{self.source}: the tables overlap in too many ways to check.", hint="Use fewer globs."
            ) from None

    def _title(self, pattern: str) -> str:
        return f'[{self._kind}."{pattern}"]'
