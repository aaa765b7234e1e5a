"""Check a running system: each part by itself, with what was seen and what to do."""
