"""How soon a fleet of processes refuses a broken tool, what it wastes until then, and how it finds out that the tool is back."""
