"""docs/support.md names the versions that the tests run with."""

from __future__ import annotations

import re
import tomllib

from switchgear_cli.local.jars import KAFKA_VERSION
from switchgear_mcp.protocol import HANDSHAKES
from tests.support.snippets import REPOSITORY

PAGE = (REPOSITORY / "docs" / "support.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]


def _row(part: str) -> str:
    """Return what the first row of ``part`` says is tested."""
    return next(row[1] for row in ROWS if row[0].startswith(part))


def test_the_page_names_the_versions_of_kafka_and_of_the_engine():
    constraints = dict(re.findall(r"^([\w-]+)==(\S+)$", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE))
    assert _row("Kafka") == KAFKA_VERSION
    assert constraints["chdb-core"] in _row("ClickHouse")
    image = re.search(r"clickhouse-server:(\S+)@", (REPOSITORY / "docker-compose.yml").read_text())
    assert image
    assert f"{image[1]} in `docker-compose.yml`, which no test starts" in PAGE


def test_the_page_and_the_classifiers_name_the_same_versions_of_python():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    found = [each.rsplit(" ", 1)[1] for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)]
    first = next(number for number, row in enumerate(ROWS) if row[0] == "Python")
    said = re.findall(r"3\.\d+", f"{ROWS[first][1]} {ROWS[first + 1][1]}")
    assert said == found
    assert project["requires-python"] == f">={found[0]}"


def test_the_page_names_the_versions_of_node_that_were_tried():
    tried = re.findall(r"^\| Node\.js (\d+)\.", (REPOSITORY / "docs/reference/typescript.md").read_text(), re.MULTILINE)
    assert re.findall(r"\d+", _row("Node.js")) == tried


def test_the_page_names_the_oldest_and_the_newest_version_of_mcp():
    oldest, newest = re.findall(r"\d{4}-\d\d-\d\d", _row("MCP"))
    assert oldest == min(HANDSHAKES)
    assert f"* **Protocols.** {newest}," in (REPOSITORY / "docs/guide/ask.md").read_text()
