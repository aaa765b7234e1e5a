"""The reference documents' ToolHealthService over HTTP: the tests it passes on the embedded engine, against a server."""

from tests.support.again import again
from tests.unit.sinks.health import test_service

globals().update(again(test_service, fixtures=["service"]))
