"""``switchgear policy``: check a policy file, and explain which values a tool gets."""

from __future__ import annotations

import asyncio
import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App, Parameter

from switchgear.policies import Explanation, PolicySet
from switchgear.policies.policy_set import BUILT_IN
from switchgear_cli.discovery import client_settings
from switchgear_cli.logs import configure_client_logging
from switchgear_cli.operate.options import CommandOptions, NameOptions
from switchgear_cli.operate.policy_values import policy_from
from switchgear_cli.operate.run import clear_policy, set_policy
from switchgear_cli.reads import output
from switchgear_cli.reads.formats import plain
from switchgear_cli.reads.responsive_table import Column, ResponsiveTable, name, words
from switchgear_schemas.errors import SwitchgearError, WrongUsageError
from switchgear_schemas.settings import load_settings

policy = App(name="policy", help="Check, explain and set the policies of tools.")
_DEFAULT = CommandOptions()
_NAMES = NameOptions()
_READ_S: Final = 20.0
_GLANCE_S: Final = 3.0
"""Longest read of the values set by ``policy set`` without --live, in seconds."""


@policy.command
def check(policy_file: Path | None = None) -> int:
    """Check a policy file: report what is wrong with it, or how many tables it has.

    Args:
        policy_file: Policy file, TOML or YAML, with the keys default and tools. By default the settings' policy_file.
    """
    file = policy_file or load_settings().policy_file
    if file is None:
        raise WrongUsageError("No policy file is named.", hint="Give one, or set SWITCHGEAR_POLICY_FILE.")
    patterns = PolicySet.load(file).patterns
    print(f"{file}: valid, {len(patterns)} table{'' if len(patterns) == 1 else 's'} beside the default.")
    return 0


@policy.command
def show(
    tool: str,
    /,
    *,
    family: Annotated[bool, Parameter(negative=())] = False,
    policy_file: Path | None = None,
    live: bool | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
    bootstrap_servers: str | None = None,
    topic_prefix: str | None = None,
) -> int:
    """Print a tool's effective policy and where each value came from.

    With --live it includes the values that operators have set over the file's (`policy set`). Without it, a remark says whether there
    are any, if Kafka answers within a few seconds.

    Args:
        tool: Name of the tool.
        family: It is the name of a family, a server such as mcp:github.
        policy_file: Policy file, TOML or YAML. By default the settings' policy_file.
        live: Include what operators have set, as Kafka has it. --no-live doesn't connect to Kafka.
        json: One JSON object instead of a table.
        bootstrap_servers: Kafka brokers, host:port, comma-separated.
        topic_prefix: Before every topic name.
    """
    policies = PolicySet.load(policy_file or load_settings().policy_file)
    explained = policies.explain_family(tool) if family else policies.explain(tool)
    settings = client_settings(kafka_bootstrap_servers=bootstrap_servers, topic_prefix=topic_prefix)
    configure_client_logging(settings)
    set_live: dict[str, str] | None = None
    remark = ""
    if live is not False:
        from switchgear_api.operate.policy_in_force import in_force, overridden  # noqa: PLC0415 - imports aiokafka, 100 ms

        try:
            timeout_s = _READ_S if live else _GLANCE_S
            with_live = asyncio.run(in_force(settings, explained, family=family, timeout_s=timeout_s))
        except SwitchgearError as error:
            if live:
                raise
            remark = f"Values set by `policy set` were not looked at: {error.message}"
        else:
            set_live = overridden(with_live)
            explained = with_live if live else explained
    if json:
        print(json_module.dumps({**explained.model_dump(mode="json"), "overridden": set_live}, sort_keys=True))
        return 0
    output.show(_table(explained))
    if set_live and not live:
        fields = ", ".join(f"{field} ({source})" for field, source in set_live.items())
        remark = f"`policy set` holds other values of {fields}: --live shows them."
    if remark:
        print(f"switchgear: {plain(remark)}", file=sys.stderr)
    return 0


@policy.command(name="set")
def set_values(
    tool: str,
    /,
    *assignments: str,
    values_file: Path | None = None,
    names: NameOptions = _NAMES,
    how: CommandOptions = _DEFAULT,
) -> int:
    """Set values of a tool's policy over the policy file's, while everything runs. Other values stay as they are.

    The values survive restarts, until `policy clear`. A glob applies to every tool that it matches, also to later ones. The more
    specific glob wins, and a tool's own values win over all globs.

    Args:
        tool: Name of a tool, or a glob (quote it); with --family, name of a family.
        assignments: key=value; off turns a rule off; cusum.key=value sets a part; lists with commas.
        values_file: TOML or YAML with the same keys at its top level; what is assigned goes over it.
        names: Which names are known.
        how: The rest.
    """
    return set_policy(tool, policy_from(assignments, values_file), how, names)


@policy.command
def clear(
    tool: str, /, *, family: Annotated[bool, Parameter(negative=())] = False, how: CommandOptions = _DEFAULT
) -> int:
    """Remove what was set for a tool or a glob: the policy file's values apply again.

    Args:
        tool: The very name or glob that was given to `policy set`.
        family: It is the name of a family.
        how: The rest.
    """
    return clear_policy(tool, how, family=family)


def _table(explained: Explanation) -> ResponsiveTable:
    table = ResponsiveTable(Column("key"), words("value"), name("from"))
    values = explained.policy.model_dump(mode="json")
    cusum = values.pop("cusum")
    rows = {**values, **({"cusum": None} if cusum is None else {f"cusum.{key}": cusum[key] for key in cusum})}
    for key in sorted(rows):
        table.add(key, plain(_in_words(rows[key])), plain(explained.sources.get(key, BUILT_IN)))
    return table


def _in_words(value: object) -> str:
    if value is None:
        return "off"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
