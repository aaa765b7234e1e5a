from __future__ import annotations

import itertools

import pytest

from switchgear_schemas.settings import Settings
from tests.support.processes import Child, switchgear


@pytest.fixture
def start_worker(tmp_path):
    """``start_worker(settings, …options)``: a worker process that is ready; all of them end with the test."""
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
