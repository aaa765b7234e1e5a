"""The command hook of Claude Code: asks the circuit before each tool call, and records how the call ended."""
