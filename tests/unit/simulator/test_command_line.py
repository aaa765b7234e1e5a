import os
import re
import subprocess
import sys

import pytest

from tests.simulator.__main__ import main
from tests.simulator.scenario import Scenario
from tests.support.limits import READY_S

pytestmark = pytest.mark.slow

SMALL = ["--processes", "10", "--tools", "5", "--hours", "0.05", "--calls-per-s", "4"]
NAMES = [
    "at-most-n-probes",
    "no-call-while-open",
    "versions-rise",
    "opens-with-evidence",
    "counted-once",
    "recovered-closes",
    "server-recovers-at-once",
    "monotonic-ramp",
    "rebuild-agrees",
    "views-converge",
    "two-runs-agree",
    "healthy-stays-closed",
    "kept-pace",
]


@pytest.mark.deep
def test_the_command_prints_one_line_per_invariant(capsys):
    assert main([*SMALL, "--seed", "3", "--healthy-hours", "0.02", "--paced-hours", "0.01"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("seed 3: 10 processes, 5 tools, 1 servers, 0.05 h;")
    assert [re.split(r": (?:held|not tested) \(", line.strip())[0] for line in printed.splitlines()[2:]] == NAMES


def test_several_runs_use_the_following_seeds(capsys):
    assert main([*SMALL, "--seed", "7", "--runs", "3", "--once", "--healthy-hours", "0", "--paced-hours", "0"]) == 0
    printed = capsys.readouterr().out
    assert [line.split(":")[0] for line in printed.splitlines() if line.startswith("seed")] == [
        "seed 7",
        "seed 8",
        "seed 9",
    ]
    assert "two-runs-agree" not in printed


def test_a_broken_invariant_ends_the_command_with_the_history_and_the_command_to_repeat_it(capsys, monkeypatch):
    monkeypatch.setattr("switchgear.fleet.circuit.LiveCircuit.differs_from_record", lambda _: False)
    monkeypatch.setattr("switchgear.breaker.half_open.HalfOpen.room", lambda *_: 2)
    arguments = ["--processes", "10", "--tools", "2", "--hours", "1", "--calls-per-s", "10"]
    assert main([*arguments, "--seed", "1", "--runs", "5", "--once", "--healthy-hours", "0", "--paced-hours", "0"]) == 1
    printed = capsys.readouterr().out
    assert "at-most-n-probes: BROKEN at" in printed or "server-recovers-at-once: BROKEN at" in printed
    assert "lease" in printed
    assert "Again: python -m tests.simulator --seed" in printed


def test_the_command_to_repeat_a_run_has_only_the_arguments_that_differ_from_the_default():
    assert Scenario(seed=1).arguments() == "--seed 1"
    assert Scenario(seed=9, processes=5, skew_s=1.5).arguments() == "--seed 9 --processes 5 --skew-s 1.5"


@pytest.mark.deep
def test_a_run_does_not_depend_on_the_order_of_hashes():
    code = """
from tests.simulator.scenario import Scenario
from tests.simulator.simulation import Simulation
print(Simulation(Scenario(seed=4, processes=10, tools=6, hours=0.05, calls_per_s=6)).run().digest())
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            timeout=READY_S,
            env={**os.environ, "PYTHONHASHSEED": number},
        ).stdout
        for number in ("1", "7")
    }
    assert len(found) == 1
