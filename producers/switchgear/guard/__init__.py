"""Decide about calls, make them, and report their outcomes."""
