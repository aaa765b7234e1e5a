"""What each test file costs in processor time, its child processes included: a pytest plugin.

The end of a run names the ten dearest files. ``--costs=FILE`` adds the cost of every test to a file, as JSON. A child process counts in the test that
waits for its end; one that lives longer, such as a shared broker, counts where it is stopped.
"""

from __future__ import annotations

import json
import resource
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

_SHOWN: Final = 10
_elsewhere = 0.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", metavar="FILE", help="add the processor time of each test to FILE, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Costs(config))


def spent() -> float:
    """Return the processor time of this process and of its children that have ended, in seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime + _elsewhere


def add(seconds: float) -> None:
    """Count the processor time of a process that this one did not start."""
    global _elsewhere  # noqa: PLW0603 - one sum a process
    _elsewhere += seconds


class _Costs:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._before = spent()
        self._began = time.monotonic()
        self._by_test: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = spent()
        report.__dict__["cost"] = now - self._before  # pytest-xdist sends a report's own attributes along
        self._before = now
        return report

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._before = spent()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._by_test[report.nodeid] += getattr(report, "cost", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        by_file: Counter[str] = Counter()
        for test, cost in self._by_test.items():
            by_file[test.partition("::")[0]] += cost
        if not by_file:
            return
        terminalreporter.section("processor time")
        took = time.monotonic() - self._began
        terminalreporter.write_line(f"{sum(by_file.values()):8.1f} s in all tests, in {took:.1f} s of time")
        for name, cost in by_file.most_common(_SHOWN):
            terminalreporter.write_line(f"{cost:8.1f} s {name}")
        if target := self._config.getoption("--costs"):
            file = Path(target)  # the parts of `make test` have one file
            others = json.loads(file.read_text("utf-8")) if file.exists() else {}
            file.write_text(json.dumps(others | self._by_test, indent=0), "utf-8")
