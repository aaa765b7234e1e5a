"""Fixtures that every test may ask for."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import re
import signal
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import hypothesis
import pytest
import structlog
from aiokafka.admin import AIOKafkaAdminClient

from switchgear.runtime.background_thread import Background
from switchgear_cli.topics import ensure_topics
from switchgear_schemas.settings import Settings
from tests.support.java_cache import use_java_cache
from tests.support.kafka import RunningKafka, begin_run, end_run, shared_kafka
from tests.support.limits import scale_time_limits
from tests.support.secured import SecuredKafka, secured_kafka
from tests.support.shared import shared_folder

_MANY: Final = 12
_UNTOUCHED: Final = (logging.NOTSET, True, ())
_LEFT_OUT: Final = re.compile(r"\bnot (\w+)")
_FILE_MARKERS: Final = re.compile(r"^pytestmark = .*?\bmark\.(slow|deep)\b", re.MULTILINE)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's "&" has its jobs ignore Ctrl-C, and so would every command that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

use_java_cache()

# An example has no time limit: a machine that stalls for a second must not fail a property.
_PROFILE: Final[dict[str, Any]] = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("quick", max_examples=20, stateful_step_count=25, database=None, **_PROFILE)
hypothesis.settings.register_profile("deep", max_examples=100, stateful_step_count=50, **_PROFILE)


def pytest_configure(config: pytest.Config) -> None:
    """Begin the run, and choose how deep properties are tried: ``-m "not deep"`` is quick."""
    deep = "not deep" not in config.getoption("markexpr")
    hypothesis.settings.load_profile("deep" if deep else "quick")
    if not hasattr(config, "workerinput"):
        begin_run()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Don't import a file whose tests all have a marker that this run leaves out."""
    if collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    left_out = set(_LEFT_OUT.findall(config.getoption("markexpr")))
    return True if left_out & set(_FILE_MARKERS.findall(collection_path.read_text("utf-8"))) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow machines more time."""
    scale_time_limits(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection, which would go through all modules again and again, then and during the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what the test processes of this run shared."""
    if not hasattr(config, "workerinput"):
        end_run()


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
    before = {logger: _setup_of(logger) for logger in _named_loggers()}
    yield
    root.handlers[:] = handlers
    if root.level != level:  # setLevel() goes through all loggers
        root.setLevel(level)
    for logger in _named_loggers():
        if (was := before.get(logger, _UNTOUCHED)) != _setup_of(logger):
            logger.setLevel(was[0])
            logger.propagate = was[1]
            logger.handlers[:] = was[2]
    structlog.configure(**configured)


def _setup_of(logger: logging.Logger) -> tuple[int, bool, tuple[logging.Handler, ...]]:
    return logger.level, logger.propagate, tuple(logger.handlers)


def _named_loggers() -> list[logging.Logger]:
    return [found for found in logging.Logger.manager.loggerDict.values() if isinstance(found, logging.Logger)]


@pytest.fixture(scope="session")
def kafka() -> RunningKafka:
    """A real broker, one for all processes of the run; started at first use. A test that stops or breaks a broker has its own."""
    return shared_kafka()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with TLS, users and permissions, one for the whole run; started at first use."""
    with secured_kafka(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def make_settings(kafka: RunningKafka, _done: list[Settings]) -> Iterator[Callable[..., Settings]]:
    """``make_settings(**overrides)``: settings with a topic prefix of their own, whose topics exist."""
    made: list[Settings] = []

    def make(**overrides: Any) -> Settings:
        settings = kafka.settings(**overrides)
        _run(ensure_topics(settings))
        made.append(settings)
        return settings

    yield make
    _done.extend(made)
    if len(_done) >= _MANY:
        _run(_remove_topics(kafka, {settings.topic_prefix for settings in _done}))
        _done.clear()


@pytest.fixture(scope="session")
def _done() -> list[Settings]:
    """Settings of tests that have ended, whose topics are still there."""
    return []


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    """Settings of this test alone: its own topic prefix, 4 partitions, topics ready."""
    return make_settings()


@pytest.fixture
def shared() -> Path:
    """The folder ``shared`` beside the repository."""
    return shared_folder()


async def _remove_topics(kafka: RunningKafka, prefixes: set[str]) -> None:
    """Delete the topics with one of these prefixes: thousands of partitions would slow the broker down."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    try:
        await admin.delete_topics(
            [name for name in await admin.list_topics() if name.partition(".")[0] + "." in prefixes]
        )
    finally:
        await admin.close()


def _run(work: Coroutine[Any, Any, object]) -> None:
    """Run ``work`` in a thread with an event loop of its own: the test may be running in one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


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
