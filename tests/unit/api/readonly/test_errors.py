"""What a reader is told about ClickHouse's errors. The texts are those of chDB 26.9."""

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from switchgear_api.readonly import SqlFailedError
from switchgear_api.readonly.errors import explain
from switchgear_schemas.errors import StoreUnavailableError

UNKNOWN_COLUMN = (
    "Code: 47. DB::Exception: Unknown expression identifier `nam` in scope SELECT nam FROM t. (UNKNOWN_IDENTIFIER)"
)
FAULTS = {
    "a missing file": DatabaseError(
        "Code: 1001. DB::Exception: std::__1::filesystem::filesystem_error: filesystem error: in file_size: "
        'No such file or directory ["/data/store/d73/202611_413_413_0/data.cmrk4"]. (STD_EXCEPTION)'
    ),
    "a bug": DatabaseError("Code: 49. DB::Exception: Bad cast from type A to B. (LOGICAL_ERROR)"),
    "no connection": OperationalError("Error HTTPConnectionPool(host='localhost', port=8123): Max retries exceeded"),
}


def test_error_of_a_query_says_where_to_find_the_names():
    error = explain(DatabaseError(UNKNOWN_COLUMN), parsing=False)
    assert isinstance(error, SqlFailedError)
    assert "SHOW TABLES" in error.hint


@pytest.mark.parametrize("name", FAULTS)
def test_fault_of_clickhouse_itself_does_not_blame_the_query(name):
    error = explain(FAULTS[name], parsing=False)
    assert isinstance(error, StoreUnavailableError)
    assert error.message.startswith("ClickHouse itself failed: ")
    assert error.hint == "Try again. The query is not the cause."
