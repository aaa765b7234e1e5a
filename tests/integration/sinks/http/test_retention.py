"""`/v1/retention` over a ClickHouse server: the tests it passes on the embedded engine."""

import pytest

from tests.integration.api import test_retention
from tests.support.again import again

pytestmark = pytest.mark.deep
globals().update(again(test_retention, fixtures=["api"]))
