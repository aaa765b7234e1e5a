"""Run `switchgear` with an MCP proxy that waits a minute for a server, as long as a loaded machine may need to start one.

python patient.py mcp-proxy …
"""

from __future__ import annotations

from switchgear_cli.main import main
from switchgear_mcp import hello, lists

if __name__ == "__main__":
    hello.HELLO_LIMIT_S = lists.LIST_LIMIT_S = 60.0  # type: ignore[misc]
    main()
