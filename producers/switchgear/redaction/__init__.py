"""Redaction."""
