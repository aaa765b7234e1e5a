import json

import pytest

from tests.bench import __main__ as benches
from tests.bench.targets import MISSED, exit_code


@pytest.fixture
def ended(monkeypatch, tmp_path):
    """Return the exit code of a run whose benches end with these codes."""

    def run(**codes):
        monkeypatch.setattr(benches, "present", lambda: {name: benches.Bench(name) for name in codes})
        monkeypatch.setattr(benches, "run", lambda name, _bench, _out: benches.Outcome(2.0, codes[name]))
        return benches.main(["--out", str(tmp_path)])

    return run


def test_a_missed_target_is_named_and_no_failure(ended, capsys):
    assert ended(fast=0, slow=MISSED, absent=None) == 0
    assert capsys.readouterr().out.endswith(" Not run: absent. Missed a target: slow.\n")


def test_a_bench_that_could_not_measure_fails_the_run_and_the_times_are_kept(ended, capsys, tmp_path):
    assert ended(broken=1, slow=MISSED) == 1
    assert capsys.readouterr().out.endswith(" Missed a target: slow. Failed: broken.\n")
    assert json.loads((tmp_path / "run.json").read_text())["seconds"] == {"broken": 2.0, "slow": 2.0}


def test_a_target_decides_the_exit_code():
    assert (exit_code(met=True), exit_code(met=False)) == (0, MISSED)
