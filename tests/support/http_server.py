"""A server of ``http.server`` in a thread of the test process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from typing import Final

_ENDS_WITHIN_S: Final = 0.02
"""By default the server looks each half second whether it shall end, and each test would wait for that."""


@contextmanager
def served(server: HTTPServer) -> Iterator[str]:
    """Serve while the block runs. Yield the URL, without a slash at its end."""
    thread = threading.Thread(target=server.serve_forever, args=(_ENDS_WITHIN_S,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
