"""The dashboard and the alert rules ask for metrics and labels that the processes really export, and the rules pass their own tests."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import yaml
from prometheus_client import CollectorRegistry

from switchgear import Switchgear
from switchgear.guard.turns import PaceStatus
from switchgear.telemetry.prometheus import CallCounts, SwitchgearCollector
from switchgear.telemetry.registry import process_registry
from switchgear_alerts.metrics import AlertsMetrics
from switchgear_api.app import create_app
from switchgear_gateway.app import create_app as create_gateway
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp_routes import OtlpRoutes
from switchgear_gateway.publisher import Publisher
from switchgear_http.authenticator import Authenticator
from switchgear_schemas.settings import Settings
from switchgear_sinks.writer import WriterMetrics
from switchgear_stream.metrics import WorkerMetrics
from tests.support.limits import READY_S

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yml"
RULE_TESTS = DEPLOY / "prometheus" / "alerts_test.yml"
DASHBOARD = DEPLOY / "grafana" / "switchgear.json"
PROMTOOL = shutil.which("promtool")
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus adds, and the one of every histogram."""


def registries(folder: Path) -> Iterator[CollectorRegistry]:
    """Yield the registry of each kind of process, as the process itself makes it."""
    worker = WorkerMetrics()
    worker.circuit_states.listed = lambda: [("search", "open")]
    yield worker.registry
    sink = process_registry("sink")
    WriterMetrics(sink)
    create_app(SimpleNamespace(folder=None, embedded=False), Settings(), registry=sink)
    yield sink
    gateway = process_registry("gateway")
    Publisher(Settings(), gateway)
    part = OtlpRoutes(Ingest(), gateway)
    create_gateway([part], Settings(), registry=gateway, authenticator=Authenticator.of(Settings()))
    yield gateway
    yield AlertsMetrics(["chat"]).registry
    service = CollectorRegistry()
    with Switchgear("127.0.0.1:1", hooks=[CallCounts(service)], spool_dir=folder) as gear:
        status = gear.status()
        assert status.follower is not None
        heard = replace(
            status, follower=replace(status.follower, age_s=1.0, lag=0), paces={"search": PaceStatus()}
        )  # as after the broker's first answer, which had a rate limit
        with mock.patch.object(Switchgear, "status", return_value=heard):
            service.register(SwitchgearCollector(gear))
            yield service


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> dict[str, set[str]]:
    """Each exported series with its labels."""
    found: dict[str, set[str]] = {}
    for registry in registries(tmp_path_factory.mktemp("spool")):
        labels = {
            name: set(getattr(collector, "_labelnames", ()))
            for collector, names in registry._collector_to_names.items()
            for name in names
        }
        for family in registry.collect():
            own = {label for sample in family.samples for label in sample.labels}
            for suffix in SUFFIXES[family.type]:
                found.setdefault(family.name + suffix, set()).update(own, labels.get(family.name, ()))
    return found


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def queries() -> dict[str, list[str]]:
    """The expressions of the dashboard and of the rules, by panel or alert."""
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]
    found = {
        f"panel {number} {panel['title']}": [each["expr"] for each in panel["targets"]]
        for number, panel in enumerate(panels)
    }
    return found | {f"alert {rule['alert']}": [rule["expr"]] for rule in rules()}


@pytest.mark.parametrize("place", queries())
def test_every_metric_and_label_of_the_dashboard_and_the_rules_is_exported(place, exported):
    for expression in queries()[place]:
        named = re.findall(r"\b((?:switchgear|process)_\w+|up)\b(?:\{([^}]*)\})?", re.sub(r'"[^"]*"', '""', expression))
        assert named, expression
        known = set().union(*(exported.get(name, set()) for name, _ in named)) | OF_PROMETHEUS
        for name, matchers in named:
            assert name == "up" or name in exported, f"{name} is not exported"
            labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            assert labels <= exported.get(name, set()) | OF_PROMETHEUS, f"{name} has no such labels: {labels}"
        for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
            assert set(re.split(r"[,\s]+", grouped)) <= known, expression


def test_every_alert_says_what_is_wrong_and_what_to_do():
    for rule in rules():
        assert set(rule["annotations"]) == {"summary", "action"}
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}


def test_every_alert_has_a_test_in_which_it_fires():
    tests = yaml.safe_load(RULE_TESTS.read_text())["tests"]
    fires = {each["alertname"] for test in tests for each in test["alert_rule_test"] if each.get("exp_alerts")}
    assert {rule["alert"] for rule in rules()} == fires | {"NoSink"}  # the same expression as NoWorker
    assert "NoSink" in {each["alertname"] for test in tests for each in test["alert_rule_test"]}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: apt-get install prometheus")
@pytest.mark.parametrize(
    "check",
    [
        ("check", "rules", RULES.name),
        pytest.param(("test", "rules", RULE_TESTS.name), marks=pytest.mark.deep),
    ],
    ids=" ".join,
)
def test_promtool_accepts_the_rules_and_their_tests(check):
    done = subprocess.run(
        [PROMTOOL, *check], cwd=RULES.parent, capture_output=True, text=True, timeout=READY_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboard_is_what_its_script_builds():
    path = DEPLOY / "grafana" / "build.py"
    spec = importlib.util.spec_from_file_location("grafana_build", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert DASHBOARD.read_text() == module.as_json(), (
        f"Run {Path(sys.executable).name} {path.relative_to(DEPLOY.parent)}"
    )


def test_panels_of_the_dashboard_do_not_overlap_and_use_the_chosen_data_source():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place.get("x", 0), place.get("x", 0) + place["w"])
            for y in range(place.get("y", 0), place.get("y", 0) + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}"
