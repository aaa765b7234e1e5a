"""A small MCP server without a framework, over standard streams: it starts in milliseconds and sends any bytes.

python raw_mcp_server.py [tools]      tools: in JSON, the list of tools, or the whole answer to tools/list
"""

import json
import os
import sys
import time
from typing import Any, BinaryIO

TOOLS: list[dict[str, Any]] = [
    {"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "environment", "arguments", "text", "values")
]
BEGIN = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"'
END = b'"}]}}\n'


def main() -> None:
    """Answer until the input ends."""
    tools = json.loads(sys.argv[1]) if len(sys.argv) > 1 else TOOLS
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        number, method, params = asked["id"], asked.get("method"), asked.get("params") or {}
        result: dict[str, Any]
        if method == "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": tools} if isinstance(tools, list) else tools
        elif method == "tools/call" and params["name"] in {"text", "values"}:
            large(out, number, params["name"], params["arguments"])
            continue
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": called(params)}]}
        else:
            result = {"prompts": [], "resources": [], "resourceTemplates": []}
        out.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n")
        out.flush()


def called(params: dict[str, Any]) -> str:
    """Return the text of a small result."""
    name, given = params["name"], params.get("arguments") or {}
    if name == "environment":
        return json.dumps(dict(os.environ))
    if name == "arguments":
        return json.dumps(sys.argv)
    time.sleep(given.get("seconds", 0))
    return str(given.get("text", ""))


def large(out: BinaryIO, number: int, kind: str, given: dict[str, Any]) -> None:
    """Answer with so many bytes of one text, or of structured content with very many values."""
    size = given["bytes"]
    out.write(BEGIN % number)
    if kind == "text":
        piece = given.get("of", "x").encode() * (65_536 // len(given.get("of", "x")))
        out.writelines(piece for _ in range(size // len(piece)))
        out.write(END)
    else:
        out.write(b'"}],"structuredContent":{"a":[0')
        out.writelines(b",[]" * 10_000 for _ in range(size // 30_000))
        out.write(b"]}}}\n")
    out.flush()


if __name__ == "__main__":
    main()
