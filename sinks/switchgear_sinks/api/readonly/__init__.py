"""SQL from outside, read only: a syntax gate on ClickHouse's own parser, then a session that ClickHouse holds to reading."""

from switchgear_sinks.api.readonly.failures import SqlFailedError, SqlLimitError, SqlRefusedError
from switchgear_sinks.api.readonly.runner import ReadOnlySql, SqlResult

__all__ = ["ReadOnlySql", "SqlFailedError", "SqlLimitError", "SqlRefusedError", "SqlResult"]
