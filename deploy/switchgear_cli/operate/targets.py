"""Find the circuits that the words of a command line name."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from switchgear.policies.glob import is_glob, matches
from switchgear_cli.reads.formats import named
from switchgear_schemas.circuit_ids import circuit_id as id_of
from switchgear_schemas.command import Command
from switchgear_schemas.errors import SwitchgearError, WrongUsageError

_NAMES_IN_AN_ERROR: Final = 5
_NAMES_IN_A_LIST: Final = 200
_COMPARED: Final = 5_000
"""Most names to compare a misspelt name with. Together they take up to a second."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The circuits that a command goes to: tools by name, each with the id of the chosen circuit.

    Attributes:
        circuits: Tool to circuit id; that of the tool's own circuit stands for all of its circuits.
        states: State by circuit id, of those that a worker knows.
        globs: What was expanded; empty where every tool was named.
        remarks: What a person should know before agreeing.
    """

    circuits: Mapping[str, str]
    states: Mapping[str, str] = field(default_factory=dict)
    globs: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def own_circuit(tool: str) -> str:
    """Return the id that stands for all circuits of a tool: that of its own one."""
    return id_of(tool)


def family_circuit(family: str) -> str:
    """Return the id of a family's circuit."""
    return id_of(family, "family")


def subject_of(command: Command) -> str:
    """Return what a policy command sets values for: a glob, or the circuit of a tool or family."""
    name = command.tool_name
    return command.circuit_id or (name if is_glob(name) else own_circuit(name))


class NothingSetError(SwitchgearError):
    """``policy set`` has no values for the name or glob."""


@dataclass(frozen=True, slots=True)
class Atlas:
    """The circuits and names that are known.

    Args:
        states: State by circuit id.
        tools: Names of tools.
        remarks: What could not be read, one sentence each.
    """

    states: Mapping[str, str]
    tools: frozenset[str]
    remarks: tuple[str, ...] = ()

    @classmethod
    def of_answer(cls, known: Mapping[str, Any], *, family: bool) -> Atlas:
        """Return what the API answers that it knows. With ``family``, the names are those of families."""
        circuits = known["circuits"]
        families = [each["tool"] for each in circuits if each["scope"] == "family"]
        states = {each["circuit_id"]: each["state"] for each in circuits}
        return cls(states, frozenset(families if family else known["tools"]), tuple(known["remarks"]))

    def find(self, words: Sequence[str], create: bool, circuit_of: Callable[[str], str]) -> Targets:
        """Return the circuits that names and globs mean.

        Raises:
            WrongUsageError: A glob matches nothing, or a name is unknown.
        """
        circuits: dict[str, str] = {}
        globs: list[str] = []
        unknown: list[str] = []
        remarks = list(self.remarks)
        for word in words:
            matching = sorted(name for name in self.tools if name != word and matches(word, name))
            if word in self.tools or not is_glob(word):
                if is_glob(word) and matching:
                    others = (
                        "1 other that it matches is"
                        if len(matching) == 1
                        else f"{len(matching)} others that it matches are"
                    )
                    remarks.append(f"{word!r} is the name of a tool: {others} not meant.")
                if create or self._exists(word, circuit_of(word)):
                    circuits[word] = circuit_of(word)
                else:
                    unknown.append(word)
                continue
            found = [name for name in matching if create or self._exists(name, circuit_of(name))]
            if not found:
                raise self._no_match(word, bool(matching), remarks)
            globs.append(word)
            circuits |= {name: circuit_of(name) for name in found}
        if unknown:
            raise self._unknown(unknown, circuit_of)
        return Targets(circuits, self.states, tuple(globs), tuple(remarks))

    def _exists(self, tool: str, circuit_id: str) -> bool:
        return tool in self.tools if circuit_id == own_circuit(tool) else circuit_id in self.states

    def _no_match(self, glob: str, other_circuits: bool, remarks: Iterable[str]) -> WrongUsageError:
        if other_circuits:
            return WrongUsageError(
                f"{glob!r} matches tools, but none of them has a circuit of that user or session.",
                hint=" ".join(["Give --create to make one.", *remarks]),
            )
        near = nearest(glob, self.tools) or sorted(self.tools)[:_NAMES_IN_AN_ERROR]
        more = len(self.tools) - len(near)
        listed = (
            f"Known tools: {', '.join(near)}{f' and {more} more' if more else ''}." if near else "No tool is known yet."
        )
        return WrongUsageError(f"{glob!r} matches no known tool.", hint=" ".join([listed, *remarks]))

    def _unknown(self, words: Sequence[str], circuit_of: Callable[[str], str]) -> WrongUsageError:
        described = []
        for word in words:
            circuit_id = circuit_of(word)
            near = " or ".join(nearest(circuit_id, self.tools if circuit_id == own_circuit(word) else self.states))
            described.append(f"{circuit_id!r} (did you mean {near}?)" if near else repr(circuit_id))
        return WrongUsageError(
            f"No circuit or policy knows {', '.join(described)}. Nothing was sent.",
            hint=" ".join(["Give --create if the name is right.", *self.remarks]),
        )


def nothing_set(name: str, found: Sequence[str]) -> NothingSetError:
    """Return the error for a name without values. ``found`` are the names and globs that have some."""
    near = nearest(name, found) or found[:_NAMES_IN_AN_ERROR]
    more = f" and {len(found) - len(near)} more" if len(found) > len(near) else ""
    return NothingSetError(
        f"Nothing is set for {name!r}: there is nothing to clear, and nothing was sent.",
        hint=f"Values are set for {', '.join(near)}{more}." if near else "No values are set by `policy set`.",
    )


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """Return up to five known names that are similar to ``word``, the most similar first."""
    known = sorted(names)[:_COMPARED]
    return difflib.get_close_matches(word, known, n=_NAMES_IN_AN_ERROR)


def agreed(targets: Targets, command: str, *, family: bool, yes: bool) -> bool:
    """Return whether to go on. Asks the person at the terminal if a glob was expanded and ``yes`` is False.

    Raises:
        WrongUsageError: there is no terminal to ask at.
    """
    for remark in targets.remarks:
        print(f"switchgear: {remark}", file=sys.stderr)
    if yes or not targets.globs:
        return True
    one, several = ("family", "families") if family else ("tool", "tools")
    count = f"{len(targets.circuits)} {one if len(targets.circuits) == 1 else several}"
    what = f"{', '.join(targets.globs)} {'match' if len(targets.globs) > 1 else 'matches'} {count}"
    print(f"{what}:", file=sys.stderr)
    shown = {named(each): each for each in list(targets.circuits.values())[:_NAMES_IN_A_LIST]}
    width = max(map(len, shown))
    for shown_name, circuit_id in shown.items():
        state = targets.states.get(circuit_id, "closed").replace("_", " ")
        print(f"  {shown_name:<{width}}  {state}", file=sys.stderr)
    if len(targets.circuits) > len(shown):
        print(f"  … and {len(targets.circuits) - len(shown)} more", file=sys.stderr)
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise WrongUsageError("Nothing was sent.", hint=f"Add --yes to {command} {count}.")
    print(f"Run `switchgear {command}` on {count}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() in {"y", "yes"}:
        return True
    print("Nothing was sent.", file=sys.stderr)
    return False
