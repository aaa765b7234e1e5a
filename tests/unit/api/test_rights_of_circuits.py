"""A token for some tools is for their circuits, by the tool that the circuit's id names."""

import pytest
from starlette.requests import Request

from switchgear_api import reads
from switchgear_api.answers import ForbiddenError
from switchgear_http.middleware import _KEY
from switchgear_http.principal import Principal, Role


def request_of(tools: tuple[str, ...]) -> Request:
    principal = Principal("ops", frozenset({Role.OPERATE}), tools=tools)
    return Request({"type": "http", "method": "GET", "path": "/", "headers": [], _KEY: principal})


@pytest.mark.parametrize("circuit_id", ["search", "search|user=ana", "search|session=s"])
def test_a_token_for_a_tool_may_see_its_circuits(circuit_id):
    reads._check_circuit(request_of(("search",)), circuit_id)


@pytest.mark.parametrize("circuit_id", ["search%7Cuser=ana", "search%7Cfamily", "search2|user=ana"])
def test_a_token_for_a_tool_may_not_see_a_tool_whose_name_begins_like_it(circuit_id):
    with pytest.raises(ForbiddenError):
        reads._check_circuit(request_of(("search",)), circuit_id)
