"""Whose SQL may run on a server: decided on the lines of SHOW GRANTS."""

import pytest

from switchgear_api.readonly.server_user import too_much
from tests.support.table import table

READER = ["GRANT SELECT ON switchgear.* TO switchgear_reader"]


@table(
    "grants",
    [
        READER,
        [],
        ["GRANT SHOW TABLES, SHOW COLUMNS, SELECT ON switchgear.* TO switchgear_reader"],
        ["GRANT SELECT(tool_name, status) ON switchgear.tool_metrics TO `switchgear-reader`"],
        ["GRANT SELECT ON `switchgear`.`tool_metrics` TO r", "GRANT SELECT ON system.parts TO r"],
        [*READER, "REVOKE SELECT ON switchgear.circuit_transitions FROM switchgear_reader"],
        [*READER, "GRANT readers, `all-readers` TO switchgear_reader"],  # FINAL lists the rights of roles beside them
    ],
)
def test_a_user_who_may_only_read_the_store_may_run_sql(grants):
    assert too_much(grants, "2", "switchgear") is None


@table(
    "grant",
    [
        "GRANT ALL ON *.* TO r WITH GRANT OPTION",
        "GRANT ALL ON switchgear.* TO r",
        "GRANT SELECT ON *.* TO r",
        "GRANT SELECT ON other.* TO r",
        "GRANT SELECT ON system.* TO r",
        "GRANT SELECT ON system.users TO r",
        "GRANT SELECT ON switchgear.* TO r WITH GRANT OPTION",
        "GRANT SELECT, INSERT ON switchgear.* TO r",
        "GRANT SELECT, INSERT(a) ON switchgear.* TO r",
        "GRANT SELECT(a), ALTER UPDATE(a) ON switchgear.tool_metrics TO r",
        "GRANT dictGet ON switchgear.* TO r",
        "GRANT FILE ON *.* TO r",
        "GRANT READ ON FILE TO r",
        "GRANT READ, WRITE ON S3('s3://bucket/.*') TO r",
        "GRANT SOURCES ON *.* TO r",
        "GRANT URL, REMOTE, S3 ON *.* TO r",
        "GRANT TABLE ENGINE ON * TO r",
        "GRANT CREATE TEMPORARY TABLE ON *.* TO r",
        "GRANT SELECT ON `switchgear`.* TO r, other",
        "GRANT IMPERSONATE ON admin TO r",
        "an unknown right",
    ],
)
def test_a_right_that_is_not_known_to_be_harmless_refuses_the_user(grant):
    assert grant in (too_much([*READER, grant], "2", "switchgear") or "")


@pytest.mark.parametrize("readonly", ["0", "1", ""])
def test_user_who_may_write_or_cannot_be_limited_is_refused(readonly):
    assert "readonly" in (too_much(READER, readonly, "switchgear") or "")
