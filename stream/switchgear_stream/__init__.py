"""The stream worker: one circuit a tool, folded from the fleet's executions. Faust is imported in this package alone."""
