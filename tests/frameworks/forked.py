"""The proxy and the small server, forked from a process that has imported their packages: most of their start is imports.

Each is a command as in ``proxies.py``, for a client or the proxy to start. Where a start or an end is the subject, use those.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

from tests.frameworks import proxies
from tests.support.warm import REQUEST_BYTES, Server

_IMPORTED: Final = (
    "fastmcp.server.dependencies",
    "fastmcp.server.http",
    "mcp.server.stdio",
    "mcp.server.streamable_http_manager",
    "mcp_types",
    "switchgear_cli.commands.mcp_proxy",
    "switchgear_cli.main",
    "switchgear_mcp.front",
    "switchgear_mcp.hello",
    "switchgear_mcp.lists",
    "switchgear_mcp.run",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.h11_impl",
)
_folder: Final = tempfile.TemporaryDirectory()
_address: Final = str(Path(_folder.name) / "forks")
_START: Final = (sys.executable, "-S", "-E", str(proxies.ROOT / "tests/frameworks/start_forked.py"), _address)
PATIENT: Final = (*_START, *proxies.PATIENT[1:])
SMALL: Final = (*_START, *proxies.SMALL[1:])


def _pass_on(listening: socket.socket) -> None:
    server = Server(_IMPORTED)
    while True:
        asks, _ = listening.accept()
        with asks:
            request, files, _, _ = socket.recv_fds(asks, REQUEST_BYTES, 3)
            server.pass_on(request, [asks.fileno(), *files])
        for file in files:
            os.close(file)


_listening: Final = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
_listening.bind(_address)
_listening.listen()
threading.Thread(target=_pass_on, args=(_listening,), daemon=True).start()
