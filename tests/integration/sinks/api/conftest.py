"""The API on a real port, for the commands that ask it."""

import socket
import threading
import time

import pytest
import uvicorn
from prometheus_client import CollectorRegistry

from switchgear_schemas.settings import Settings
from switchgear_sinks.api import create_app


@pytest.fixture
def api_url(store, tmp_path, monkeypatch):
    """Uvicorn in a thread, as the sink serves it; SWITCHGEAR_API_URL names it."""
    app = create_app(store, Settings(sql_max_rows=5), registry=CollectorRegistry())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 10
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.started
        monkeypatch.setenv("SWITCHGEAR_API_URL", url)
        monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
        yield url
        server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()
