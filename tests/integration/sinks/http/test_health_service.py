"""The reference documents' ToolHealthService over HTTP: the tests it passes on the embedded engine, against a server."""

import pytest

from tests.support.again import again
from tests.unit.sinks.health import test_service

pytestmark = pytest.mark.deep
globals().update(again(test_service, fixtures=["service"]))
