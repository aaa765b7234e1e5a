"""Records that are not circuits change nothing for a follower, and add one line to its log."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition

from switchgear.follower.follower import CircuitFollower


@pytest.mark.slow
def test_ten_thousand_records_that_are_not_circuits_are_counted_and_take_one_line_of_the_log(caplog):
    follower = CircuitFollower("127.0.0.1:1", topic_prefix="t.")
    records = [
        SimpleNamespace(partition=0, offset=number, key=b"\xff", value=b"[" * 1_000, timestamp=-1)
        for number in range(10_000)
    ]
    with caplog.at_level(logging.WARNING, "switchgear.follower"):
        follower._take({TopicPartition("t.circuits", 0): records}, follower.table, {}, prompt=False)
    assert follower.status().malformed == 10_000
    assert len(caplog.records) == 1
    assert "10000 records of t.circuits are skipped" in caplog.text
