"""The MCP server that agents ask about tools (``switchgear mcp``): a client of the HTTP API, with its tokens and roles."""
