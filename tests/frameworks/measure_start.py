"""What the MCP proxy costs before its first call: processor time, memory, and the time to the first answer.

python -m tests.frameworks.measure_start      prints JSON, one object for each round
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any, Final

import psutil

from tests.frameworks.proxies import PROXY, ROOT, environment

RAW: Final = (sys.executable, "-S", str(ROOT / "tests/support/raw_mcp_server.py"))
ROUNDS: Final = 5
_HELLO: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "m", "version": "1"}}


def measure() -> dict[str, Any]:
    """Return processor seconds and MB of the proxy after a handshake and a list, and the seconds until then."""
    began = time.perf_counter()
    process = subprocess.Popen(
        (*PROXY, "--name", "raw", "--", *RAW), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for number, method, params in ((1, "initialize", _HELLO), (2, "tools/list", {})):
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == number
    took, seen = time.perf_counter() - began, psutil.Process(process.pid)
    times = seen.cpu_times()
    found = {"s": took, "cpu_s": times.user + times.system, "mb": seen.memory_info().rss / 1_000_000}
    process.stdin.close()
    process.wait(30)
    return found


if __name__ == "__main__":
    for _ in range(ROUNDS):
        print(json.dumps(measure()), flush=True)
