"""The seeds' ToolHealthService over HTTP: the tests it passes on the embedded engine, against a server."""

from tests.support.again import again
from tests.unit.sinks.health import test_seeds

globals().update(
    again(
        test_seeds, fixtures=["service"], without=["test_the_service_needs_its_table_and_says_so"]
    )  # of a chDB client
)
