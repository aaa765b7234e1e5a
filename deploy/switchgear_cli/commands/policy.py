"""``switchgear policy``: check a policy file, and explain which values a tool gets."""

from __future__ import annotations

import asyncio
import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from switchgear.policies import Explanation, PolicySet
from switchgear_cli.discovery import client_settings
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.operate.run import How, operate
from switchgear_cli.operate.values import policy_from
from switchgear_cli.reads import output
from switchgear_cli.reads.fitted import Column, FittedTable, name, words
from switchgear_cli.reads.formats import plain
from switchgear_schemas.policy import BreakerPolicy
from switchgear_schemas.settings import load_settings

policy = App(name="policy", help="Check, explain and set the policies of tools.")
_DEFAULT = How()


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
def show(
    tool: str,
    *,
    file: Path | None = None,
    live: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
    bootstrap_servers: str | None = None,
    topic_prefix: str | None = None,
) -> int:
    """Print a tool's effective policy and where each value came from.

    Args:
        tool: Name of the tool.
        file: Policy file; the settings' policy_file where it is not given.
        live: With what operators have set over it (`policy set`), asked of Kafka.
        json: One JSON object instead of a table.
        bootstrap_servers: Kafka brokers, host:port, comma-separated; with --live.
        topic_prefix: Before every topic name; with --live.
    """
    explained = PolicySet.load(file or load_settings().policy_file).explain(tool)
    if live:
        settings = client_settings(kafka_bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
        configure_client_logging(settings)
        from switchgear_cli.operate.in_force import in_force  # noqa: PLC0415 - imports aiokafka, 100 ms

        explained = asyncio.run(in_force(settings, explained))
    if json:
        print(json_module.dumps({**explained.model_dump(mode="json")}, sort_keys=True))
    else:
        output.show(_table(explained))
    return 0


@policy.command(name="set")
def set_values(glob: str, *assignments: str, file: Path | None = None, how: How = _DEFAULT) -> int:
    """Set values of a tool's policy while everything runs, over the policy file's. What is not named stays as it is.

    They outlive restarts, until `policy clear`. A glob holds for every tool that it covers, those to come included; the more specific
    one wins, and a tool's own values win over all globs.

    Args:
        glob: Name of a tool, or a glob (quote it).
        assignments: key=value; off turns a rule off; cusum.key=value sets a part; lists with commas.
        file: TOML or YAML with the same keys; what is assigned goes over it.
        how: The rest.
    """
    return operate("set_policy", glob, how, policy=policy_from(assignments, file))


@policy.command
def clear(glob: str, *, how: How = _DEFAULT) -> int:
    """Take back what was set for a tool or a glob: the policy file's values hold again.

    Args:
        glob: The very name or glob that was given to `policy set`.
        how: The rest.
    """
    return operate("set_policy", glob, how, policy=BreakerPolicy())


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
