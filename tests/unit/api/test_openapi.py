"""The OpenAPI document of the API is valid."""

import re
from pathlib import Path

import msgspec
import pytest
from openapi_spec_validator import validate
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Store, StoreLocation
from tests.support.asgi import request

STORE = Store(StoreLocation.parse("http://localhost:8123/switchgear", Path()), 1)
"""It is not opened: the routes are known before."""


@pytest.mark.slow
async def test_document_is_valid_and_its_references_lead_somewhere():
    settings = Settings(clickhouse_url="http://localhost:8123/switchgear")
    app = create_app(STORE, settings, registry=CollectorRegistry())
    answer = await request(app, "GET", "/openapi.json", headers={"host": "localhost"}, address="127.0.0.1")
    found = msgspec.json.decode(answer.body)
    validate(found)
    names = set(re.findall(rb'"#/components/schemas/(\w+)"', answer.body))
    assert {name.decode() for name in names} == found["components"]["schemas"].keys()
    identities = [one["operationId"] for path in found["paths"].values() for one in path.values()]
    assert len(identities) == len(set(identities))
