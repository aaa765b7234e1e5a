"""Statements by a seed: each function of the engine in each position, and whatever else the grammar allows."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.fuzz.sql.positions import EXPRESSIONS, REFERENCES, STATEMENTS, TABLES

VALUES: Final = (
    "'{secret}'", "'{secret}'", "'{secret}'", "'{url}'", "'{folder}'", "'file:{secret}'", "'secret.txt'", "'{address}'",
    "0", "1", "-1", "2.5", "NULL", "now()", "''", "'a'", "'String'", "'CSV'", "'LineAsString'", "'s String'", "'tool_metrics'",
    "'system.users'", "'switchgear.tool_metrics'", "['{secret}']", "[1, 2]", "map('a', '{secret}')", "('{secret}', 1)",
    "x -> x", "(x, y) -> x", "toUInt64(1)", "today()", "'{\"a\": 1}'", "toUUID('00000000-0000-0000-0000-000000000000')",
    "'max_threads'", "tool_name", "number", "*", "INTERVAL 1 DAY", "'https://example.test/a?b=c'", "'2026-01-01'",
    "'default'", "'SELECT file(''{secret}'')'", "currentDatabase()",
)  # fmt: skip
PATHS: Final = (
    "'{secret}'", "`{secret}`", '"{secret}"', "`secret.txt`", "'{url}'", "default.`{secret}`", "default.`secret.txt`",
    "`file:{secret}`",
)  # fmt: skip
FORGERIES: Final = (
    "AS `a, function_name: plus`", "AS `a, table_function_name: numbers`", "AS `a, table_name: system.one`", "AS `a'`",
    "AS `a\\n  CONSTANT id: 1, constant_value: 1, constant_value_type: x`", "AS `a\\n  LIMIT\\n    x`",
    "AS `LAMBDA id: 1, alias: file`", "AS file", "(", ")", ",", ";", "--", "/*", "*/", "`", "'", "@", "APPLY(file)",
    "SETTINGS readonly = 0", "FORMAT CSV", "INTO OUTFILE '{folder}/x'", "UNION ALL", "x -> ", "file", "FROM file('{secret}')",
    "$$", "\\", "\n", "\x0b", "\u2028", "\u00a0", "\u202e", "{x:Identifier}", "{secret}", "%(",
)  # fmt: skip
"""What a mutation puts somewhere: aliases that look like lines of the analyser's tree, halves of brackets and quotes, clauses."""
_TOKEN: Final = re.compile(r"'[^']*'|\w+|\s+|.", re.DOTALL)
LOOKALIKES: Final = {"s": "\u017f", "k": "\u212a", "e": "\u0435", "i": "\u0131"}


@dataclass(frozen=True)
class Vocabulary:
    """What the engine has. Sorted, so that a seed always gives the same statements."""

    refused: tuple[str, ...]
    """Scalar functions and their aliases which may not be used."""
    functions: tuple[str, ...]
    """All of them, aggregate functions included."""
    higher: tuple[str, ...]
    """Those that take a function."""
    combinators: tuple[str, ...]
    table_functions: tuple[str, ...]
    tables: tuple[str, ...]
    """Of other databases, as ``database.table``."""
    engines: tuple[str, ...]


class Statements:
    """An endless iterator of attempts with the placeholders of :class:`tests.support.canary.World`.

    In turn: the next of all refused functions in all positions, in an order that the seed decides; the next function that may be
    used, on arguments that name the secret; and a statement that is composed at random.
    """

    def __init__(self, vocabulary: Vocabulary, seed: int) -> None:
        self._known = vocabulary
        self._random = random.Random(seed)

    def __iter__(self) -> Iterator[str]:
        computed = self._computed()
        while True:
            for pair in self._pairs():
                yield pair
                yield next(computed)
                composed = self._composed()
                yield self._mutated(composed) if self._random.random() < 0.3 else composed

    def _pairs(self) -> Iterator[str]:
        places = [(name, kind, place) for name in self._known.refused for kind, place in _places()]
        self._random.shuffle(places)
        for name, kind, place in places:
            if kind == "called":
                yield _within(place, self._call(name))
            else:
                yield self._referred(place, name)

    def _computed(self) -> Iterator[str]:
        allowed = sorted(set(self._known.functions) - set(self._known.refused))
        while True:
            self._random.shuffle(allowed)
            for name in allowed:
                call = f"{name}({self._arguments(depth=3)})"
                yield f"SELECT {call}" if self._random.random() < 0.5 else _within(self._one(EXPRESSIONS), call)

    def _mutated(self, statement: str) -> str:
        tokens = _TOKEN.findall(statement)
        for _ in range(self._random.randint(1, 3)):
            place = self._random.randrange(len(tokens))
            other = self._random.choice((self._one(FORGERIES), self._random.choice(tokens), self._one(VALUES), ""))
            tokens[place : place + self._random.randint(0, 1)] = [f" {other} "]
        return "".join(tokens)

    def _composed(self) -> str:
        statement = self._one(STATEMENTS).replace("!", f"{self._one(self._known.engines)}({self._arguments()})")
        while "@" in statement:
            statement = statement.replace("@", self._query(0), 1)
        return statement

    def _query(self, depth: int) -> str:
        draw = self._random.random()
        if draw < 0.45:
            return _within(self._one(EXPRESSIONS), self._expression(depth))
        if draw < 0.7:
            return self._referred(self._one(REFERENCES), self._name())
        return self._one(TABLES).replace("@", self._table(depth)).replace("$", "{address}")

    def _expression(self, depth: int) -> str:
        draw = self._random.random()
        if depth < 3 and draw < 0.25:
            return f"({self._query(depth + 1)})"
        if depth < 3 and draw < 0.5:
            return f"{self._one(self._known.functions)}({self._expression(depth + 1)}, {self._one(VALUES)})"
        return self._call(self._name())

    def _table(self, depth: int) -> str:
        draw = self._random.random()
        if draw < 0.5:
            return f"{self._disguised(self._one(self._known.table_functions))}({self._arguments(depth)})"
        if draw < 0.7:
            return ".".join(self._disguised(part) for part in self._one(self._known.tables).split("."))
        if draw < 0.8:
            return self._one(PATHS)
        return f"(SELECT {self._expression(depth + 1)} AS x)"

    def _name(self) -> str:
        name = self._one(self._known.refused if self._random.random() < 0.2 else self._known.functions)
        if self._random.random() < 0.1:
            name += self._one(self._known.combinators)
        return name

    def _call(self, name: str) -> str:
        if name == "file" or self._random.random() < 0.4:
            call = f"{self._disguised(name)}({VALUES[0]})"
        else:
            call = f"{self._disguised(name)}({self._arguments()})"
        return f"{call}({self._arguments()})" if self._random.random() < 0.05 else call

    def _arguments(self, depth: int = 3) -> str:
        count = self._random.choice((0, 1, 1, 1, 2, 2, 3, 4))
        found = [self._one(VALUES) for _ in range(count)]
        if depth < 2 and found and self._random.random() < 0.2:
            found[-1] = f"({self._query(depth + 1)})"
        if self._random.random() < 0.01:
            found.append("SETTINGS max_threads = 1")
        return ", ".join(found)

    def _referred(self, place: str, name: str) -> str:
        place = place.replace("%", self._one(self._known.higher))
        value = "'{secret}'" if self._random.random() < 0.7 else self._one(VALUES)
        return place.replace("@", self._disguised(name)).replace("$", value)

    def _disguised(self, name: str) -> str:
        draw = self._random.random()
        if draw < 0.8:
            return name
        letter = self._random.randrange(len(name))
        return self._random.choice(
            (
                f"`{name}`",
                f'"{name}"',
                name.upper(),
                name.swapcase(),
                f"{name}/* {self._one(VALUES)} */",
                f"{name} -- x\n",
                f"{name}\n\t ",
                f"`{name}` ",
                f"`{name}\\n`",
                f"`\\x{ord(name[0]):02x}{name[1:]}`",
                name[:letter] + LOOKALIKES.get(name[letter], name[letter]) + name[letter + 1 :],
            )
        )

    def _one(self, choices: tuple[str, ...]) -> str:
        return self._random.choice(choices)


def _places() -> list[tuple[str, str]]:
    return [("called", place) for place in EXPRESSIONS] + [("named", place) for place in REFERENCES]


def _within(place: str, expression: str) -> str:
    quoted = expression.replace("\\", "\\\\").replace("'", "''")
    return place.replace("@", expression).replace("#", quoted)
