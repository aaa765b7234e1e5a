"""docs/howto/celery.md with a real prefork worker. The queue is an SQLite file, which needs no server."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from switchgear_schemas.settings import Settings
from tests.integration.howto.pages import command_of, events, start, statuses, until_events
from tests.support.limits import BUILD_S, HAPPEN_S, READY_S
from tests.support.processes import Child, environment
from tests.support.snippets import written

pytestmark = pytest.mark.deep

PAGE = "docs/howto/celery.md"
SEND = """
import sys
from tasks import forecast
for result in [forecast.delay(city) for city in sys.argv[1:]]:
    print("result:", result.get(timeout=90, propagate=False))
"""


class Queue:
    """The tasks of the page in a folder, with their workers and a sender of tasks."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder, self.settings = written(PAGE, folder), settings
        (folder / "results").mkdir()
        self.variables = {
            "CELERY_BROKER_URL": f"sqla+sqlite:///{folder}/queue.sqlite",
            "CELERY_RESULT_BACKEND": f"file://{folder}/results",
        }

    def change(self, old: str, new: str) -> None:
        """Replace ``old``, which must be there, in the code of the page."""
        code = (self.folder / "tasks.py").read_text()
        assert old in code
        (self.folder / "tasks.py").write_text(code.replace(old, new))

    @contextmanager
    def worker(self, *options: str) -> Iterator[Child]:
        """Start a worker with the command of the page, and wait until it is ready."""
        with start([*command_of(PAGE, "celery"), *options], self.folder, self.settings, **self.variables) as child:
            yield child.wait_for_output(" ready.")

    def send(self, *cities: str) -> Counter[str]:
        """Send tasks, and return how often each result came."""
        variables = environment(self.settings, self.variables)
        done = subprocess.run(
            [sys.executable, "-c", SEND, *cities], cwd=self.folder, env=variables, capture_output=True, text=True,
            timeout=BUILD_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return Counter(
            line.removeprefix("result: ") for line in done.stdout.splitlines() if line.startswith("result: ")
        )


@pytest.fixture
def queue(settings, tmp_path):
    return Queue(tmp_path, settings)


def test_celery_loses_no_event_when_each_task_ends_its_process(queue, settings):
    queue.change(", start_wait_s=2", f", exit_timeout={HAPPEN_S}")
    with queue.worker("--max-tasks-per-child", "1") as worker:
        assert queue.send(*["Oslo"] * 6) == {"sunny in Oslo": 6}
        # Celery may hang if it ends while a task's process does.
        until_events(settings, lambda found: len(found) == 6, HAPPEN_S)
        worker.terminate(READY_S)
    found = events(settings)
    assert Counter(event["status"] for event in found) == {"success": 6}
    assert {event["service"] for event in found} == {"forecasts"}
    assert len({event["emitter_id"] for event in found}) == 6, "six processes sent one each"


def test_refused_celery_task_returns_when_the_circuit_lets_it_through(queue, settings):
    quick = "BreakerPolicy(consecutive_failures=1, wait_duration_in_open_state_s=2)"
    queue.change("import CircuitOpenError,", "import BreakerPolicy, CircuitOpenError,")
    queue.change('service="forecasts"', f'service="forecasts", local_policies={quick}')
    with queue.worker() as worker:
        assert queue.send("Atlantis", "Atlantis", "Atlantis", "Atlantis")["the weather server is down"] >= 2
        answers = queue.send(*["Oslo"] * 4)
        assert answers == {"sunny in Oslo": 4}, worker.output()
        assert "RuntimeError('The tool mcp:weather:get_forecast is unavailable" in worker.output()
        worker.terminate(READY_S)
    assert statuses(settings)["success"] == 4
