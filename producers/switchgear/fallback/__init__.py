"""Fallback."""
