from __future__ import annotations

import itertools

import pytest

from switchgear_schemas.settings import Settings
from switchgear_stream.publisher import Publisher
from tests.support.processes import Child, switchgear


@pytest.fixture
def start_worker(tmp_path):
    """Return ``start_worker(settings, …options)``, which starts a worker and waits until it is ready. All workers end with the test."""
    started: list[Child] = []
    numbers = itertools.count()

    def start(settings: Settings, *options: str, wait: bool = True) -> Child:
        child = switchgear("worker", *options, log=tmp_path / f"worker-{next(numbers)}.log", settings=settings)
        started.append(child)
        if wait:
            child.wait_for_output("ready  ")
        return child

    yield start
    for child in started:
        child.__exit__()


@pytest.fixture
async def publisher(settings):
    """A publisher on this test's topics, started and stopped with the test."""
    made = Publisher(settings)
    await made.start()
    yield made
    await made.stop()
