"""Choose what to call when a circuit refuses a call."""
