import asyncio
from collections.abc import Iterator

import pytest

from switchgear_cli.local.ports import any_free_port
from switchgear_schemas.settings import Settings
from switchgear_sinks.migrations import migrate
from switchgear_sinks.store import Store, open_store
from tests.support.clickhouse_http import clickhouse_server


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Store]:
    """A store that is a ClickHouse server's, reached over HTTP."""

    async def opened(url: str) -> Store:
        store = await open_store(Settings(clickhouse_url=url, clickhouse_connect_timeout_s=5))
        await migrate(store)
        return store

    with clickhouse_server(tmp_path_factory.mktemp("server"), any_free_port()) as server:
        store = asyncio.run(opened(f"{server.url}/switchgear"))
        assert not store.embedded
        try:
            yield store
        finally:
            asyncio.run(store.close())
