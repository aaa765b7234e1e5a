"""The real HTTP API over a store, on a port of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_schemas.settings import Settings
from switchgear_sinks.store import Store
from tests.support.limits import ANSWER_S


@contextmanager
def serving(store: Store, settings: Settings) -> Iterator[str]:
    """Serve the API in a thread while the block runs, and return its address."""
    app = create_app(store, settings, registry=CollectorRegistry())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 10
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.started
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(ANSWER_S)
        assert not thread.is_alive()
