"""Threads, forks and the lifetime of a client."""
