"""What an attack must never touch: a file with a secret, and a server that counts its requests."""

from __future__ import annotations

import http.server
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.http_server import served

SECRET = "the-secret-itself"


@dataclass
class Listener:
    """A web server that must get no request."""

    address: str
    asked: list[str] = field(default_factory=list)
    """The first line of each request."""

    @property
    def url(self) -> str:
        return f"http://{self.address}/x"


@contextmanager
def listening() -> Iterator[Listener]:
    """Start the server on a free port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            found.asked.append(self.rfile.readline(1000).decode(errors="replace"))
            self.close_connection = True

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Listener(f"127.0.0.1:{server.server_port}")
    with served(server):
        yield found


@dataclass(frozen=True)
class World:
    """A folder with a secret, and the server."""

    folder: Path
    listener: Listener

    @classmethod
    def in_folder(cls, folder: Path, listener: Listener) -> World:
        (folder / "secret.txt").write_text(f"{SECRET}\n")
        return cls(folder, listener)

    def filled(self, attempt: str) -> str:
        """Return an attempt with values for ``{folder}``, ``{secret}``, ``{url}`` and ``{address}``."""
        filled = attempt.replace("{folder}", str(self.folder)).replace("{secret}", str(self.folder / "secret.txt"))
        return filled.replace("{url}", self.listener.url).replace("{address}", self.listener.address)

    def traces(self) -> list[str]:
        """Return the traces of an attempt: files that it wrote and requests that it sent."""
        return [path.name for path in self.folder.iterdir() if path.name != "secret.txt"] + self.listener.asked
