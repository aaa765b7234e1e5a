"""Every adapter passes the suite with its framework, and the documentation's table says so."""

from __future__ import annotations

import subprocess
import tomllib

import pytest
from uv import find_uv_bin

from tests.frameworks.environments import (
    ADAPTERS,
    ENVIRONMENTS,
    EVERYWHERE,
    HERE,
    NEWEST,
    ROOT,
    joined,
    rows,
    run,
    shown_rows,
)
from tests.support.limits import FACTOR

pytestmark = pytest.mark.deep
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("environment", [each for each in NEWEST if not each.key], ids=lambda each: each.title)
def test_adapter_passes_the_suite_and_its_own_tests(environment, tmp_path):
    found = run(environment, tmp_path)
    assert not found.failures, found.output
    assert set(rows(environment, found)) <= set(shown_rows())


def test_the_documentation_has_one_row_for_versions_with_the_same_results():
    shown = shown_rows()
    assert len(joined(shown)) < len(shown)
    assert joined(joined(shown)) == joined(shown)


def test_every_test_of_an_adapter_runs_in_an_environment():
    run_somewhere = {name for each in NEWEST for name in each.tests} | set(EVERYWHERE)
    assert {path.name for path in HERE.glob("test_*.py")} - {
        "test_adapters.py",
        "test_mcp_proxy_runs.py",
    } == run_somewhere


def extra_of(module: str) -> str | None:
    """The extra of an adapter: ``mcp`` of ``mcp_client``."""
    name = module.replace("_", "-")
    return next((each for each in (name, name.rpartition("-")[0]) if each in EXTRAS), None)


def test_every_adapter_has_an_extra_a_page_an_example_and_two_tested_versions():
    for module in (ROOT / "producers" / "switchgear" / "integrations").glob("*.py"):
        # These are not adapters of a framework.
        if module.stem in {"__init__", "claude_code", "mcp_results", "tool_calls", "turns"}:
            continue
        assert extra_of(module.stem), module.stem
        assert (ROOT / "docs" / "integrations" / f"{module.stem.replace('_', '-')}.md").exists(), module.stem
        assert list((ROOT / "examples").glob(f"{module.stem}*.py")), module.stem
        versions = [each for each in ENVIRONMENTS if f"test_{module.stem}.py" in each.tests]
        assert {each.older for each in versions} == {True, False}, module.stem


FRAMEWORKS = ({each.name for each in NEWEST} | {"pydantic-ai"}) - {"mcp"}
"""MCP's SDK is left out: FastMCP is built on it."""


@pytest.mark.parametrize("extra", sorted({extra for name in ADAPTERS if (extra := extra_of(name))}))
def test_extra_installs_no_other_framework(extra):
    found = subprocess.run(
        [find_uv_bin(), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--extra", extra, str(ROOT / "pyproject.toml")],
        capture_output=True,
        text=True,
        timeout=120 * FACTOR,
        check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    names = {line.partition("==")[0].partition("[")[0] for line in found.stdout.splitlines()}
    assert "aiokafka" in names
    assert len(names & FRAMEWORKS) <= 1, names & FRAMEWORKS
