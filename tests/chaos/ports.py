"""Ports that stay ours: a server that is killed and started again finds its port free."""

from __future__ import annotations

import random
from pathlib import Path

from switchgear_cli.local.ports import is_free

LOWEST = 12_000


def steady_ports(count: int) -> list[int]:
    """Free ports below those that the kernel gives to clients.

    Among the clients' ports a client that retries a dead server of this machine may be given the server's own port, connect to
    itself, and keep it.
    """
    range_file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first_of_clients = int(range_file.read_text().split()[0]) if range_file.exists() else 32_768
    start = random.randrange(LOWEST, max(LOWEST + 1, first_of_clients - 2_000))
    found = [port for port in range(start, first_of_clients) if is_free(port)][:count]
    if len(found) < count:
        raise RuntimeError(f"No {count} free ports from {start} to {first_of_clients}.")
    return found
