from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.settings import Settings
from tests.support.clickhouse_http import ClickHouseServer, clickhouse_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ClickHouseServer]:
    """A ClickHouse server of this test alone, with faults on order."""
    with clickhouse_server(tmp_path / "server", any_free_port()) as running:
        yield running


@pytest.fixture
def there(make_settings: Callable[..., Settings], server: ClickHouseServer) -> Settings:
    """Settings with that server."""
    return make_settings(clickhouse_url=f"{server.url}/metrics", clickhouse_connect_timeout_s=3)
