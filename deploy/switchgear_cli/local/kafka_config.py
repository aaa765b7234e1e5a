"""``server.properties`` of a broker that is its own controller (KRaft), reachable from this machine alone."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

NODE_ID: Final = 1
HOST: Final = "127.0.0.1"
# Above the largest max.message.bytes of our topics, which a follower or consumer must be able to fetch whole.
_MESSAGE_MAX_BYTES: Final = 16 * 1024 * 1024


def server_properties(log_dir: Path, port: int, controller_port: int) -> str:
    """The broker's configuration as Java properties.

    Args:
        log_dir: Kafka's ``log.dirs``: the messages and the cluster's metadata.
        port: For clients, on 127.0.0.1.
        controller_port: For the broker's talk to itself; another each start.
    """
    properties = {
        "process.roles": "broker,controller",
        "node.id": NODE_ID,
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "log.dirs": _escaped(log_dir),
        "message.max.bytes": _MESSAGE_MAX_BYTES,
        "replica.fetch.max.bytes": _MESSAGE_MAX_BYTES,
        # A mistyped topic name must fail, not make a topic with the wrong settings.
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        # Nobody else is about to join: waiting for them (3 s by default) only delays a restart.
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        "controlled.shutdown.max.retries": 1,
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def _escaped(path: Path) -> str:
    """A path as a Java properties value, where a backslash escapes and a comma separates folders."""
    text = str(path.absolute())
    if "," in text:
        raise ValueError(f"Kafka cannot keep its data in a folder with a comma in its name: {text}")
    encoded = text.replace("\\", "\\\\").encode("utf-16-be")
    units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in units)
