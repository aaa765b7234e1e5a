"""The error of a wrong command line: the argument's name as it is written, what is wrong with it, and an example."""

from __future__ import annotations

import pytest

from switchgear_cli.main import WRONG_USAGE, run


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("open", "TOOL is missing. Usage: switchgear open TOOL... [OPTIONS]. Try `switchgear open --help`."),
        ("tool", "NAME is missing. Usage: switchgear tool NAME [OPTIONS]. Try `switchgear tool --help`."),
        ("sql", "QUERY is missing. Usage: switchgear sql QUERY [OPTIONS]. Try `switchgear sql --help`."),
        ("emit", "FILE is missing. Usage: switchgear emit FILE [OPTIONS]. Try `switchgear emit --help`."),
        ("policy show", "TOOL is missing. Usage: switchgear policy show TOOL [OPTIONS]. Try `switchgear policy show --help`."),
        ("dead show", "KEY is missing. Usage: switchgear dead show KEY [OPTIONS]. Try `switchgear dead show --help`."),
        ("retention set", "DAYS is missing. Usage: switchgear retention set DAYS [OPTIONS]. Try `switchgear retention set --help`."),
        ("retention set x", "DAYS 'x' is not a whole number. Write e.g. 30. Try `switchgear retention set --help`."),
        ("open --for", "--for needs a value, e.g. --for 10m. Try `switchgear open --help`."),
        ("open x --reason", '--reason needs a value, e.g. --reason "vendor maintenance". Try `switchgear open --help`.'),
        ("open x --timeout ten", "--timeout 'ten' is not a number. Write e.g. --timeout 10. Try `switchgear open --help`."),
        ("open x --timeout 0", "--timeout must be > 0, got 0. Try `switchgear open --help`."),
        ("open --tool x", "--tool is not an option: write its value alone. Usage: switchgear open TOOL... [OPTIONS]."),
        ("circuits --circuit-id x", "--circuit-id is not an option: write its value alone. Usage: switchgear circuits [CIRCUIT_ID]"),
        ("errors --limit ten", "--limit 'ten' is not a whole number. Write e.g. --limit 100."),
        ("errors --limit 0", "--limit must be >= 1, got 0."),
        ("slow --hours 0", "--hours must be > 0, got 0."),
        ("circuits a b", "'b' is one argument too many. Usage: switchgear circuits [CIRCUIT_ID] [OPTIONS]."),
        ("open x --reason a --reason b", "--reason is given more than once."),
        ("dead list --component x", "--component 'x' is not one of worker, sink. Write e.g. --component worker."),
        ("version --json=maybe", "--json takes no value."),
        ("errors --limt 3", "Unknown option: --limt. Did you mean --limit?"),
        ("emit --limt", "Unknown option: --limt."),
        ("policy chek", 'Unknown command "chek". Did you mean "check"?'),
        ("-x", "Unknown option: -x. Try `switchgear --help`."),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_one_line_that_names_it_and_says_what_to_do(capsys, line, sentence):
    assert run(line.split()) == WRONG_USAGE
    printed = capsys.readouterr()
    assert printed.err.startswith(f"switchgear: {sentence}")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert "parameter" not in printed.err.lower()


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("replay", "Give either a file or --from-clickhouse."),
        ("dead retry", "Nothing to send."),
        ("dead list --since soon", "--since 'soon' is neither a duration nor a date and time. Write e.g. --since 2h"),
        ("policy check", "No policy file is named. Give one, or set SWITCHGEAR_POLICY_FILE."),
    ],
)
def test_arguments_that_do_not_go_together_are_wrong_usage(capsys, line, sentence):
    assert run(line.split()) == WRONG_USAGE
    assert sentence in capsys.readouterr().err
