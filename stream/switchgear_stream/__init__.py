"""The stream worker: it folds the executions of all processes into one circuit per tool. Only this package imports Faust."""
