"""The OpenAPI document has every route of the gateway and is valid."""

from __future__ import annotations

import pytest
from openapi_spec_validator import validate
from prometheus_client import CollectorRegistry

from switchgear_gateway.decide import DecideRequest, Permitted, Refused
from switchgear_gateway.openapi import openapi_of
from switchgear_gateway.otlp.ingest import Ingest
from switchgear_gateway.otlp_routes import Senders
from switchgear_gateway.publisher import Publisher
from switchgear_gateway.service import Fleet, parts_of
from switchgear_gateway.shared import Shared
from switchgear_http.authenticator import Authenticator
from switchgear_schemas.settings import Settings


@pytest.fixture
async def openapi():
    settings, registry = Settings(), CollectorRegistry()
    fleet, publisher = Fleet(settings), Publisher(settings, registry)
    senders = Senders(Authenticator(), publisher, Shared())
    parts = parts_of(settings, fleet, publisher, Ingest(), senders, registry)
    yield openapi_of([route for part in parts for route in part.routes])
    await fleet.gear.aclose()


@pytest.mark.slow
async def test_the_document_is_valid_and_describes_every_route(openapi):
    validate(openapi.document)
    for item in openapi.document["paths"].values():
        for operation in item.values():
            assert operation["summary"].endswith(".")
            assert set(operation["responses"]) - {"default"}


async def test_the_document_describes_every_field_of_a_permit(openapi):
    schemas, paths = openapi.document["components"]["schemas"], openapi.document["paths"]
    decide = paths["/v1/decide"]["post"]
    assert _schema(decide["requestBody"]) == {"$ref": "#/components/schemas/DecideRequest"}
    assert set(schemas["DecideRequest"]["properties"]) == {*DecideRequest.__struct_fields__}
    assert _schema(decide["responses"]["200"]) == {"$ref": "#/components/schemas/Decision"}
    decision = schemas["Decision"]
    assert set(decision["properties"]) == {*Permitted.__struct_fields__, *Refused.__struct_fields__}
    assert (decision["properties"]["allowed"], decision["required"]) == ({"type": "boolean"}, ["allowed"])
    assert _schema(paths["/v1/outcome"]["post"]["requestBody"]) == {"$ref": "#/components/schemas/OutcomeRequest"}
    assert "permit" in schemas["OutcomeRequest"]["required"]


async def test_every_list_says_of_what_it_is_because_generators_leave_out_what_they_cannot_type(openapi):
    def lists(part):
        if isinstance(part, dict):
            if part.get("type") == "array":
                yield part
            for each in part.values():
                yield from lists(each)
        elif isinstance(part, list):
            for each in part:
                yield from lists(each)

    found = list(lists(openapi.document))
    assert found
    assert [each for each in found if "items" not in each] == []


def _schema(described):
    return described["content"]["application/json"]["schema"]
