"""Policies by tool name: how they are loaded, which one wins, and where each value comes from."""

from __future__ import annotations

from switchgear.policies.errors import PolicyError
from switchgear.policies.policy_set import Explanation, PolicySet

__all__ = ["Explanation", "PolicyError", "PolicySet"]
