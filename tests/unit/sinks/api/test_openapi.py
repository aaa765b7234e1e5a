"""The OpenAPI document says what the routes are and what they need."""

import re
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from starlette.routing import Route

from switchgear_schemas.settings import Settings
from switchgear_sinks.api.app import create_app, role_of
from switchgear_sinks.api.openapi import OPERATIONS, document
from switchgear_sinks.store import Store, StoreLocation
from tests.support.table import table

STORE = Store(StoreLocation.parse("http://localhost:8123/switchgear", Path()), 1)
"""It is not opened: the routes are known before."""


@pytest.fixture(scope="module")
def routes(tmp_path_factory):
    settings = Settings(clickhouse_url="http://localhost:8123/switchgear")
    app = create_app(STORE, settings, registry=CollectorRegistry())
    found = set()
    for route in app.routes:
        assert isinstance(route, Route)
        path = re.sub(r"{(\w+):path}", r"{\1}", route.path)
        found |= {(path, method.lower()) for method in route.methods - {"HEAD"}}
    return found


@pytest.mark.slow
def test_document_has_every_route_and_no_other(routes):
    documented = {(each.path, each.method) for each in OPERATIONS}
    pages = {
        (path, method)
        for path, method in routes
        if not path.startswith(("/v1", "/login/", "/healthz", "/readyz", "/metrics", "/openapi"))
    }
    assert documented == routes - pages


@table("each", OPERATIONS, ids=lambda each: f"{each.method} {each.path}")
def test_role_in_the_document_is_the_one_that_is_checked(each):
    path = re.sub(r"{\w+}", "x", each.path)
    assert role_of({"path": path, "method": each.method.upper()}) == each.role


def test_document_is_json_whose_references_lead_somewhere():
    text = msgspec.json.encode(document()).decode()
    found = msgspec.json.decode(text)
    names = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert names == found["components"]["schemas"].keys()
    identities = [one["operationId"] for path in found["paths"].values() for one in path.values()]
    assert len(identities) == len(set(identities))
