"""A record that makes the fold fail is left out alone, whatever the failure, and what the others did is as if it had never been."""

from __future__ import annotations

import pytest

from switchgear.fleet import Changes, FleetFold, Message
from switchgear_schemas.partitioner import owner_partition
from switchgear_stream.folding import fold_all
from tests.support.fleet import COMMANDS, EXECUTIONS, START_MS, OnePolicy, event

BAD = "bad-tool"


class Policies(OnePolicy):
    """A fold that fails for one tool, as an unknown bug would make it fail."""

    error: BaseException = OverflowError("an unforeseen error")

    def effective(self, tool_name: str):
        if tool_name.startswith(BAD):
            raise self.error
        return super().effective(tool_name)


class Table:
    """The rows, and a fold on them."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.policies = Policies()
        self.fold = FleetFold(self.rows, self.policies, partitions=4, late_after_s=300)

    def run(self, *records: Message) -> tuple[Changes, int]:
        executions = [record for record in records if record.topic == EXECUTIONS]
        commands = [record for record in records if record.topic == COMMANDS]
        return fold_all(self.fold, [(self.fold.executions, executions), (self.fold.commands, commands)], self.store)

    def store(self, changes: Changes) -> None:
        for key, (_, value) in changes.rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value


def said(offset: int, tool_name: str = "search", status: str = "error", **fields) -> Message:
    partition = owner_partition(tool_name, 4)
    value = event(tool_name, status, **fields)
    return Message(EXECUTIONS, partition, offset, START_MS + offset, b"k", value)


def test_a_record_that_makes_the_fold_fail_is_a_dead_letter_and_the_others_count():
    table = Table()
    changes, unforeseen = table.run(said(0), said(1, BAD), said(2), said(3, BAD), said(4))
    assert unforeseen == 2
    assert [letter.offset for letter in changes.dead] == [1, 3]
    assert "could not fold it (OverflowError)" in changes.dead[0].reason
    assert (changes.folded, [found.state for found in changes.circuits]) == (3, ["open"])
    assert set(table.rows) == set(changes.rows) == {b"search"}


def test_rows_are_the_same_with_and_without_the_records_that_fail():
    good = [said(number, f"t{number % 5}", session_id=f"s{number % 3}") for number in range(60)]
    clean, poisoned = Table(), Table()
    wanted, none = clean.run(*good)
    mixed = [record for number, one in enumerate(good) for record in (one, said(1_000 + number, f"{BAD}-{number}"))]
    found, sixty = poisoned.run(*mixed)
    assert (none, sixty) == (0, 60)
    assert poisoned.rows == clean.rows
    assert found.circuits == wanted.circuits
    again, _ = poisoned.run(*good)
    assert again.duplicates == 60, "the fences are in the rows"


def test_a_record_that_fails_halfway_leaves_the_state_of_its_tool_unchanged(monkeypatch):
    table = Table()
    table.run(said(0), said(1))
    before = dict(table.rows)
    monkeypatch.setattr("switchgear.fleet.fold.describe_error", lambda *_: 1 / 0)
    changes, unforeseen = table.run(said(2), said(3, status="success"))
    assert (unforeseen, [letter.offset for letter in changes.dead]) == (1, [2])
    monkeypatch.undo()
    clean = Table()
    clean.rows.update(before)
    clean.run(said(3, status="success"))
    assert table.rows == clean.rows


@pytest.mark.slow
def test_names_that_only_a_failed_record_has_are_not_kept():
    table = Table()
    table.run(said(0))
    for number in range(5):
        table.run(said(number, f"{BAD}-{number}"))
    tools = {name for partition in range(4) for name in table.fold.registry.tools_of(partition)}
    assert tools == {"search"}


@pytest.mark.slow
def test_ten_thousand_failing_records_take_one_log_line_and_linear_time(caplog):
    table = Table()
    table.run(*(said(number, f"t{number}") for number in range(1_000)))
    changes, unforeseen = table.run(*(said(number, f"{BAD}-{number}") for number in range(10_000)), said(99_999))
    assert (unforeseen, changes.folded) == (10_000, 1)
    assert len(caplog.records) <= 1


def test_a_memory_error_is_raised_and_no_message_is_called_bad():
    table = Table()
    table.policies.error = MemoryError()
    with pytest.raises(MemoryError):
        table.run(said(0, BAD))
