"""Turn a proposal into the commands that set it live."""

from __future__ import annotations

from switchgear_cli.operate.policy_values import policy_from
from switchgear_cli.tune.candidates import Proposal
from switchgear_schemas.policy import BreakerPolicy


def live_policies(proposal: Proposal, glob: str) -> dict[str, BreakerPolicy]:
    """Return the values to set for each name or glob. Those of ``glob`` put its circuits into metrics-only mode.

    Args:
        proposal: What the search proposes.
        glob: Name or glob that the proposal is for.
    """
    return {
        name: policy_from([*proposal.assignments(name), *(["mode=metrics_only"] if name == glob else [])], None)
        for name in proposal.tables
    }
