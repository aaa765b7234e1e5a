"""The frameworks whose adapters are tested, each in an environment of its own: their requirements exclude one another.

python -m tests.frameworks.environments [NAME …]     run them all, older versions too, and write the table of the documentation
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from switchgear.testing.adapter_suite import AdapterSuite
from tests.support.limits import FACTOR

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).resolve().parent
TABLE: Final = ROOT / "docs" / "integrations" / "index.md"
TOOLS: Final = (
    "pytest==9.2.0",
    "pytest-asyncio==1.5.0",
    "pytest-timeout==2.4.0",
    "hypothesis==6.170.15",
    "psutil==7.2.2",
)
INSTALL_LIMIT_S: Final = 300 * FACTOR
RUN_LIMIT_S: Final = 840 * FACTOR
"""The real servers take 200 s alone, more than twice that beside two other test processes, and a minute or two to install them the first time."""
EVERYWHERE: Final = ("test_framework_errors.py",)
"""Test files that run in each environment with a newest version."""
_BEGIN: Final = "<!-- table: made by `make adapters` -->"
_END: Final = "<!-- end of the table -->"
_USES_BEGIN: Final = "<!-- adapters: made by `make adapters` -->"
_USES_END: Final = "<!-- end of the adapters -->"


@dataclass(frozen=True)
class Environment:
    """One framework in one version.

    Attributes:
        name: The framework's package.
        version: Its version.
        tests: The test files that run in it.
        older: An older version. Only `make adapters` runs it.
        more: Other requirements.
        titles: How the table calls the test classes, if the framework's name isn't enough.
        key: Distinguishes environments with the same framework.
        imports: What the adapter of the framework, and no other, may import.
        bare: Whether it has neither Switchgear nor the packages for tests.
    """

    name: str
    version: str
    tests: tuple[str, ...]
    older: bool = False
    more: tuple[str, ...] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    imports: tuple[str, ...] = ()
    bare: bool = False

    @property
    def title(self) -> str:
        """Name and version, as in a file's name."""
        return f"{self.key or self.name}-{self.version}"

    @property
    def requirements(self) -> tuple[str, ...]:
        """What to install besides Switchgear."""
        return (f"{self.name}=={self.version}", *self.more, *(() if self.bare else TOOLS))


def _pair(name: str, newest: str, older: str, *tests: str, **more: Any) -> tuple[Environment, Environment]:
    """Return a framework's newest version and an older one."""
    return Environment(name, newest, tests, **more), Environment(name, older, tests, older=True, **more)


ENVIRONMENTS: Final = (
    *_pair("langchain", "1.5.2", "1.4.7", "test_langchain.py", imports=("langchain", "langchain_core", "langgraph")),
    *_pair(
        "openai-agents",
        "0.24.0",
        "0.23.1",
        "test_openai_agents.py",
        imports=("agents", "openai"),
        titles={"TestOpenAIAgentsWithMcp": "openai-agents, tools of MCP servers"},
    ),
    Environment("claude-agent-sdk", "0.2.189", ("test_claude_agent_sdk.py",), imports=("claude_agent_sdk",)),
    Environment("claude-agent-sdk", "0.1.81", ("test_claude_agent_sdk.py",), older=True, more=("mcp<2",)),
    *_pair("pydantic-ai-slim", "2.68.0", "2.66.0", "test_pydantic_ai.py", imports=("pydantic_ai",)),
    *_pair("google-adk", "2.13.0", "2.12.0", "test_google_adk.py", imports=("google",)),
    *_pair("agent-framework-core", "1.23.0", "1.10.0", "test_agent_framework.py", imports=("agent_framework",)),
    *_pair("crewai", "1.15.30", "1.15.20", "test_crewai.py", imports=("crewai",)),
    *_pair("litellm", "1.110.2", "1.100.5", "test_litellm.py", imports=("litellm",)),
    *_pair("fastmcp", "4.2.3", "4.1.6", "test_fastmcp.py", imports=("fastmcp", "mcp", "mcp_types")),
    *_pair(
        "mcp",
        "2.3.0",
        "2.2.0",
        "test_mcp_client.py",
        "test_mcp_server.py",
        imports=("mcp", "mcp_types"),
        titles={
            "TestMcpClient": "mcp, client",
            "TestMcpServer": "mcp, server",
            "TestLowlevelServer": "mcp, low-level server",
        },
    ),
    Environment(
        "fastmcp",
        "4.2.3",
        (
            "test_mcp_proxy.py",
            "test_mcp_proxy_differential.py",
            "test_mcp_proxy_faults.py",
            "test_mcp_proxy_login.py",
            "test_mcp_proxy_real_servers.py",
            "test_mcp_proxy_targets.py",
            "test_mcp_proxy_walls.py",
        ),
        key="mcp-proxy",
    ),
)
NEWEST: Final = tuple(each for each in ENVIRONMENTS if not each.older)
ADAPTERS: Final[dict[str, tuple[str, ...]]] = {
    test.removeprefix("test_").removesuffix(".py"): each.imports
    for each in NEWEST
    if each.imports
    for test in each.tests
}
"""The modules of ``switchgear.integrations`` with a framework, and what each of them may import of it."""
INSTRUMENTED: Final = Environment(
    "openinference-instrumentation-langchain",
    "0.1.80",
    (),
    more=(
        "langchain-core==1.8.3",
        "langfuse==5.0.4",
        "opentelemetry-exporter-otlp-proto-grpc==1.45.2",
        "opentelemetry-exporter-otlp-proto-http==1.45.2",
        "pydantic-ai-slim==2.68.0",
    ),
    key="otel",
    bare=True,
)
"""The instrumentation libraries whose exports the gateway takes in its tests, for programs without Switchgear."""


@dataclass
class Results:
    """What a run of one environment showed.

    Attributes:
        suites: The outcomes of the suite's tests by class and name: ``passed``, ``failed``, or the reason why it isn't possible.
        failures: The names of all tests that failed, of the suite and others.
        output: What pytest printed.
    """

    suites: dict[str, dict[str, str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    output: str = ""


def python_of(environment: Environment) -> Path:
    """Install an environment, unless it is there, and return its Python."""
    uv = _uv()
    ours = "" if environment.bare else (ROOT / "pyproject.toml").read_text()
    wanted = "\n".join((sys.version, ours, *environment.requirements))
    folder = Path(sys.prefix) / "adapters" / environment.title
    python, stamp = folder / "bin" / "python", folder / "installed"
    digest = hashlib.sha256(wanted.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        _call([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)])
        _call(
            [
                uv,
                "pip",
                "install",
                "--quiet",
                "--python",
                str(python),
                *(() if environment.bare else ("--editable", f"{ROOT}[service]")),
                *environment.requirements,
            ]
        )
        stamp.write_text(digest)
    return python


def run(environment: Environment, folder: Path, *arguments: str) -> Results:
    """Run the tests of an environment. ``folder`` is for its report, ``arguments`` are for pytest."""
    report = folder / f"{environment.title}.xml"
    files = environment.tests if environment.older or environment.key else (*environment.tests, *EVERYWHERE)
    command = [
        str(python_of(environment)), "-m", "pytest", "-c", str(HERE / "pytest.ini"), "--confcutdir", str(HERE), "-q", "--tb=short",
        f"--junitxml={report}", *(str(HERE / name) for name in files), *arguments,
    ]  # fmt: skip
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**_clean(), "SWITCHGEAR_TEST_ADAPTER": environment.name, "UV": _uv()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            output, _ = running.communicate(timeout=RUN_LIMIT_S)
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)  # with the servers that the tests have started
            raise
    if not report.exists():
        raise RuntimeError(f"{environment.title} ran no tests:\n{output}")
    found = read_report(report)
    found.output = output
    if running.returncode not in {0, 1}:
        found.failures.append(f"pytest ended with {running.returncode}")
    return found


def read_report(path: Path) -> Results:
    """Read pytest's JUnit report."""
    found = Results()
    for case in ET.parse(path).getroot().iter("testcase"):
        name, holder = case.get("name", ""), case.get("classname", "").rpartition(".")[2]
        skipped = case.find("skipped")
        failed = case.find("failure") is not None or case.find("error") is not None
        reason = "" if skipped is None else re.sub(r"^.*?not possible: ", "", skipped.get("message", ""))
        if failed:
            found.failures.append(name)
        if holder.startswith("Test") and hasattr(AdapterSuite, name):
            outcomes = found.suites.setdefault(holder, {})
            outcomes[name.removeprefix("test_")] = "failed" if failed else reason or "passed"
    return found


def rows(environment: Environment, results: Results) -> list[str]:
    """Return the table's rows of an environment, one for each class of tests."""
    return [
        _row(environment.titles.get(holder, environment.name), environment.version, outcomes)
        for holder, outcomes in results.suites.items()
    ]


def _row(title: str, version: str, outcomes: Mapping[str, str]) -> str:
    passed = sum(outcome == "passed" for outcome in outcomes.values())
    others: dict[str, list[str]] = {}
    for name, outcome in sorted(outcomes.items()):
        if outcome != "passed":
            others.setdefault(outcome.rstrip("."), []).append(name.replace("_", " "))
    notes = "; ".join(f"{', '.join(names)}: {why}" for why, names in others.items())
    return f"| {title} | {version} | {passed} of {len(outcomes)} | {notes} |"


def shown_rows() -> list[str]:
    """Return the rows of the documentation's table, one for each version."""
    text = TABLE.read_text()
    shown = [line for line in text[text.index(_BEGIN) : text.index(_END)].splitlines() if line.startswith("| ")][1:]
    cells = [line[2:-2].split(" | ") for line in shown]
    return [
        f"| {title} | {version} | {passed} | {notes} |"
        for title, versions, passed, notes in cells
        for version in versions.split(", ")
    ]


def joined(found: Sequence[str]) -> list[str]:
    """Return the rows with one row for all versions of a framework that have the same results."""
    versions: dict[tuple[str, str, str], list[str]] = {}
    for row in found:
        title, version, passed, notes = row[2:-2].split(" | ")
        versions.setdefault((title, passed, notes), []).append(version)
    return [
        f"| {title} | {', '.join(each)} | {passed} | {notes} |" for (title, passed, notes), each in versions.items()
    ]


def write_table(found: Sequence[str]) -> None:
    """Replace the documentation's table of versions."""
    head = ["| framework | versions | passed | not possible in this framework |", "|---|---|---|---|"]
    TABLE.write_text(_with(TABLE.read_text(), _BEGIN, [*head, *joined(found)], _END))


def with_uses(text: str) -> str:
    """Return the page with its table of adapters: for whom each is, and what one writes, from the first line of its module."""
    rows = ["| you use | you write |", "|---|---|"]
    for name in ADAPTERS:
        module = (ROOT / "producers" / "switchgear" / "integrations" / f"{name}.py").read_text()
        found = re.match(r'"""(.+?): ``(.+?)``', module)
        assert found is not None, f"The first line of {name}.py doesn't say who uses it: ``how``."
        rows.append(f"| [{found[1]}]({name.replace('_', '-')}.md) | `{found[2]}` |")
    return _with(text, _USES_BEGIN, rows, _USES_END)


def _with(text: str, begin: str, rows: Sequence[str], end: str) -> str:
    return text[: text.index(begin)] + "\n".join([begin, "", *rows, "", ""]) + text[text.index(end) :]


def main(names: Sequence[str]) -> int:
    """Run the environments and write the tables. Return how many failed."""
    import tempfile  # noqa: PLC0415 - for this command alone

    TABLE.write_text(with_uses(TABLE.read_text()))
    chosen = [each for each in ENVIRONMENTS if not names or each.name in names]
    found, failed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for environment in chosen:
            results = run(environment, Path(folder))
            failed += bool(results.failures)
            found += rows(environment, results)
            print(environment.title, "failed" if results.failures else "passed", flush=True)
            if results.failures:
                print(results.output)
    if not names and not failed:
        write_table(found)
    return failed


def _uv() -> str:
    if given := os.environ.get("UV"):  # in an environment, which has no uv of its own
        return given
    from uv import find_uv_bin  # noqa: PLC0415 - the environments themselves import this module without it

    return find_uv_bin()


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False, env=_clean())
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")


def _clean() -> dict[str, str]:
    """Return the process's variables without those that would reach into another environment."""
    foreign = ("SWITCHGEAR_", "PYTEST_", "PYTHONPATH", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
