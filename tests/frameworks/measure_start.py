"""What the MCP proxy costs before its first call: processor time, memory, and the time to the first answer.

python -m tests.frameworks.measure_start      prints JSON, one object for each start
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import psutil

from tests.frameworks.measure_proxy import BARE
from tests.frameworks.proxies import PROXY, ROOT, environment

RAW: Final = (sys.executable, "-S", str(ROOT / "tests/support/raw_mcp_server.py"))
WAYS: Final = {
    "direct": RAW,
    "plain": (*BARE, "plain", *RAW),
    "ours": (*PROXY, "--name", "raw", "--", *RAW),
}
ROUNDS: Final = 5
_HELLO: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "m", "version": "1"}}


def measure(command: Sequence[str]) -> dict[str, Any]:
    """Return processor seconds and MB of a process after a handshake and a list, and the seconds until then."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for number, method, params in ((1, "initialize", _HELLO), (2, "tools/list", {})):
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        while json.loads(process.stdout.readline()).get("id") != number:
            pass  # a notification
    took, seen = time.perf_counter() - began, psutil.Process(process.pid)
    times = seen.cpu_times()
    found = {"s": took, "cpu_s": times.user + times.system, "mb": seen.memory_info().rss / 1_000_000}
    process.stdin.close()
    process.wait(30)
    return found


if __name__ == "__main__":
    for _ in range(ROUNDS):
        for name, command in WAYS.items():
            print(json.dumps({"way": name} | measure(command)), flush=True)
