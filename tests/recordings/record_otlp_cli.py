"""Record the logs that coding agents export for tool calls, as OTLP protobuf files for the unit tests. See record_otlp.py.

The program runs with a home folder of its own, against a scripted model on this machine, which asks for a shell command that fails and
for two calls of an MCP server::

    python tests/recordings/record_otlp_cli.py claude_code tests/unit/producers/gateway/otlp/samples claude

The sample has the records of tools only, without what names a machine, an account or a folder. ``telemetry.recorded_with`` of its
resource names the version.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

SERVER = """
import json, sys

TOOL = {"name": "get_forecast", "description": "Return tomorrow's weather.",
        "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "weather", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        failed = params["arguments"]["city"] == "Rome"
        text = "connection refused" if failed else "sunny"
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    return {} if method == "ping" else None

for line in sys.stdin:
    given = json.loads(line)
    if "id" in given and "method" in given:
        result = answer(given["method"], given.get("params", {}))
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": given["id"]} | said), flush=True)
"""
"""An MCP server over stdio, as small as can be: it starts at once, and both programs can talk to it."""
CALLS: list[tuple[str, dict[str, str]]] = [
    ("Bash", {"command": "sleep 8; exit 3", "description": "Fail"}),  # until then the MCP server is connected
    ("mcp__weather__get_forecast", {"city": "Oslo"}),
    ("mcp__weather__get_forecast", {"city": "Rome"}),
]
PRIVATE = ("user.", "organization.", "host.", "os.", "process.", "terminal.", "tool_input", "cwd", "device.", "account")
"""How the names of attributes begin that say who and where."""


class Scripted(BaseHTTPRequestHandler):
    """The model's API, and the receiver of logs."""

    exported: list[ExportLogsServiceRequest] = []  # noqa: RUF012 - each connection has a handler of its own
    asked = 0

    def do_POST(self) -> None:
        body = self._body()
        if self.path.startswith("/v1/logs"):
            self.exported.append(ExportLogsServiceRequest.FromString(body))
            self._answer("application/x-protobuf", b"")
        elif self.path.startswith("/v1/messages") and "count_tokens" not in self.path:
            self._message(json.loads(body))
        elif self.path.startswith("/v1/responses"):
            self._response(json.loads(body))
        else:
            self._answer("application/json", b'{"input_tokens": 1}')

    def do_GET(self) -> None:
        self._answer("application/json", b"{}")

    def log_message(self, *args: Any) -> None:
        """Print nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            found = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            found = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return gzip.decompress(found) if self.headers.get("Content-Encoding") == "gzip" else found

    def _answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _message(self, given: dict[str, Any]) -> None:
        """Ask for the next call if the program offers the tools, else say that all is done."""
        known = {tool.get("name") for tool in given.get("tools", [])}
        done = sum(
            isinstance(block, dict) and block.get("type") == "tool_result"
            for message in given["messages"]
            for block in (message["content"] if isinstance(message["content"], list) else [])
        )
        if done < len(CALLS) and CALLS[done][0] in known:
            name, arguments = CALLS[done]
            block: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{done}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
            reason = "tool_use"
        else:
            block, reason = {"type": "text", "text": ""}, "end_turn"
            delta = {"type": "text_delta", "text": "Done."}
        usage = {"input_tokens": 10, "output_tokens": 5}
        start = {
            "id": f"msg_{done}",
            "type": "message",
            "role": "assistant",
            "model": given.get("model"),
            "content": [],
        }
        events = [
            {"type": "message_start", "message": start | {"stop_reason": None, "stop_sequence": None, "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
        if given.get("stream"):
            lines = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
            self._answer("text/event-stream", lines.encode())
        else:
            content = [block | ({"text": "Done."} if reason == "end_turn" else {"input": CALLS[done][1]})]
            self._answer(
                "application/json",
                json.dumps(start | {"content": content, "stop_reason": reason, "usage": usage}).encode(),
            )

    def _response(self, given: dict[str, Any]) -> None:
        """The same for OpenAI's Responses API."""
        done = sum(each.get("type") == "function_call_output" for each in given["input"])
        if done < len(CALLS):
            known = [tool.get("name") for tool in given["tools"]]
            name, arguments = CALLS[done]
            space: dict[str, str] = {}
            if name == "Bash":
                name = next(each for each in ("exec_command", "shell_command", "shell") if each in known)
                arguments = {"cmd": arguments["command"], "command": arguments["command"]}
            elif name not in known:
                server, name = name.rpartition("__")[::2]
                space = {"namespace": server}
            item: dict[str, Any] = {
                "type": "function_call",
                "id": f"fc_{done}",
                "call_id": f"call_{done}",
                "name": name,
            }
            item |= space | {"arguments": json.dumps(arguments)}
        else:
            content = [{"type": "output_text", "text": "Done.", "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        events = [
            {"type": "response.created", "response": {"id": f"resp_{done}"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": f"resp_{done}", "usage": usage}},
        ]
        lines = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
        self._answer("text/event-stream", lines.encode())


def codex_cli(program: str, home: Path, url: str) -> str:
    """Run Codex CLI once, and return its version."""
    (home / "server.py").write_text(SERVER)
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        f"""
model = "scripted"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[otel]
environment = "test"
exporter = {{ otlp-http = {{ endpoint = "{url}/v1/logs", protocol = "binary" }} }}

[mcp_servers.weather]
command = "{sys.executable}"
args = ["{home / "server.py"}"]
default_tools_approval_mode = "approve"
required = true
"""
    )
    environment = {"HOME": str(home), "PATH": os.defpath, "SCRIPTED_KEY": "recording"}
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    ended = subprocess.run(
        [program, "exec", *options, "What is the weather?"],
        env=environment,
        cwd=home,
        timeout=200,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    print(ended.returncode, ended.stdout[-1500:], ended.stderr[-3000:])
    version = subprocess.run(
        [program, "--version"], env=environment, timeout=60, check=True, capture_output=True, text=True
    )
    return version.stdout.strip()


def claude_code(program: str, home: Path, url: str) -> str:
    """Run Claude Code once, and return its version."""
    (home / "server.py").write_text(SERVER)
    servers = {"mcpServers": {"weather": {"command": sys.executable, "args": [str(home / "server.py")]}}}
    (home / "servers.json").write_text(json.dumps(servers))
    environment = {
        "HOME": str(home),
        "PATH": os.defpath,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "recording",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "ENABLE_TOOL_SEARCH": "false",  # else the model has to search for the tools of MCP servers
        "IS_SANDBOX": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_LOGS_EXPORT_INTERVAL": "500",
        "OTEL_LOG_TOOL_DETAILS": "1",
        "OTEL_SERVICE_NAME": "claude-code",
    }
    command = [program, "-p", "What is the weather?", "--mcp-config", "servers.json", "--strict-mcp-config"]
    allowed = ["--allowedTools", "mcp__weather__get_forecast", "Bash"]
    ended = subprocess.run(
        [*command, *allowed],
        env=environment,
        cwd=home,
        timeout=240,
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    print(ended.returncode, ended.stdout[-500:], ended.stderr[-500:])
    version = subprocess.run(
        [program, "--version"], env=environment, timeout=60, check=True, capture_output=True, text=True
    )
    return version.stdout.strip()


AGENTS = {"claude_code": claude_code, "codex_cli": codex_cli}


def main(name: str, folder: str, program: str) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        version = AGENTS[name](program, Path(home), f"http://127.0.0.1:{server.server_port}")
    kept = ExportLogsServiceRequest()
    of_resource = kept.resource_logs.add()
    for key, value in {"service.name": name, "telemetry.recorded_with": version}.items():
        of_resource.resource.attributes.add(key=key).value.string_value = value
    for request in Scripted.exported:
        for given in request.resource_logs:
            for scope in given.scope_logs:
                wanted = [
                    each
                    for each in scope.log_records
                    if any("tool_" in one.value.string_value for one in each.attributes)
                ]
                if not wanted:
                    continue
                of_scope = of_resource.scope_logs.add(scope=scope.scope)
                for record in wanted:
                    attributes = [each for each in record.attributes if not each.key.startswith(PRIVATE)]
                    del record.attributes[:]
                    record.attributes.extend(attributes)
                    of_scope.log_records.append(record)
    path = Path(folder) / f"{name}.pb"
    path.write_bytes(kept.SerializeToString())
    print(path, path.stat().st_size, "bytes,", sum(len(each.log_records) for each in of_resource.scope_logs), "records")
    print(kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
