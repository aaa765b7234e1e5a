"""An agent with the Python client. It does what the conductor says; see :mod:`tests.support.agents`."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from typing import Any

from switchgear import BreakerPolicy, Switchgear
from tests.support.limits import HAPPEN_S


class Agent:
    """Makes guarded calls of the shared tool, and counts how they ended."""

    def __init__(self, name: str, gear: Switchgear, tool: socket.socket) -> None:
        self._name = name
        self._gear = gear
        self._tool = tool
        self.found: dict[str, Any] = {}
        self.fresh()

    def fresh(self) -> None:
        """Count from zero."""
        self.found = {"ok": 0, "failed": 0, "refused": 0, "probes": 0, "text": None}

    def call(self, circuit: str) -> None:
        """Make one call, unless it is refused."""
        permit = self._gear.try_acquire(circuit)
        if not permit:
            self.found["refused"] += 1
            self.found["text"] = permit.text
            return
        self.found["probes"] += bool(permit.lease_id)
        self._tool.sendall(b"p" if permit.lease_id else b"c")
        if self._tool.recv(1) == b"+":
            self.found["ok"] += 1
            permit.success()
        else:
            self.found["failed"] += 1
            permit.failure(ConnectionError(f"broken, says {self._name}"))

    def status(self, circuit: str) -> dict[str, Any]:
        """Return what the agent would say to its model about the tool."""
        return {"available": not self._gear.is_open(circuit), "mode": self._gear.status().mode}


def main(name: str, conductor_port: str, tool_port: str, servers: str, prefix: str, token: str) -> None:
    """Do what the conductor says until it closes the connection."""
    # The process's own breaker is off: it would hide a probe too many.
    options: dict[str, Any] = {"service": name, "local_policies": BreakerPolicy(mode="disabled")}
    options |= {"token": token} if token else {}
    options |= {} if servers.startswith("http") else {"topic_prefix": prefix}
    gear = Switchgear(servers, **options)
    assert gear.start(HAPPEN_S), gear.status()
    tool = socket.create_connection(("127.0.0.1", int(tool_port)))
    tool.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    conductor = socket.create_connection(("127.0.0.1", int(conductor_port)))
    lines = conductor.makefile("rw")
    agent = Agent(name, gear, tool)

    def answer(value: dict[str, Any]) -> None:
        lines.write(json.dumps(value) + "\n")
        lines.flush()

    answer({"name": name})
    for line in lines:
        asked = json.loads(line)
        if asked["do"] == "call":
            agent.fresh()
            for _ in range(asked["times"]):
                agent.call(asked["tool"])
            answer(agent.found | {"flushed": gear.flush(asked["flush_s"])})
        elif asked["do"] == "loop":
            agent.fresh()
            while not select.select([conductor], [], [], 0)[0]:
                agent.call(asked["tool"])
                time.sleep(0.01)
        elif asked["do"] == "stop":
            answer(agent.found | {"flushed": gear.flush(HAPPEN_S)})
        else:
            answer(agent.status(asked["tool"]))
    gear.close(2)


if __name__ == "__main__":
    main(*sys.argv[1:])
