"""Is a broker ready? One Metadata request over a plain socket: no client, no event loop, no thread."""

from __future__ import annotations

import socket
import struct
from typing import Final

# api_key 3 (Metadata), version 1, correlation id 1, client id null, and an empty topic list: brokers only.
_REQUEST: Final = struct.pack(">hhihi", 3, 1, 1, -1, 0)
_HEADER: Final = struct.Struct(">iii")  # size, correlation id, number of brokers


def brokers_online(host: str, port: int, timeout_s: float = 1.0) -> int:
    """How many brokers the broker at this address reports as usable; 0 where none answers within ``timeout_s``.

    An open port is not enough: the listener opens before the controller has let the broker in, and a topic created
    in between fails for want of a replica.
    """
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            answer = b""
            while len(answer) < _HEADER.size:
                part = connection.recv(_HEADER.size - len(answer))
                if not part:
                    return 0
                answer += part
    except OSError:
        return 0
    _size, correlation, brokers = _HEADER.unpack(answer)
    return max(int(brokers), 0) if correlation == 1 else 0
