"""Set up pytest before it imports the tests."""

import pytest

# Without this, a failed assert in a helper of the tests doesn't show its values.
pytest.register_assert_rewrite("tests.support")

pytest_plugins = ["tests.support.costs"]
