"""Fixtures that every test may ask for."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import hypothesis
import pytest
import structlog

from switchgear.runtime.background_thread import Background
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from tests.support.java_cache import use_java_cache
from tests.support.kafka import RunningKafka, running_kafka
from tests.support.secured import SecuredKafka, secured_kafka
from tests.support.shared import shared_folder

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's "&" has its jobs ignore Ctrl-C, and so would every command that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

use_java_cache()

# An example has no time limit: a machine that stalls for a second must not fail a property.
hypothesis.settings.register_profile(
    "switchgear", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("switchgear")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own SWITCHGEAR_* variables must not change what a test sees."""
    for name in list(os.environ):
        if name.startswith("SWITCHGEAR_") and not name.startswith("SWITCHGEAR_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("COLUMNS", raising=False)  # the width of a developer's terminal, or of the test runner's


@pytest.fixture(scope="session", autouse=True)
def _state_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A running `switchgear up` of a test is recorded here, and not in the developer's own folder."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def _no_system_from_outside(_state_of_this_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `switchgear up` of the developer, or of another test, must not be found."""
    monkeypatch.setenv("XDG_STATE_HOME", str(_state_of_this_run / uuid4().hex))


@pytest.fixture(autouse=True)
def _no_client_left_open() -> Iterator[None]:
    """Fail a test that leaves a client open: it would connect, and draw from ``random``, during the tests after it."""
    before = _clients()
    yield
    left = _clients() - before
    for client in left:
        client.close(5)
    assert not left, f"{len(left)} Switchgear clients or emitters were left open: close them"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """A command that a test runs in this process configures logging; the next test finds it as it was."""
    configured = structlog.get_config()
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {logger: logger.level for logger in _named_loggers()}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for logger in _named_loggers():
        level = levels.get(logger, logging.NOTSET)
        if logger.level != level:  # setLevel() goes through all loggers
            logger.setLevel(level)
    structlog.configure(**configured)


def _named_loggers() -> list[logging.Logger]:
    return [found for found in logging.Logger.manager.loggerDict.values() if isinstance(found, logging.Logger)]


@pytest.fixture(scope="session")
def kafka() -> Iterator[RunningKafka]:
    """A real broker, one for the whole run; started at first use, stopped and removed at the end."""
    with running_kafka() as broker:
        yield broker


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with TLS, users and permissions, one for the whole run; started at first use."""
    with secured_kafka(tmp_path_factory.mktemp("secured")) as broker:
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


def _clients() -> set[Background]:
    return {each for each in list(_made) if each.alive}


def _never_keep_a_logger() -> None:
    """Let each log call look up the configuration: a kept logger would have that of a test that has ended."""
    really = structlog.configure

    @functools.wraps(really)
    def configure(*args: Any, **options: Any) -> None:
        really(*args, **options | {"cache_logger_on_first_use": False})

    structlog.configure = configure


def _record_each_background() -> None:
    really = Background.__init__

    @functools.wraps(really)
    def record(self: Background, *args: str, **kwargs: str) -> None:
        really(self, *args, **kwargs)
        _made.add(self)

    Background.__init__ = record  # type: ignore[method-assign]


_made: Final[weakref.WeakSet[Background]] = weakref.WeakSet()
_record_each_background()
_never_keep_a_logger()
