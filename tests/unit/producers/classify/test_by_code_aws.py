"""Exceptions of botocore are classified, most of them raised by its own client."""

from __future__ import annotations

import json

import botocore.config
import botocore.exceptions
import botocore.parsers
import botocore.session
import pytest

from switchgear.classify import Classification, classify
from tests.support.table import table

pytestmark = pytest.mark.slow


def client_error(code, status, headers=None):
    response = {
        "Error": {"Code": code, "Message": "m"},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": headers or {}, "RetryAttempts": 0},
    }
    return botocore.exceptions.ClientError(response, "GetObject")


@table(
    ("code", "status", "expected"),
    [
        ("ThrottlingException", 400, "rate_limited"),
        ("ProvisionedThroughputExceededException", 400, "rate_limited"),
        ("TooManyRequestsException", 429, "rate_limited"),
        ("SlowDown", 503, "rate_limited"),
        ("RequestTimeout", 400, "timeout"),
        ("AccessDenied", 403, "auth"),
        ("AccessDeniedException", 400, "auth"),
        ("UnrecognizedClientException", 400, "auth"),
        ("ExpiredTokenException", 400, "auth"),
        ("ValidationException", 400, "invalid_input"),
        ("NoSuchKey", 404, "invalid_input"),
        ("ResourceNotFoundException", 400, "invalid_input"),
        ("InternalError", 500, "server"),
        ("ServiceUnavailableException", 503, "server"),
        ("SomethingNew", 502, "server"),
        ("404", 404, "invalid_input"),
        ("304", 304, "tool"),
        ("PermanentRedirect", 301, "tool"),
    ],
)
def test_code_of_aws_decides_before_its_status(code, status, expected):
    assert classify(client_error(code, status)) == Classification(expected)


def test_reads_the_status_in_a_code_of_aws():
    assert classify(botocore.exceptions.ClientError({"Error": {"Code": "503"}}, "HeadObject")).error_class == "server"


def amid_a_stream(event, body):
    """Return what botocore's parser makes of an exception that Bedrock sends instead of the next event."""
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    shape = model.operation_model("ConverseStream").output_shape.members["stream"]
    parser = botocore.parsers.create_parser("rest-json")._event_stream_parser
    headers = {":message-type": "exception", ":exception-type": event, ":content-type": "application/json"}
    parsed = parser.parse({"status_code": 400, "headers": headers, "body": json.dumps(body).encode()}, shape)
    return botocore.exceptions.EventStreamError(parsed, "ConverseStream")


@table(
    ("event", "expected"),
    [
        ("throttlingException", "rate_limited"),
        ("internalServerException", "server"),
        ("modelStreamErrorException", "server"),
        ("serviceUnavailableException", "server"),
        ("validationException", "invalid_input"),
    ],
)
def test_error_in_an_aws_event_stream_is_classified_by_its_code(event, expected):
    error = amid_a_stream(event, {"message": "m"})
    assert error.response["Error"]["Code"] == event
    assert classify(error) == Classification(expected)


@table(
    ("code", "expected"),
    [
        ("InternalServerError", "server"),
        ("InternalServerException", "server"),
        ("modelTimeoutException", "timeout"),
        ("accessDeniedException", "auth"),
        ("resourceNotFoundException", "invalid_input"),
        ("somethingNewException", "unknown"),
    ],
)
def test_code_of_aws_is_known_in_lower_camel_case(code, expected):
    error = botocore.exceptions.EventStreamError({"Error": {"Code": code, "Message": "m"}}, "InvokeModel")
    assert classify(error) == Classification(expected)


def test_status_decides_if_the_code_of_aws_is_not_text():
    assert classify(client_error(["x"], 503)).error_class == "server"


def test_unknown_code_of_aws_without_a_status_has_class_unknown():
    assert classify(botocore.exceptions.ClientError({"Error": {"Code": "New"}}, "x")).error_class == "unknown"
    assert classify(botocore.exceptions.ClientError({}, "x")).error_class == "unknown"


def test_reads_the_wait_in_the_headers_of_aws():
    assert classify(client_error("SlowDown", 503, {"retry-after": "7"})) == Classification("rate_limited", 7)
    assert classify(client_error("AccessDenied", 403, {"retry-after": "7"})) == Classification("auth")
    assert classify(client_error("SlowDown", 503, {"retry-after": 10**400})) == Classification("rate_limited")


@pytest.fixture
def make_client():
    def make(endpoint, **credentials):
        config = botocore.config.Config(connect_timeout=0.5, read_timeout=0.3, retries={"total_max_attempts": 1})
        session = botocore.session.get_session({"profile": (None, None, None, None)})
        session.set_credentials(**(credentials or {"access_key": "a", "secret_key": "b"}))
        return session.create_client("s3", region_name="us-east-1", endpoint_url=endpoint, config=config)

    return make


def raised(call):
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.slow
def test_classifies_errors_of_a_real_aws_client(make_client, unreachable, url):
    refused = raised(make_client(unreachable).list_buckets)
    assert isinstance(refused, botocore.exceptions.EndpointConnectionError)
    assert classify(refused) == Classification("transport")
    slow = raised(make_client(f"{url}/slow").list_buckets)
    assert isinstance(slow, botocore.exceptions.ReadTimeoutError)
    assert classify(slow) == Classification("timeout")
    limited = raised(lambda: make_client(f"{url}/status/503").head_bucket(Bucket="b"))
    assert isinstance(limited, botocore.exceptions.ClientError)
    assert classify(limited).error_class == "server"
    wrong = raised(lambda: make_client(url).head_bucket(Bucket="b", Colour=5))
    assert isinstance(wrong, botocore.exceptions.ParamValidationError)
    assert classify(wrong) == Classification("invalid_input")


@table(
    ("error", "expected"),
    [
        (botocore.exceptions.ConnectTimeoutError(endpoint_url="x"), "timeout"),
        (botocore.exceptions.ConnectionClosedError(endpoint_url="x"), "transport"),
        (botocore.exceptions.SSLError(endpoint_url="x", error="e"), "transport"),
        (botocore.exceptions.ProxyConnectionError(proxy_url="x"), "transport"),
        (botocore.exceptions.HTTPClientError(error="e"), "transport"),
        (botocore.exceptions.NoCredentialsError(), "auth"),
        (botocore.exceptions.TokenRetrievalError(provider="p", error_msg="m"), "auth"),
        (botocore.exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), "transport"),
        (botocore.exceptions.NoRegionError(), "invalid_input"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_classifies_other_types_of_botocore(error, expected):
    assert classify(error) == Classification(expected)
