"""What follows from the declaration of a route: who may use it, its limits and its documentation."""

from __future__ import annotations

import json

import msgspec
import pytest
from openapi_spec_validator import validate
from starlette.responses import JSONResponse

from switchgear_http.application import create_application
from switchgear_http.openapi import OpenApi
from switchgear_http.principal import Role
from switchgear_http.routing import ANYBODY, EVENTS, Handlers, Parameter, Reply, Route, Routes, route, route_of
from tests.support.asgi import request
from tests.support.table import table


class Body(msgspec.Struct):
    name: str


async def show(asked):
    return JSONResponse([route_of(asked).summary, asked.path_params])


DECLARED = (
    Route(
        "GET", "/v1/tools/{name:path}", Role.READ, show, "Show a tool.", (Parameter("hours", "Hours to look back."),)
    ),
    Route(
        "POST", "/v1/tools/lab", (Role.READ, Role.EMIT), show, "Try.", body=Body, answers={200: Reply("It.", (Body,))}
    ),
    Route("GET", "/v1/live", Role.READ, show, "Follow.", answers={200: Reply("Events.", EVENTS)}, is_stream=True),
    Route("GET", "/v1/rules", Role.READ, show, "Show the rules."),
    Route("PUT", "/v1/rules", Role.ADMIN, show, "Change the rules."),
    Route("GET", "/healthz", None, show, "Answer."),
)
ROUTES = Routes(DECLARED, guarded="/v1/")


class Rules(Handlers):
    @route("GET", "/v1/rules/{name}", Role.READ)
    async def rule(self, asked):
        """Show a rule.

        More about it.
        """
        return JSONResponse(route_of(asked).summary)

    @route("GET", "/v1/rules/{name}/uses", Role.ADMIN)
    async def uses(self, asked):
        """Count its uses."""
        return JSONResponse(route_of(asked).summary)


def scope(method, path):
    return {"type": "http", "method": method, "path": path}


@table(
    ("method", "path", "roles"),
    [
        ("GET", "/v1/rules", (Role.READ,)),
        ("HEAD", "/v1/rules", (Role.READ,)),
        ("PUT", "/v1/rules", (Role.ADMIN,)),
        ("DELETE", "/v1/rules", (Role.READ,)),
        ("POST", "/v1/tools/lab", (Role.READ, Role.EMIT)),
        ("GET", "/v1/tools/lab", (Role.READ,)),
        ("GET", "/v1/tools/a/b\nc", (Role.READ,)),
        ("GET", "/v1/other", ANYBODY),
        ("GET", "/v1/rules\n", ANYBODY),
        ("GET", "/healthz", None),
        ("GET", "/other", None),
    ],
)
def test_the_role_of_a_request_is_that_of_its_route(method, path, roles):
    assert ROUTES.role_of(scope(method, path)) == roles


def test_only_requests_to_a_route_of_a_stream_are_streams():
    assert [ROUTES.is_stream(scope("GET", path)) for path in ("/v1/live", "/v1/rules", "/other")] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("GET", "/v1/rules", ["Show the rules.", {}]),
        ("PUT", "/v1/rules", ["Change the rules.", {}]),
        ("GET", "/v1/tools/lab", ["Show a tool.", {"name": "lab"}]),
        ("GET", "/v1/tools/a\n", ["Show a tool.", {"name": "a\n"}]),
    ],
)
async def test_a_request_goes_to_the_handler_of_its_method_and_path(method, path, found):
    answer = await request(create_application(ROUTES, elsewhere=""), method, path)
    assert json.loads(answer.body) == found


async def test_a_method_with_a_route_is_its_handler_and_the_first_line_of_its_docstring_is_the_summary():
    declared = Rules().routes
    assert [(each.path, each.summary) for each in declared] == [
        ("/v1/rules/{name}", "Show a rule."),
        ("/v1/rules/{name}/uses", "Count its uses."),
    ]
    answer = await request(create_application(Routes(declared), elsewhere=""), "GET", "/v1/rules/a")
    assert json.loads(answer.body) == "Show a rule."


async def test_a_path_that_goes_on_after_its_name_goes_before_one_that_ends_with_it():
    paths = [Route("GET", path, None, show, path) for path in ("/v1/{id:path}", "/v1/{id:path}/history")]
    answer = await request(create_application(Routes(paths), elsewhere=""), "GET", "/v1/a/history")
    assert json.loads(answer.body) == ["/v1/{id:path}/history", {"id": "a"}]


async def test_a_method_that_no_route_of_a_path_has_is_answered_with_those_that_it_has():
    answer = await request(create_application(ROUTES, elsewhere=""), "DELETE", "/v1/rules")
    assert (answer.status, json.loads(answer.body)["hint"]) == (405, "Use GET, HEAD, PUT.")


def test_the_document_is_valid_and_has_what_the_routes_declare():
    openapi = OpenApi(
        {"title": "T", "version": "1"},
        Role.READ,
        DECLARED,
        schemes={"token": {"type": "http", "scheme": "bearer"}},
        security=lambda _route: [{"token": []}],
    )
    found = openapi.document
    validate(found)
    paths = {(method.upper(), path) for path, item in found["paths"].items() for method in item}
    assert paths == {(each.method, each.path.replace(":path", "")) for each in (*DECLARED, openapi.route)}
    tool, live = found["paths"]["/v1/tools/{name}"]["get"], found["paths"]["/v1/live"]["get"]
    assert [(each["name"], each["in"]) for each in tool["parameters"]] == [("name", "path"), ("hours", "query")]
    assert (tool["description"], tool["security"]) == ("Needs the role `read`.", [{"token": []}])
    assert live["responses"]["200"]["content"] == EVENTS
    assert found["paths"]["/healthz"]["get"]["security"] == []
    lab = found["paths"]["/v1/tools/lab"]["post"]
    for described in (lab["requestBody"], lab["responses"]["200"]):
        assert described["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Body"}
    assert found["components"]["schemas"].keys() == {"Body", "Problem"}
