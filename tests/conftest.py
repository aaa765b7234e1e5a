"""Fixtures that every test may ask for."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from switchgear import background
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from tests.support.kafka import RunningKafka, running_kafka
from tests.support.shared import shared_folder

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's "&" has its jobs ignore Ctrl-C, and so would every command that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own SWITCHGEAR_* variables must not change what a test sees."""
    for name in list(os.environ):
        if name.startswith("SWITCHGEAR_") and not name.startswith("SWITCHGEAR_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _no_client_left_open() -> Iterator[None]:
    """A client that a test forgot goes on dialling its broker amid the tests after it (and draws from their ``random``)."""
    before = _clients()
    yield
    left = _clients() - before
    for client in left:
        client.close(5)
    assert not left, f"{len(left)} Switchgear clients or emitters were left open: close them"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A command that was run in this process logs to the standard error of its test, which is closed after it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def kafka() -> Iterator[RunningKafka]:
    """A real broker, one for the whole run; started at first use, stopped and removed at the end."""
    with running_kafka() as broker:
        yield broker


@pytest.fixture
def make_settings(kafka: RunningKafka) -> Callable[..., Settings]:
    """``make_settings(**overrides)``: settings with a topic prefix of their own, whose topics exist."""

    def make(**overrides: Any) -> Settings:
        settings = kafka.settings(**overrides)
        _run(settings)
        return settings

    return make


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    """Settings of this test alone: its own topic prefix, 4 partitions, topics ready."""
    return make_settings()


@pytest.fixture
def shared() -> Path:
    """The folder ``shared`` beside the repository."""
    return shared_folder()


def _run(settings: Settings) -> None:
    """``ensure_topics`` in a thread with an event loop of its own: the test may be running in one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, ensure_topics(settings)).result()


def _clients() -> set[background.Background]:
    return {each for each in list(background._every) if each.alive}
