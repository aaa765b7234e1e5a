"""Alerts: messages to people and other systems when circuits open and close."""
