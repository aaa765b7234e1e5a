"""Operator commands: what is told, how it is sent, and how it is seen to have been applied."""
