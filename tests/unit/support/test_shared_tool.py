"""The shared tool of integration tests leaves nothing open."""

import asyncio
import gc
import socket
import warnings

import pytest

from tests.support.shared_tool import SharedTool
from tests.support.table import table

pytestmark = pytest.mark.deep


@table("turns", range(7))
def test_shared_tool_closes_a_connection_that_arrives_as_it_ends(turns):
    """After some turns of the event loop, the connection is accepted and has no handler yet."""

    async def call() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context)))
        async with SharedTool() as tool:
            with socket.create_connection(("127.0.0.1", tool.port)):
                for _ in range(turns):
                    await asyncio.sleep(0)

    reported: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.unraisablehook", lambda raised: reported.append(str(raised.exc_value)))
            asyncio.run(call())
            gc.collect()
    assert reported == []
