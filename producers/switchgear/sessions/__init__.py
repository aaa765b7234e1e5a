"""Group the calls of one agent run, with limits and circuits of its own."""
