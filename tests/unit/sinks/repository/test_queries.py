"""The SQL of the repositories."""

from datetime import UTC, datetime

import pytest

from switchgear_sinks.repository.queries import Conditions, microseconds

NAIVE = datetime(1970, 1, 1, 0, 0, 0, 1)  # noqa: DTZ001 - what a client without time zones gives


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (NAIVE, 1),
        (datetime(2099, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 4_102_444_799_999_999),
        (datetime(2000, 1, 1, 5, 30, tzinfo=datetime.strptime("+05:30", "%z").tzinfo), 946_684_800_000_000),
    ],
)
def test_microseconds_are_exact(moment, expected):
    assert microseconds(moment) == expected


def test_conditions_bind_every_value():
    where = Conditions("acme").equal("tool_name", "it's").equal("user_id", None).recorded(NAIVE, None)
    assert "it's" not in str(where)
    assert where.parameters == {"tenant": "acme", "tool_name": "it's", "since": 1}
    assert str(where).startswith("WHERE tenant = {tenant:String} AND tool_name = {tool_name:String} AND recorded_at >=")
    assert str(Conditions(None)) == ""
