"""The guarding proxy for MCP servers, and the rewriting of clients' configurations to use it."""
