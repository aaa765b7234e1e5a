"""Policies by tool name: loading, precedence, and where each value came from."""

from __future__ import annotations

from switchgear.policies.errors import PolicyError
from switchgear.policies.policy_set import Explanation, PolicySet

__all__ = ["Explanation", "PolicyError", "PolicySet"]
