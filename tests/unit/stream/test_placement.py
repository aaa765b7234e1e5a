"""A worker refuses to work beside workers, or on rows, that place circuits in other partitions than it does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupCoordinatorNotAvailableError

from switchgear.fleet.rows import Placement, Row
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.settings import load_settings
from switchgear_stream import placement
from switchgear_stream.app import build_app
from switchgear_stream.placement import check_group, check_placed, protocol_name
from tests.support.table import table

SETTINGS = load_settings(topic_prefix="t.", topic_partitions=8)
OWN = protocol_name(SETTINGS.family_pattern)


def test_the_protocol_of_the_group_names_the_pattern_by_which_tools_are_placed():
    assert OWN == protocol_name(" mcp:*:*") == "switchgear-families-54e1a33c"
    assert protocol_name("") != OWN
    app, _, _ = build_app(SETTINGS)
    assert app.assignor.name == OWN
    assert build_app(load_settings(family_pattern=""))[0].assignor.name == protocol_name("")


class Admin:
    """Describes the group by a code, a state, a protocol and a number of members, or raises an error."""

    def __init__(self, answer: tuple[int, str, str, int] | Exception) -> None:
        self.answer = answer
        self.closed = False

    async def start(self) -> None: ...

    async def close(self) -> None:
        self.closed = True

    async def describe_consumer_groups(self, groups: list[str]) -> Any:
        assert groups == [SETTINGS.topics.worker_group]
        if isinstance(self.answer, Exception):
            raise self.answer
        code, state, protocol, members = self.answer
        return [SimpleNamespace(groups=[(code, groups[0], state, "consumer", protocol, [()] * members, 0)])]


@pytest.mark.parametrize(
    "answer",
    [
        (0, "Dead", "", 0),
        (0, "Empty", "", 0),
        (0, "Empty", protocol_name(""), 0),
        (0, "Stable", OWN, 2),
        (0, "PreparingRebalance", "", 1),
        (15, "", "", 0),
        GroupCoordinatorNotAvailableError(),
    ],
    ids=str,
)
async def test_a_group_without_workers_of_another_pattern_may_be_joined(monkeypatch, answer):
    admin = Admin(answer)
    monkeypatch.setattr(placement, "AIOKafkaAdminClient", lambda **_: admin)
    await check_group(SETTINGS)
    assert admin.closed


async def test_a_worker_refuses_to_join_workers_with_another_pattern_and_says_what_to_do(monkeypatch):
    admin = Admin((0, "Stable", protocol_name("db:*"), 1))
    monkeypatch.setattr(placement, "AIOKafkaAdminClient", lambda **_: admin)
    with pytest.raises(SettingsError) as refused:
        await check_group(SETTINGS)
    assert "another family_pattern than 'mcp:*:*' run in the group t.worker" in refused.value.message
    assert "stop all workers first: docs/howto/recovery.md" in refused.value.hint
    assert admin.closed


def _placed(partitions: int = 8, pattern: str = "mcp:*:*") -> tuple[bytes, bytes]:
    row = Placement(partition=2, pattern=pattern, partitions=partitions)
    return row.key, row.encode()


def test_a_number_of_partitions_that_circuits_are_not_kept_in_is_refused_with_the_right_one():
    with pytest.raises(SettingsError) as refused:
        check_placed(*_placed(partitions=4), SETTINGS)
    assert "are kept in 4 partitions, and topic_partitions is 8" in refused.value.message
    assert "Set SWITCHGEAR_TOPIC_PARTITIONS=4." in refused.value.hint


def test_a_pattern_by_which_circuits_are_not_placed_is_refused_with_the_right_one():
    with pytest.raises(SettingsError) as refused:
        check_placed(*_placed(), SETTINGS.model_copy(update={"family_pattern": ""}))
    assert "are placed by the family_pattern 'mcp:*:*', and this worker's is ''" in refused.value.message
    assert refused.value.hint.startswith("Set SWITCHGEAR_FAMILY_PATTERN='mcp:*:*'. docs/howto/recovery.md")


def test_another_spelling_of_the_same_pattern_is_accepted():
    assert check_placed(*_placed(), SETTINGS.model_copy(update={"family_pattern": " mcp:*:* "}))


@table(
    ("key", "value"),
    [
        (_placed()[0], None),
        (_placed()[0], b"damaged"),
        (b"search", Row(circuit_id="search", tool_name="search").encode()),
    ],
)
def test_other_rows_say_nothing_about_the_placement(key: bytes, value: bytes | None):
    assert not check_placed(key, value, SETTINGS)
