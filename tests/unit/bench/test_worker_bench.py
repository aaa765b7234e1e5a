"""The table of the worker's bench."""

from __future__ import annotations

from tests.bench.worker_bench import OURS, Result, lines


def result(contender, speed, cpu):
    return Result(contender, 1_000, 1.0, speed, cpu)


def test_each_contender_has_a_row_with_its_ratio_to_ours_by_round():
    found = [
        result(OURS, 100.0, 10.0), result("slow", 50.0, 40.0),
        result(OURS, 120.0, 12.0), result("slow", 30.0, 12.0),
    ]  # fmt: skip
    ours, slow = list(lines(found))[2:]
    assert ours == f"| {OURS} | 110 (100 to 120) | 11 (10 to 12) |  |  |"
    assert slow == "| slow | 40 (30 to 50) | 26 (12 to 40) | 3x (2 to 4) | 2.5x (1 to 4) |"
