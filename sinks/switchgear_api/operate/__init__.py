"""Commands of operators: sending them, their results, and what the workers know."""
