"""The API on a real port, for the commands that ask it; and what readers' SQL must not reach."""

import asyncio
import threading

import pytest
from prometheus_client import CollectorRegistry

from switchgear_api.app import create_app
from switchgear_http.server import make_server
from switchgear_http.sockets import listen, url_of
from switchgear_schemas.settings import Settings
from tests.support.canary import World, listening
from tests.support.engine_fixtures import engine, store
from tests.support.limits import ANSWER_S
from tests.support.waiting import until

__all__ = ["engine", "store"]


@pytest.fixture
def api_url(store, tmp_path, monkeypatch):
    """The server in a thread, as the sink serves it; SWITCHGEAR_API_URL names it."""
    app = create_app(store, Settings(sql_max_rows=5), registry=CollectorRegistry())
    with listen("127.0.0.1:0", "SWITCHGEAR_API_HTTP") as listening:
        server = make_server(app)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
        thread.start()
        until(lambda: server.started)
        monkeypatch.setenv("SWITCHGEAR_API_URL", url_of(listening))
        monkeypatch.setenv("SWITCHGEAR_DATA_DIR", str(tmp_path))
        yield url_of(listening)
        server.stop()
        thread.join(ANSWER_S)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def listener():
    """A server on this machine that an attempt may reach."""
    with listening() as found:
        yield found


@pytest.fixture
def world(tmp_path, monkeypatch, listener):
    """A folder with a secret, which is the working directory too, and what the attempts' placeholders stand for."""
    monkeypatch.chdir(tmp_path)
    listener.asked.clear()
    return World.in_folder(tmp_path, listener)
