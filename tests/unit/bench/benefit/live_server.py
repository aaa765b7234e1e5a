"""A local endpoint that answers as a model with a script does, in both formats."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = list[list[tuple[str, dict[str, Any]]]]
"""The calls of each turn; an empty turn is an answer."""


class ScriptedEndpoint:
    """The script goes on by one turn with each answer that the conversation already has.

    Attributes:
        url: Its address.
        requests: The bodies that it got.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        place = sum(message["role"] == "assistant" for message in body["messages"])
        calls = self.script[place] if place < len(self.script) else []
        ids = [(f"call{place}.{number}", name, arguments) for number, (name, arguments) in enumerate(calls)]
        if path == "/messages":
            used = [{"type": "tool_use", "id": key, "name": name, "input": given} for key, name, given in ids]
            usage = {
                "input_tokens": 3,
                "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": 20,
                "output_tokens": 5,
            }
            return {"content": [{"type": "text", "text": "so"}, *used], "usage": usage}
        made = [
            {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for key, name, given in ids
        ]
        usage = {"prompt_tokens": 30, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20}}
        return {"choices": [{"message": {"content": "so", "tool_calls": made or None}}], "usage": usage}


@contextmanager
def scripted_endpoint(script: Script) -> Iterator[ScriptedEndpoint]:
    """Serve a script on a free port of this machine."""
    endpoint = ScriptedEndpoint(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            endpoint.requests.append(body)
            endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = json.dumps(endpoint.answer(self.path, body)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
