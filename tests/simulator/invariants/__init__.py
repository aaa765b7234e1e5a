"""What must hold at every moment."""
