"""Query parameters: a value in range, or a sentence that names the field."""

import pytest
from starlette.requests import Request

from switchgear_api.answers import BadRequestError
from switchgear_api.console.policies import ReplayBody
from switchgear_api.parameters import Parameters, json_body, query
from switchgear_http.routing import _ROUTE, Route
from tests.support.table import table

KNOWN = ("hours", "limit", "tool", "history", "threshold_ms")


def given(**values):
    return Parameters(values, KNOWN)


def test_missing_parameter_has_its_default():
    nothing = given()
    assert (nothing.text("tool"), nothing.limit(7), nothing.hours(1.0), nothing.hours(None)) == (None, 7, 1.0, None)
    assert nothing.flag("history") is False


def test_given_parameters_are_read():
    values = given(hours="0.5", limit="10000", tool="a b", history="1", threshold_ms="0")
    assert (values.hours(1), values.limit(1), values.text("tool")) == (0.5, 10_000, "a b")
    assert values.flag("history")
    assert values.number("threshold_ms", 5, 0, 10) == 0


@table(
    ("name", "value"),
    [
        ("limit", "0"), ("limit", "10001"), ("limit", "-1"), ("limit", "1.5"), ("limit", "ten"), ("limit", ""),
        ("limit", "1" + "0" * 400), ("limit", "9" * 5000), ("hours", "1" + "0" * 400), ("hours", "-inf"),
        ("hours", "0"), ("hours", "nan"), ("hours", "inf"), ("hours", "9000"), ("hours", "x"),
    ],
)  # fmt: skip
def test_a_wrong_number_names_its_field(name, value):
    parameters = given(**{name: value})
    with pytest.raises(BadRequestError, match=rf"^{name} must be"):
        parameters.limit(1) if name == "limit" else parameters.hours(1)


def test_a_wrong_flag_names_its_field():
    with pytest.raises(BadRequestError, match="history must be 1 or 0"):
        given(history="maybe").flag("history")


def test_misspelled_parameter_is_answered_with_the_nearest_name():
    with pytest.raises(BadRequestError, match=r"Unknown parameter limt. Did you mean limit\?"):
        given(limt="3")
    with pytest.raises(BadRequestError, match="It may be: hours, limit"):
        given(zzzzzz="3")


def request(body=b"{}", given=b"", known=""):
    """A request of JSON, as a route gets it that knows some query parameters."""

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": given,
        "headers": [(b"content-type", b"application/json")],
    }
    scope[_ROUTE] = Route("POST", "/", None, receive, "", query(known))
    return Request(scope, receive)


@pytest.mark.parametrize("depth", [1_000, 5_000, 100_000])
async def test_body_that_is_nested_too_deeply_is_answered_as_one_that_is_not_json(depth):
    deep = b'{"tool": "x", "policy": {"a": ' + b"[" * depth + b"]" * depth + b"}}"
    with pytest.raises(BadRequestError, match="The body is not as expected") as caught:
        await json_body(request(deep), ReplayBody, "a sample")
    assert caught.value.hint == "a sample"


async def test_query_parameter_that_belongs_into_the_body_is_refused_and_not_ignored():
    body = b'{"tool": "x", "policy": {}}'
    with pytest.raises(BadRequestError, match="Unknown parameter hours"):
        await json_body(request(body, b"hours=3"), ReplayBody, "a sample")
    assert (await json_body(request(body, b"format=csv", "format"), ReplayBody, "a sample")).tool == "x"


async def test_body_of_many_small_values_is_refused_before_they_are_made():
    body = b'{"tool": "x", "policy": {"a": [' + b"{}," * 300_000 + b"{}]}}"
    with pytest.raises(BadRequestError, match="too many values") as caught:
        await json_body(request(body), ReplayBody, "a sample")
    assert caught.value.hint == "a sample"
