"""`/v1/retention` over a ClickHouse server: the tests it passes on the embedded engine."""

from tests.integration.sinks.api import test_retention
from tests.support.again import again

globals().update(again(test_retention, fixtures=["api"]))
