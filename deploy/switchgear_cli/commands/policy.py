"""``switchgear policy``: check a policy file, and explain which values a tool gets."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from switchgear.policies import Explanation, PolicySet
from switchgear_cli.reads import output
from switchgear_cli.reads.fitted import Column, FittedTable, name, words
from switchgear_cli.reads.formats import plain
from switchgear_schemas.settings import load_settings

policy = App(name="policy", help="Check policies and explain which one a tool gets.")


@policy.command
def check(file: Path) -> int:
    """Read a policy file and say what is wrong with it, or how many tables it has.

    Args:
        file: TOML or YAML, with the keys default and tools.
    """
    patterns = PolicySet.load(file).patterns
    print(f"{file}: valid, {len(patterns)} table{'' if len(patterns) == 1 else 's'} beside the default.")
    return 0


@policy.command
def show(tool: str, *, file: Path | None = None, json: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Print a tool's effective policy and where each value came from.

    Args:
        tool: Name of the tool.
        file: Policy file; the settings' policy_file where it is not given.
        json: One JSON object instead of a table.
    """
    explained = PolicySet.load(file or load_settings().policy_file).explain(tool)
    if json:
        print(json_module.dumps({**explained.model_dump(mode="json")}, sort_keys=True))
    else:
        output.show(_table(explained))
    return 0


def _table(explained: Explanation) -> FittedTable:
    table = FittedTable(Column("key"), words("value"), name("from"))
    values = explained.policy.model_dump(mode="json")
    cusum = values.pop("cusum")
    rows = {**values, **({"cusum": None} if cusum is None else {f"cusum.{key}": cusum[key] for key in cusum})}
    for key in sorted(rows):
        table.add(key, plain(_in_words(rows[key])), plain(explained.sources[key]))
    return table


def _in_words(value: object) -> str:
    if value is None:
        return "off"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
