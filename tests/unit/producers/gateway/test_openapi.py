"""The OpenAPI document has every route of the gateway and is valid."""

from __future__ import annotations

import pytest
from openapi_spec_validator import validate
from prometheus_client import CollectorRegistry

from switchgear_gateway.app import _ROLES
from switchgear_gateway.openapi import OpenApiRoute, document
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp_routes import Senders
from switchgear_gateway.publisher import Publisher
from switchgear_gateway.service import Fleet, parts_of
from switchgear_http.authenticator import Authenticator
from switchgear_schemas.settings import Settings


@pytest.fixture
async def parts():
    settings, registry = Settings(), CollectorRegistry()
    fleet, publisher = Fleet(settings), Publisher(settings, registry)
    found = parts_of(Settings(), fleet, publisher, Ingest(), Senders(Authenticator(), publisher), registry)
    yield [*found, OpenApiRoute(found)]
    await fleet.gear.aclose()


@pytest.mark.slow
async def test_the_document_is_valid_and_describes_every_route(parts):
    found = document(parts)
    validate(found)
    paths = {route.path: route.methods - {"HEAD"} for part in parts for route in part.routes}
    assert {path: {method.upper() for method in item} for path, item in found["paths"].items()} == paths
    for item in found["paths"].values():
        for operation in item.values():
            assert operation["summary"].endswith(".")
            assert set(operation["responses"]) - {"default"}


async def test_every_route_with_a_role_is_one_that_exists(parts):
    paths = {route.path for part in parts for route in part.routes}
    assert set(_ROLES) <= paths
