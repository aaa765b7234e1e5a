"""Every command's options: one spelling for one meaning, in all of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from cyclopts import App, Argument

from switchgear_cli.catalogue import COMMANDS
from switchgear_cli.main import build_app
from switchgear_cli.usage import EXAMPLES
from tests.support.table import table

pytestmark = pytest.mark.slow

SPELLINGS = {
    r"\bbrokers?\b.*host:port": "--bootstrap-servers",
    r"before every topic": "--topic-prefix",
    r"^policy file": "--policy-file",
    r"where the http api is": "--api-url",
    r"http\(s\)://user:password@": "--clickhouse",
    r"^(one )?json|one json (document|object|array)": "--json",
    r"^longest wait": "--timeout",
    r"\bat most\b": "--limit",
    r"^how far back": "--hours",
    r"^only this tool's": "--tool",
    r"(everything is kept|folder of the data)": "--data-dir",
}
"""What a help text says of an option's meaning, and the one name that such an option has."""
OTHER_NAMES = {
    "--kafka", "--brokers", "--bootstrap-server", "--kafka-bootstrap-servers", "--prefix", "--policy", "--policies", "--url",
    "--clickhouse-url", "--output", "--max", "--wait-s", "--timeout-s", "--tool-name",
}  # fmt: skip


class Option(NamedTuple):
    command: str
    argument: Argument

    @property
    def help(self) -> str:
        return self.argument.parameter.help or ""


def _leaves(app: App, chain: tuple[str, ...]) -> Iterator[tuple[str, App]]:
    names = [name for name in app if not name.startswith("-")]
    if not names:
        yield " ".join(chain), app
    for name in names:
        yield from _leaves(app[name], (*chain, name))


def _options() -> list[Option]:
    """All of them, read from the help as a person sees it."""
    leaves = [leaf for entry in COMMANDS for leaf in _leaves(build_app(entry.name)[entry.name], (entry.name,))]
    return [
        Option(command, argument)
        for command, leaf in leaves
        for argument in leaf.assemble_argument_collection(parse_docstring=True)
        if argument.parse and argument.name != "*"
    ]


OPTIONS = _options()
NAMED = [option for option in OPTIONS if option.argument.name.startswith("-")]


@pytest.mark.slow
def test_the_command_line_has_commands_with_options():
    assert {"worker", "policy show", "dead list", "open"} <= {option.command for option in NAMED}


@table("option", NAMED, ids=lambda option: f"{option.command} {option.argument.name}")
def test_an_option_has_the_one_name_of_its_meaning(option):
    of_a_server = (
        option.command == "mcp-proxy" and option.argument.name == "--url"
    )  # neither of our API nor of the store
    assert option.argument.name not in OTHER_NAMES or of_a_server
    for says, name in SPELLINGS.items():
        if re.search(says, option.help, re.IGNORECASE):
            assert option.argument.name in {name, "--jsonl"}, f"{option.command}: {option.help}"


def test_one_name_means_the_same_type_and_bounds_in_every_command():
    kinds = defaultdict(set)
    for option in NAMED:
        hint = str(option.argument.hint).replace("typing.Optional", "").replace(" | None", "").replace("<class '", "")
        least = [(each.gt, each.gte) for each in option.argument.parameter.validator or () if hasattr(each, "gte")]
        kinds[option.argument.name].add((hint.strip("'>[]"), tuple(least)))
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def test_every_command_with_brokers_has_an_option_for_the_topic_prefix():
    with_option = {
        name: {option.command for option in NAMED if option.argument.name == name}
        for name in ("--bootstrap-servers", "--topic-prefix")
    }
    assert with_option["--bootstrap-servers"] == with_option["--topic-prefix"]
    assert {"worker", "sink", "emit", "topics ensure", "open", "dead list"} <= with_option["--bootstrap-servers"]


def test_a_policy_file_is_named_the_same_way_by_every_command_that_reads_one():
    commands = {option.command for option in NAMED if option.argument.name == "--policy-file"}
    assert commands == {"mcp-proxy", "worker", "replay", "tune", "policy check", "policy show"}


def test_every_option_that_takes_a_value_has_an_example_for_its_error():
    taking = {option.argument.name for option in NAMED if option.argument.hint is not bool}
    assert {name for name in taking - EXAMPLES.keys() if name != "--live"} == set()
    assert {name for name in EXAMPLES if name.startswith("-")} <= taking


def test_a_positional_argument_is_not_also_an_option():
    both = {option.command for option in NAMED if option.argument.field_info.is_positional}
    assert both == {"policy check"}  # its file may be given as --policy-file, as everywhere


def test_only_flags_that_are_on_have_a_form_that_turns_them_off():
    """And --demo, which `make up` gives: `make up ARGS=--no-demo` takes it back."""
    negative = {name for option in NAMED for name in option.argument.names if name.startswith("--no-")}
    assert negative == {"--no-demo", "--no-wait", "--no-live"}


def test_every_option_has_a_help_text():
    assert [(option.command, option.argument.name) for option in OPTIONS if not option.help] == []
