"""Serve the console's pages and their files.

The pages are one HTML document, one script and one style sheet. ``npm run bundle`` in this folder makes ``assets/console.js`` and
``assets/console.css`` from the files in ``assets/js``, ``assets/css`` and ``assets/vendor``, because a browser takes a quarter of a second longer
for fifty files than for one. Both are kept in the repository, so users need no Node.js, and a test compares them with their sources.

The address of every file has a hash of all files in it, so browsers keep files without asking again, and a new release never mixes with an old
one.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from switchgear_http.headers import SECURITY_HEADERS, takes_gzip

ASSETS: Final = Path(__file__).parent / "assets"
PAGES: Final = (
    "/",
    "/tool/{name:path}",
    "/timeline",
    "/lab",
    "/calls",
    "/sql",
    "/dead",
    "/system",
    "/audit",
    "/login",
)
"""The paths that answer with the document. Its script shows the page."""
PAGE_HEADERS: Final = {**SECURITY_HEADERS, "cross-origin-resource-policy": "same-origin"}
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_DOCUMENT: Final = "index.html"
_LOGIN: Final = "/login"
_NEEDED: Final = ("/v1/console/now?minutes=60", "/v1/session")
"""What the script asks for first on each page but the login. Browsers load it together with the script."""
_PRELOAD: Final = {"Link": ", ".join(f"<{address}>; rel=preload; as=fetch; crossorigin" for address in _NEEDED)}
_PREFIX: Final = "/assets/"
_FOREVER: Final = "public, max-age=31536000, immutable"


@functools.lru_cache(64)  # once a process: it takes a third of the start of an application
def _compressed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    compressed: bytes
    media_type: str
    etag: str

    @classmethod
    def of(cls, content: bytes, media_type: str) -> _File:
        return cls(
            content,
            _compressed(content),
            media_type,
            f'"{hashlib.sha256(content).hexdigest()[:20]}"',
        )

    def answer(self, request: Request, cache: str, headers: dict[str, str] | None = None) -> Response:
        held = {"ETag": self.etag, "Cache-Control": cache, "Vary": "Accept-Encoding"} | PAGE_HEADERS | (headers or {})
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=held)
        if takes_gzip(request.headers):
            return Response(self.compressed, headers=held | {"Content-Encoding": "gzip"}, media_type=self.media_type)
        return Response(self.content, headers=held, media_type=self.media_type)


class ConsolePages:
    """The routes of the console's pages.

    Args:
        folder: The folder with the files. They are read once.
    """

    def __init__(self, folder: Path = ASSETS) -> None:
        contents = {
            str(path.relative_to(folder).as_posix()): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in _TYPES
        }
        document = (folder / _DOCUMENT).read_text()
        whole = hashlib.sha256(document.encode())
        for name, content in contents.items():
            whole.update(name.encode() + b"\0" + content + b"\0")
        self.base = f"{_PREFIX}{whole.hexdigest()[:16]}"
        """The folder of the files in addresses."""
        self._files = {name: _File.of(content, _TYPES[Path(name).suffix]) for name, content in contents.items()}
        text = document.replace("%ASSETS%", self.base)
        self._document = _File.of(text.encode(), "text/html; charset=utf-8")

    @property
    def routes(self) -> list[Route]:
        """The routes of the document and of the files."""
        return [
            *(Route(path, self._show, methods=["GET"]) for path in PAGES),
            Route(_PREFIX + "{build}/{name:path}", self._asset, methods=["GET"]),
        ]

    async def _show(self, request: Request) -> Response:
        return self._document.answer(request, "no-cache", None if request.url.path == _LOGIN else _PRELOAD)

    async def _asset(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        if found is None or not request.url.path.startswith(self.base + "/"):
            raise HTTPException(404)
        return found.answer(request, _FOREVER)
