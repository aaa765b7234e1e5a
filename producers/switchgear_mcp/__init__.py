"""The MCP proxy: messages pass as the bytes that came, and only tool calls and lists of tools are looked at."""
