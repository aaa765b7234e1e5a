"""The policies that a search draws, and how one becomes a policy file or commands."""

from __future__ import annotations

import pytest

from switchgear.policies import PolicySet
from switchgear_cli.tune.candidates import DEFAULT, PRESENT, Candidate, Proposal, draw, live_policies
from switchgear_schemas.policy import FLEET_DEFAULT, BreakerPolicy
from tests.support.table import table

ODD = BreakerPolicy(
    failure_count=30,
    failure_rate_threshold=0.5,
    half_open_decision="rate",
    sliding_window_panes=7,
    wait_duration_in_open_state_s=100,
    max_wait_duration_in_open_state_s=100,
    mode="metrics_only",
)
FAILURE_RULES = {"failure_rate_threshold", "consecutive_failures", "cusum"}


def drawn(seed=1, count=300, presents=(FLEET_DEFAULT,), *, failures=True, slowness=True):
    return draw(seed, count, presents, failures=failures, slowness=slowness)


def test_the_same_seed_draws_the_same_candidates_and_another_seed_others():
    assert drawn() == drawn()
    assert drawn(2) != drawn()
    assert drawn(count=10) == drawn()[:10]


@table("present", [FLEET_DEFAULT, BreakerPolicy(), ODD])
@table("failures", [True, False])
def test_every_candidate_is_a_possible_policy_over_the_present_one_and_enforces(present, failures):
    for candidate in [PRESENT, DEFAULT, *drawn(presents=[present], failures=failures)]:
        assert candidate.policy(present, 120.0).mode == "enforce"


def test_the_first_two_candidates_are_the_present_policy_and_the_default():
    assert PRESENT.policy(ODD, 120.0) == ODD.model_copy(update={"mode": "enforce"})
    assert DEFAULT.policy(BreakerPolicy(consecutive_failures=1), 120.0) == FLEET_DEFAULT


def test_rules_without_evidence_stay_as_they_are():
    for candidate in drawn(failures=False):
        assert not FAILURE_RULES & candidate.values.keys()
        assert candidate.policy(FLEET_DEFAULT, 50.0).cusum == FLEET_DEFAULT.cusum
    for candidate in drawn(slowness=False):
        assert candidate.policy(FLEET_DEFAULT, 50.0).slow_call_rate_threshold is None
        assert any(candidate.values[rule] is not None for rule in FAILURE_RULES)


def test_what_makes_a_call_slow_follows_the_tool():
    candidate = Candidate(slow_factor=2.0, slow_share=0.3)
    assert candidate.slow_values(61.7) == {"slow_call_duration_threshold_ms": 120, "slow_call_rate_threshold": 0.3}
    assert candidate.slow_values(float("inf")) == {}
    assert candidate.slow_values(0.0) == {}


SLOW_MS = {"mcp:a": 100.0, "mcp:b": 7.0, "mcp:rare": float("inf")}


@pytest.mark.parametrize("candidate", [DEFAULT, *drawn()[:12]])
def test_a_proposal_is_a_policy_file_that_gives_each_tool_the_policy_that_was_tried(candidate, tmp_path):
    path = tmp_path / "proposed.toml"
    path.write_text(Proposal.of(candidate, "mcp:*", SLOW_MS).toml("Made by a test.\nOf two lines."))
    loaded = PolicySet.load(path)
    for tool, slow_ms in SLOW_MS.items():
        assert loaded.effective(tool) == candidate.policy(FLEET_DEFAULT, slow_ms)
    assert loaded.effective("llm:c") == FLEET_DEFAULT


def test_a_proposal_for_one_tool_has_one_table(tmp_path):
    candidate = drawn()[0]
    proposal = Proposal.of(candidate, 'mcp:"a"', {'mcp:"a"': 100.0})
    path = tmp_path / "proposed.toml"
    path.write_text(proposal.toml())
    assert PolicySet.load(path).patterns == ('mcp:"a"',)
    assert PolicySet.load(path).effective('mcp:"a"') == candidate.policy(FLEET_DEFAULT, 100.0)


@table("candidate", [DEFAULT, *drawn()[:12]])
def test_set_live_a_proposal_names_the_same_values_in_metrics_only_mode(candidate):
    policies = live_policies(Proposal.of(candidate, "mcp:*", SLOW_MS), "mcp:*")
    common = policies["mcp:*"]
    assert common.mode == "metrics_only"
    tried = candidate.policy(FLEET_DEFAULT, float("inf"))
    assert all(getattr(common, key) == getattr(tried, key) for key in candidate.values)
    own = {name: policy.model_dump(exclude_unset=True) for name, policy in policies.items() if name != "mcp:*"}
    assert own == {tool: values for tool, slow in SLOW_MS.items() if (values := candidate.slow_values(slow))}
