"""Which server a tool belongs to, and which partition owns a circuit. No code of the product computes it."""

from __future__ import annotations

from aiokafka.partitioner import murmur2

SUFFIX = "|family"


def server_of(tool: str) -> str | None:
    """Return the server of a tool, such as ``mcp:one`` of ``mcp:one:search``. None if the tool belongs to none."""
    parts = tool.split(":", 2)
    return ":".join(parts[:2]) if len(parts) == 3 and parts[0] == "mcp" and all(parts) else None


def server_circuit(server: str) -> str:
    """Return the id of a server's circuit."""
    return f"{server}{SUFFIX}"


def circuits_of(tool: str) -> tuple[str, ...]:
    """Return the circuits that count the calls of a tool: its own, and that of its server if it has one."""
    server = server_of(tool)
    return (tool,) if server is None else (tool, server_circuit(server))


def is_of_server(circuit: str) -> bool:
    """Return whether the circuit is a server's."""
    return circuit.endswith(SUFFIX)


def owner(circuit: str, partitions: int) -> int:
    """Return the partition of a tool or of a server, by name or circuit id: that of its key, by Kafka's default partitioner."""
    name = circuit.removesuffix(SUFFIX)
    return int(murmur2((server_of(name) or name).encode()) & 0x7FFFFFFF) % partitions
