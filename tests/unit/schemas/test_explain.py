"""The sentence for the state of a circuit: each rule's sentence, and numbers that are true."""

import subprocess
import sys

import msgspec
import pytest

from switchgear.breaker.cusum import solve
from switchgear.breaker.ramp import AFTER_RETRY_AFTER
from switchgear_schemas.circuit import Cause, Counts
from switchgear_schemas.explain import explain, percent
from switchgear_schemas.policy import Cusum
from tests.support.cusum import run_length
from tests.support.snippets import snippets
from tests.support.table import table

CUSUM = {
    "rule": "cusum", "value": 11.99, "threshold": 11.99, "sample": 8, "failed": 8, "tolerable_failure_rate": 0.1,
    "calls_between_false_opens": 1_000_000,
}  # fmt: skip
EIGHT_OF_EIGHT = "8 of the last 8 calls failed; a healthy tool (at most 10 % failures) gets that far less than once in 1,000,000 calls"
RATE = {"rule": "failure_rate", "value": 0.75, "threshold": 0.5, "sample": 12, "failed": 9, "window_s": 60}
SLOW = {"rule": "slow_call_rate", "value": 0.7, "threshold": 0.5, "sample": 10, "window_s": 60}
TOKENS = {"rule": "wasted_tokens", "value": 12_345, "threshold": 10_000, "sample": 40}

SENTENCES = [
    (CUSUM, EIGHT_OF_EIGHT),
    (
        CUSUM | {"reporters": 2},
        f"{EIGHT_OF_EIGHT}; reported by at least 2 processes",
    ),
    ({"rule": "cusum", "value": 12, "threshold": 12}, "more calls failed than a healthy tool's do"),
    ({"rule": "consecutive_failures", "value": 5.0, "threshold": 5}, "5 calls in a row failed (the limit is 5)"),
    (
        {"rule": "clock_set_back", "value": 3595.0},
        "the broker's clock was 3595 s ahead, and the circuit's times moved back with it",
    ),
    ({"rule": "recovery_ramp", "value": 0.25}, "25 % of calls are admitted while the tool recovers"),
    ({"rule": "recovery_ramp", "value": 1.0}, "the recovery is over, and all calls are admitted"),
    (
        {"rule": "recovery_ramp", "value": 0.25, "reason": AFTER_RETRY_AFTER},
        "25 % of calls are admitted; calls return by degrees, because the tool sent Retry-After",
    ),
    (
        {"rule": "recovery_ramp", "value": 1.0, "reason": AFTER_RETRY_AFTER},
        "the recovery is over, and all calls are admitted",
    ),
    (
        {"rule": "probe_succeeded", "value": 1, "threshold": 1, "sample": 1, "reason": AFTER_RETRY_AFTER},
        "the probe call succeeded; calls return by degrees, because the tool sent Retry-After",
    ),
    (
        {"rule": "recovery_failed", "value": 0.6, "threshold": 0.5, "sample": 5, "failed": 3},
        "3 of the last 5 calls failed (60 %; the limit is 50 %) while the tool recovered",
    ),
    ({"rule": "consecutive_failures", "value": 1, "threshold": 1}, "a call failed (the limit is 1)"),
    (
        {"rule": "failure_count", "value": 10, "threshold": 10, "sample": 40, "window_s": 300},
        "10 of 40 calls within 5 min failed (the limit is 10 failed calls)",
    ),
    (
        {"rule": "failure_count", "value": 1, "threshold": 1, "sample": 1, "window_s": 60},
        "the last call failed (the limit is 1 failed call)",
    ),
    (RATE, "9 of 12 calls within 60 s failed (75 %; the limit is 50 %)"),
    (RATE | {"window_s": None}, "9 of the last 12 calls failed (75 %; the limit is 50 %)"),
    (RATE | {"failed": None}, "9 of 12 calls within 60 s failed (75 %; the limit is 50 %)"),
    (RATE | {"reporters": 1}, "9 of 12 calls within 60 s failed (75 %; the limit is 50 %); reported by 1 process"),
    (
        RATE | {"reason": "would have opened"},
        "would have opened: 9 of 12 calls within 60 s failed (75 %; the limit is 50 %)",
    ),
    ({"rule": "failure_rate", "value": 0.9, "threshold": 0.5}, "too many calls failed (90 %; the limit is 50 %)"),
    ({"rule": "failure_rate"}, "too many calls failed"),
    (SLOW, "7 of 10 calls within 60 s took too long (70 %; the limit is 50 %)"),
    (
        SLOW | {"slow_call_duration_threshold_ms": 2000},
        "7 of 10 calls within 60 s took longer than 2 s (70 %; the limit is 50 %)",
    ),
    (
        SLOW | {"slow_call_duration_threshold_ms": 250.5},
        "7 of 10 calls within 60 s took longer than 250.5 ms (70 %; the limit is 50 %)",
    ),
    (TOKENS, "failed calls among the last 40 calls used 12,345 tokens (the limit is 10,000)"),
    (TOKENS | {"window_s": 3600}, "failed calls used 12,345 tokens within 1 h (the limit is 10,000)"),
    ({"rule": "probe_failed", "value": 1, "threshold": 1, "sample": 1}, "the probe call failed"),
    ({"rule": "probe_failed", "value": 1, "threshold": 1, "sample": 3}, "1 of 3 probe calls failed"),
    (
        {"rule": "probe_slow", "value": 1, "sample": 1, "slow_call_duration_threshold_ms": 1500},
        "the probe call took longer than 1.5 s",
    ),
    ({"rule": "probe_succeeded", "value": 1, "threshold": 1, "sample": 1}, "the probe call succeeded"),
    ({"rule": "probe_succeeded", "value": 3, "threshold": 3, "sample": 3}, "3 probe calls succeeded"),
    (
        {"rule": "probe_failure_rate", "value": 0.6, "threshold": 0.5, "sample": 5},
        "3 of 5 probe calls failed (60 %; the limit is 50 %)",
    ),
    (
        {"rule": "probe_failure_rate", "value": 0.2, "threshold": 0.5, "sample": 5},
        "1 of 5 probe calls failed (20 %; the limit is 50 %)",
    ),
    (
        {"rule": "probe_slow_call_rate", "value": 0.5, "threshold": 0.5, "sample": 2},
        "1 of 2 probe calls took too long (50 %; the limit is 50 %)",
    ),
    (
        {"rule": "probes_ignored", "value": 10, "threshold": 10, "sample": 10},
        "10 probe calls ended without evidence about the tool's health, for instance cancelled",
    ),
    (
        {"rule": "half_open_timeout", "value": 30, "threshold": 30, "sample": 0},
        "no probe call came back within 30 s",
    ),
    (
        {"rule": "half_open_timeout", "value": 30, "threshold": 30, "sample": 2},
        "2 probe calls came back within 30 s, too few to decide",
    ),
    ({"rule": "wait_elapsed"}, "the wait is over, and a probe call tests the tool"),
    ({"rule": "lease_granted", "actor": "planner-1"}, "planner-1 may make a probe call"),
    ({"rule": "probe_returned", "actor": "planner-1"}, "a probe call came back and decided nothing yet"),
    ({"rule": "asked", "actor": "planner-1"}, "published again, because planner-1 asked"),
    (
        {"rule": "state_lost", "reason": "the owner has no state"},
        "the worker lost this circuit's state, and its evidence starts from zero",
    ),
    ({"rule": "state_unavailable", "reason": "the fleet's state is unavailable"}, "the fleet's state is unavailable"),
    ({"rule": "set_policy", "actor": "ada", "reason": "calmer"}, "policy changed by ada: calmer"),
    ({"rule": "policy", "reason": "mode metrics_only"}, "the policy's mode is metrics only"),
    ({"rule": "error_budget", "value": 3, "threshold": 2.5}, "error budget: 3, the limit is 2.5"),
    ({"rule": "error_budget", "actor": "ada", "reason": "why not"}, "error budget by ada: why not"),
]


@table(("cause", "sentence"), SENTENCES, ids=[one["rule"] for one, _ in SENTENCES])
def test_explain_has_a_sentence_for_each_rule(cause, sentence):
    assert explain(cause) == sentence
    assert explain(msgspec.convert(cause, Cause)) == sentence, "of the struct as of JSON"


@table(
    ("state", "sentence"),
    [
        ("forced_open", "forced open by ada: maintenance"),
        ("open", "forced open by ada: maintenance"),
        ("closed", "closed by ada: maintenance"),
        ("disabled", "disabled by ada: maintenance"),
        ("metrics_only", "set to metrics only by ada: maintenance"),
        (None, "changed by ada: maintenance"),
    ],
)
def test_explain_says_what_a_command_did_by_whom_and_why(state, sentence):
    cause = Cause(rule="command", actor="ada", reason="maintenance")
    assert explain(cause, state=state) == sentence
    assert explain(msgspec.structs.replace(cause, reason=None), state=state) == sentence.removesuffix(": maintenance")


def test_explain_calls_the_actor_of_an_anonymous_command_an_operator():
    assert explain({"rule": "command"}, state="closed") == "closed by an operator"


def test_a_circuit_that_its_policy_pins_from_the_start_says_so_without_a_cause():
    assert explain(None, state="forced_open") == "the policy's mode is forced open"
    assert explain({}, state="disabled") == "the policy's mode is disabled"


def test_explain_returns_nothing_without_a_cause():
    assert (explain(None), explain({}), explain(None, Counts(), state="closed")) == ("", "", "")


def test_a_record_of_an_older_version_names_its_failed_calls_in_its_counts():
    older = {"rule": "cusum", "value": 11.99, "threshold": 11.99, "sample": 8}
    assert explain(older, {"calls": 8, "failed": 7}) == "7 of the last 8 calls failed"
    assert explain(older, Counts(calls=8, failed=7)) == "7 of the last 8 calls failed"


def test_counts_of_another_window_are_not_used_for_the_cause():
    older = {"rule": "cusum", "value": 11.99, "threshold": 11.99, "sample": 8}
    assert explain(older, Counts(calls=3, failed=1)) == "more calls failed than a healthy tool's do"


@table(
    ("share", "shown"),
    [(0.5, "50 %"), (0.4999999, "49.99 %"), (1.0, "100 %"), (0.99999, "99.99 %"), (0.57, "57 %"), (0.29, "29 %"),
     (1 / 3, "33.33 %"), (0.0, "0 %"), (0.123, "12.3 %")],
)  # fmt: skip
def test_percentages_are_rounded_down(share, shown):
    assert percent(share) == shown


def test_every_whole_percentage_is_shown_as_it_is():
    assert [percent(number / 100) for number in range(101)] == [f"{number} %" for number in range(101)]


@pytest.mark.deep
@table("tolerable", [0.001, 0.05, 0.1, 0.3])
@table("broken", [0.35, 0.5, 0.9])
@table("calls", [1_000, 54_321.5, 1_000_000])
def test_a_healthy_tool_opens_less_often_than_the_sentence_says(tolerable, broken, calls):
    rule = Cusum(tolerable_failure_rate=tolerable, broken_failure_rate=broken, calls_between_false_opens=calls)
    detector = solve(rule)
    h = detector.height * detector.unit
    said = explain(
        Cause(
            rule="cusum", value=h, threshold=h, sample=8, failed=8, tolerable_failure_rate=tolerable, calls_between_false_opens=calls
        )
    )  # fmt: skip
    claimed = int(said.rpartition("once in ")[2].removesuffix(" calls").replace(",", ""))
    assert run_length(detector, tolerable) >= claimed >= calls - 1
    assert run_length(detector, tolerable / 2) > run_length(detector, tolerable), (
        "healthier tools open more seldom still"
    )


@pytest.mark.slow
def test_explain_does_not_import_pydantic():
    code = "import sys; import switchgear_schemas.explain; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_documented_example_prints_what_the_page_says(capsys):
    (code,) = [each for each in snippets("docs/breaker.md", "python") if "explain(" in each]
    exec(compile(code, "docs/breaker.md", "exec"), {})
    assert capsys.readouterr().out in snippets("docs/breaker.md", "output")
