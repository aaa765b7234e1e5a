"""A short run of the whole: one broker, real processes, and a fixed seed. ``make chaos`` runs for ``SECONDS``."""

import psutil
import pytest

from tests.chaos.faults.all_kinds import KINDS
from tests.chaos.run import Run

pytestmark = pytest.mark.deep

SEED = 1426
SECONDS = 36
POISON = tuple(name for name in KINDS if name.startswith("poison-"))
STRUCK = (
    *("worker-kill", "worker-end", "sink-kill", "sink-end", "emitter-kill", "emitter-end", "broker-kill"),
    *("net-cut-worker", "net-cut-sink", "net-slow-client", "clickhouse-refuses", "clickhouse-gone"),
    *("gateway-kill", "gateway-sleep", "net-cut-gateway"),
    *("input-again", "input-misdirected", "input-junk", "input-late", "clock-off"),
    *POISON,
)


@pytest.mark.timeout(420)
async def test_every_promise_holds_through_half_a_minute_of_faults(capsys):
    before = children()
    run = Run(
        SEED,
        SECONDS,
        brokers=1,
        rate=400,
        kinds={name: KINDS[name] for name in STRUCK},
        mean_gap_s=1.5,
        say=shown(capsys),
    )
    report = await run.go()
    assert report.held, f"seed {SEED}: {[str(result) for result in report.results if not result.held]}, {report.faults}"
    assert len(report.results) == 7
    assert not any("servers opened 0 times" in result.summary for result in report.results)
    assert report.done.total() >= 12
    assert set(POISON) <= report.done.keys()
    assert report.executions > 2_000
    assert children() == before


def shown(capsys):
    """Print past pytest: a run that hangs has said how far it came."""

    def say(line):
        with capsys.disabled():
            print(f"\n{line}", end="", flush=True)

    return say


def children():
    """Processes whose parent this one is, apart from the one that forks commands for all tests."""
    return {child.pid for child in psutil.Process().children() if "tests.support.warm" not in child.cmdline()}
