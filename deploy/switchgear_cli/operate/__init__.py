"""Operator commands: parse them, send them, and confirm that they were applied."""
