"""The invariants that must hold at every moment."""
