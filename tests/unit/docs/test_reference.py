"""The reference pages name what the code has."""

from __future__ import annotations

import re
from types import SimpleNamespace

from prometheus_client import CollectorRegistry

import switchgear
import switchgear.testing
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy, Cusum
from switchgear_schemas.settings import Settings
from switchgear_sinks.api import create_app
from switchgear_sinks.console import ConsolePages
from tests.support.snippets import REPOSITORY

REFERENCE = REPOSITORY / "docs" / "reference"


def test_python_page_has_every_public_name():
    page = (REFERENCE / "python.md").read_text()
    named = set(re.findall(r"^::: switchgear\.(?:\w+\.)*(\w+)$", page, re.MULTILINE))
    assert {*switchgear.__all__, *switchgear.testing.__all__} == named


def test_http_page_has_every_route():
    page = (REFERENCE / "http-api.md").read_text()
    named = set(re.findall(r"^\| `(GET|POST|PUT|DELETE) ([^`]+)` \|", page, re.MULTILINE))
    app = create_app(SimpleNamespace(folder=None, embedded=False), Settings(), registry=CollectorRegistry())
    served = {(method, route.path.replace(":path", "")) for route in app.routes for method in route.methods}
    pages = {("GET", route.path.replace(":path", "")) for route in ConsolePages().routes}
    assert named == {(method, path) for method, path in served if method != "HEAD"} - pages


def test_policy_page_has_every_value_with_its_defaults():
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \| (.*?) \|", (REFERENCE / "policy.md").read_text(), re.MULTILINE)
    cusum = {
        f"cusum.{name}": [f"{getattr(Cusum(), name):g}".replace("1e+06", "1000000")] * 2 for name in Cusum.model_fields
    }
    values = {
        name: [_shown(getattr(each, name)) for each in (LOCAL_DEFAULT, FLEET_DEFAULT)]
        for name in BreakerPolicy.model_fields
    }
    assert {name: list(defaults) for name, *defaults in rows} == values | cusum


def _shown(value: object) -> str:
    """Return a default as the page writes it."""
    if value is None or value == ():
        return "off" if value is None else "none"
    if isinstance(value, Cusum):
        return "on"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    if isinstance(value, frozenset):
        return ", ".join(f"`{each}`" for each in sorted(value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, int | float) else str(value)
