"""Checks run at the same time, each with its own limit, and none of them ends the others."""

from __future__ import annotations

import asyncio
import io

from rich.console import Console

from switchgear_cli.doctor.checks import (
    Check,
    CheckResult,
    Finding,
    SkippedError,
    as_json,
    as_table,
    joined,
    run_checks,
    worst,
)
from switchgear_schemas.errors import SwitchgearError
from tests.support.virtual_time import in_virtual_time

OK = Finding("ok", "Fine.")


def giving(finding: Finding):
    async def look() -> Finding:
        return finding

    return look


def raising(error: Exception):
    async def look() -> Finding:
        raise error

    return look


async def _forever() -> Finding:
    await asyncio.Event().wait()
    return OK


@in_virtual_time
async def test_every_check_has_a_result_whatever_the_others_do():
    checks = [
        Check("stuck", _forever),
        Check("wrong", raising(SwitchgearError("It is down.", hint="Start it."))),
        Check("left", raising(SkippedError("There is nothing to look at."))),
        Check("broken", raising(ValueError("a bug"))),
        Check("fine", giving(OK)),
    ]
    results = await run_checks(checks, 20)
    assert asyncio.get_running_loop().time() == 20
    assert [(each.name, each.finding.status, each.finding.seen) for each in results] == [
        ("stuck", "fail", "There was no answer within 20 s."),
        ("wrong", "fail", "It is down."),
        ("left", "skip", "There is nothing to look at."),
        ("broken", "fail", "The check could not be made: ValueError: a bug"),
        ("fine", "ok", "Fine."),
    ]
    assert results[1].finding.todo == "Start it."


async def test_a_check_that_needs_a_failed_one_is_skipped_and_one_after_a_warning_runs():
    checks = [
        Check("brokers", giving(Finding("fail", "None answers."))),
        Check("topics", giving(OK), "brokers"),
        Check("lag", giving(OK), "topics"),
        Check("API", giving(Finding("warn", "Slow."))),
        Check("circuits", giving(OK), "API"),
    ]
    results = {each.name: each.finding for each in await run_checks(checks, 5)}
    assert results["topics"] == Finding("skip", "Not checked, because of brokers.")
    assert results["lag"].status == "skip"
    assert results["circuits"] == OK


def test_the_worst_status_stands_for_all_and_a_skipped_check_for_nothing():
    findings = [Finding("skip", ""), OK, Finding("warn", ""), Finding("fail", "")]
    assert [worst(findings[:end]) for end in range(5)] == ["skip", "skip", "ok", "warn", "fail"]


def test_joined_findings_say_what_is_wrong_and_each_thing_to_do_once():
    assert joined([OK, OK], "All fine.") == Finding("ok", "All fine.")
    found = joined(
        [OK, Finding("warn", "A.", "do x"), Finding("fail", "B.", "do y"), Finding("fail", "C.", "do y")], ""
    )
    assert found == Finding("fail", "A. B. C.", "do x\ndo y")


def test_the_table_shows_what_to_do_below_what_was_seen_and_counts_the_results():
    results = [
        CheckResult("brokers", OK, 0.1),
        CheckResult("topics", Finding("fail", "No \x1b[31mtopic.", "do x\ndo y"), 0.2),
    ]
    console = Console(file=io.StringIO(), width=60)
    console.print(as_table(results), highlight=False)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines == [
        "ok    brokers  Fine.",
        "fail  topics   No \\u001b[31mtopic.",
        "               → do x",
        "               → do y",
        "",
        "2 checks: 1 ok, 1 failed.",
    ]
    assert as_json(results) == {
        "status": "fail",
        "checks": [
            {"name": "brokers", "status": "ok", "seen": "Fine.", "todo": "", "seconds": 0.1},
            {
                "name": "topics",
                "status": "fail",
                "seen": "No \x1b[31mtopic.",
                "todo": "do x\ndo y",
                "seconds": 0.2,
            },
        ],
    }
