"""A fleet in one process under faults, with a recount of every promise."""
