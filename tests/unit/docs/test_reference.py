"""The reference pages name what the code has."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

import switchgear
import switchgear.testing
from switchgear.classify.tool_failure import tool_failure
from switchgear_api.app import create_app
from switchgear_api.console.pages import ConsolePages
from switchgear_gateway.decide import DecideRequest, Refused
from switchgear_gateway.openapi import openapi_of
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp_routes import Senders
from switchgear_gateway.outcomes import OutcomeRequest
from switchgear_gateway.publisher import Publisher
from switchgear_gateway.service import Fleet, parts_of
from switchgear_gateway.shared import Shared
from switchgear_http.authenticator import Authenticator
from switchgear_schemas.policy import FLEET_DEFAULT, LOCAL_DEFAULT, BreakerPolicy, Cusum
from switchgear_schemas.settings import Settings
from tests.support.snippets import REPOSITORY, snippets

REFERENCE = REPOSITORY / "docs" / "reference"


def test_python_page_has_every_public_name():
    page = (REFERENCE / "python.md").read_text()
    named = set(re.findall(r"^::: switchgear\.(?:\w+\.)*(\w+)$", page, re.MULTILINE))
    assert {*switchgear.__all__, *switchgear.testing.__all__} == named


@pytest.mark.slow
def test_http_page_has_every_route():
    page = (REFERENCE / "http-api.md").read_text()
    named = set(re.findall(r"^\| `(GET|POST|PUT|DELETE) ([^`]+)` \|", page, re.MULTILINE))
    app = create_app(SimpleNamespace(folder=None, embedded=False), Settings(), registry=CollectorRegistry())
    served = {(method, route.path.replace(":path", "")) for route in app.routes for method in route.methods}
    pages = {("GET", route.path.replace(":path", "")) for route in ConsolePages().routes}
    assert named == {(method, path) for method, path in served if method != "HEAD"} - pages


async def test_gateway_page_has_every_route_and_its_roles():
    page = (REFERENCE / "gateway-api.md").read_text()
    named = re.findall(r"^\| `(GET|POST) ([^`]+)` \| .* \| (.*) \|$", page, re.MULTILINE)
    settings, registry = Settings(), CollectorRegistry()
    fleet, publisher = Fleet(settings), Publisher(settings, registry)
    parts = parts_of(Settings(), fleet, publisher, Ingest(), Senders(Authenticator(), publisher, Shared()), registry)
    declared = [route for part in parts for route in part.routes]
    served = {(route.method, route.path): route.roles for route in (*declared, openapi_of(declared).route)}
    assert {(method, path) for method, path, _ in named} == served.keys()
    for method, path, roles in named:
        needed = served[method, path]
        assert roles == (" or ".join(f"`{role}`" for role in needed) if needed else "none"), path
    await fleet.gear.aclose()


def test_policy_page_has_every_value_with_its_defaults():
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \| (.*?) \|", (REFERENCE / "policy.md").read_text(), re.MULTILINE)
    cusum = {
        f"cusum.{name}": [
            f"{getattr(each.cusum, name):g}".replace("1e+06", "1000000") for each in (LOCAL_DEFAULT, FLEET_DEFAULT)
        ]
        for name in Cusum.model_fields
    }
    values = {
        name: [_shown(getattr(each, name)) for each in (LOCAL_DEFAULT, FLEET_DEFAULT)]
        for name in BreakerPolicy.model_fields
    }
    assert {name: list(defaults) for name, *defaults in rows} == values | cusum


def test_page_of_permits_over_http_has_every_field_of_the_requests_and_of_a_refusal():
    page = (REFERENCE / "gateway-permits.md").read_text()
    for title, request in (("## Ask", DecideRequest), ("## Report", OutcomeRequest)):
        table = page.partition(title)[2].partition("\n## ")[0]
        named = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", " ".join(named))) == set(request.__struct_fields__)
    (shown,) = snippets("docs/reference/gateway-permits.md", "json")
    assert set(json.loads(shown)) == set(Refused.__struct_fields__)
    refusal = msgspec.convert(json.loads(shown), Refused)
    found = tool_failure("fleet", "", retry_after_s=1.0, correlation_id="", now=0.0)
    assert set(refusal.toolFailure) == set(found)


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
