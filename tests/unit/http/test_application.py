"""What every server answers without its handlers: to unknown paths, other methods and errors."""

from __future__ import annotations

import json

import pytest
from prometheus_client import CollectorRegistry
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from switchgear_http.application import create_application, create_probe_application
from switchgear_http.meter import Meter
from switchgear_http.probes import Probes, State, checked
from switchgear_http.problem import ProblemError
from switchgear_http.routing import Route, Routes
from tests.support.asgi import request
from tests.support.table import table


async def refuse(_request):
    raise ProblemError(409, "It is taken.", "Take another.")


async def fail(_request):
    raise LookupError("secret")


async def take(_request):
    return Response("taken", 202)


async def show(_request):
    return Response("page")


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def app(registry):
    routes = Routes(
        [
            Route("GET", "/refuse", None, refuse, "Refuse."),
            Route("GET", "/fail", None, fail, "Fail."),
            Route("POST", "/take", None, take, "Take."),
            Route("PUT", "/take", None, take, "Take."),
        ]
    )
    pages = [StarletteRoute("/page", show)]
    return create_application(routes, elsewhere="Try /take.", pages=pages, meter=Meter(registry, "gateway"))


@table(
    ("method", "path", "status", "detail", "hint"),
    [
        ("GET", "/other", 404, "There is nothing at /other.", "Try /take."),
        ("GET", "/take", 405, "GET is not possible at /take.", "Use POST, PUT."),
        ("GET", "/refuse", 409, "It is taken.", "Take another."),
        ("GET", "/fail", 500, "The request failed for an unexpected reason.", "The server's log has the details."),
    ],
)
async def test_everything_that_goes_wrong_is_answered_with_problem_details(app, method, path, status, detail, hint):
    answer = await request(app, method, path)
    found = json.loads(answer.body)
    assert answer.status == found["status"] == status
    assert (found["detail"], found["hint"]) == (detail, hint)
    assert b"secret" not in answer.body


async def test_the_meter_counts_the_answers_to_errors_and_defects_too(app, registry):
    for path in ("/refuse", "/fail", "/fail"):
        await request(app, "GET", path)
    await request(app, "POST", "/take")
    assert (await request(app, "GET", "/page")).status == 200

    def counted(route, status):
        return registry.get_sample_value("switchgear_gateway_requests_total", {"route": route, "status": status})

    assert counted("/page", "200") is None
    assert (counted("/refuse", "409"), counted("/fail", "500"), counted("/take", "202")) == (1, 2, 1)
    assert registry.get_sample_value("switchgear_gateway_request_seconds_count", {"route": "/fail"}) == 2


async def test_a_server_may_complete_every_answer_and_know_errors_of_its_own():
    def problem_of(error):
        if isinstance(error, LookupError):
            return ProblemError(418, "known")
        return ProblemError(error.status, error.message, extensions={"more": 1})

    app = create_application(Routes([Route("GET", "/fail", None, fail, "")]), elsewhere="", problem_of=problem_of)
    assert (await request(app, "GET", "/fail")).status == 418
    assert json.loads((await request(app, "GET", "/other")).body)["more"] == 1


async def test_probes_answer_503_with_their_reason_while_a_check_fails():
    checks, alive = {"kafka": False}, State(good=False, body={"status": "failing"})

    async def ready():
        return checked(checks)

    app = create_probe_application(Probes(CollectorRegistry(), ready, lambda: alive))
    answer = await request(app, "GET", "/readyz")
    assert (answer.status, json.loads(answer.body)) == (503, {"status": "not ready", "checks": checks})
    assert (await request(app, "GET", "/healthz")).status == 503
    checks["kafka"] = True
    assert (await request(app, "GET", "/readyz")).status == 200
