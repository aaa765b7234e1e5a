"""A worker refuses rows that are kept in another number of partitions."""

from __future__ import annotations

import pytest

from switchgear.fleet.rows import Placement, Row
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.settings import load_settings
from switchgear_stream.moving import check_placed
from tests.support.table import table

SETTINGS = load_settings(topic_prefix="t.", topic_partitions=8)


def _placement(partitions: int) -> tuple[bytes, bytes]:
    row = Placement(partition=2, pattern="mcp:*:*", partitions=partitions)
    return row.key, row.encode()


def test_a_number_of_partitions_that_circuits_are_not_kept_in_is_refused_with_the_right_one():
    with pytest.raises(SettingsError) as refused:
        check_placed(*_placement(4), SETTINGS)
    assert "are kept in 4 partitions, and topic_partitions is 8" in refused.value.message
    assert "Set SWITCHGEAR_TOPIC_PARTITIONS=4." in refused.value.hint


@table(
    ("key", "value"),
    [
        _placement(8),
        _placement(0),
        (_placement(4)[0], None),
        (_placement(4)[0], b"damaged"),
        (b"search", Row(circuit_id="search", tool_name="search").encode()),
    ],
)
def test_other_rows_say_nothing_about_partitions(key: bytes, value: bytes | None):
    check_placed(key, value, SETTINGS)
