"""Run SQL of readers: a check of its syntax tree by ClickHouse's own parser, then a session that ClickHouse limits to reading."""

from switchgear_api.readonly.errors import SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_api.readonly.runner import ReadOnlySql, SqlResult

__all__ = ["ReadOnlySql", "SqlFailedError", "SqlLimitError", "SqlRefusedError", "SqlResult"]
