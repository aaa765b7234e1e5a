"""Ask a broker which cluster it is of, and how many brokers are usable, in one small request."""

from __future__ import annotations

import socket
import struct
from typing import Final

# api_key 3 (Metadata), version 2, correlation id 1, client id null, and an empty topic list: brokers only.
_REQUEST: Final = struct.pack(">hhihi", 3, 2, 1, -1, 0)
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_ANSWER_BYTES: Final = 1024 * 1024


def brokers_online(host: str, port: int, timeout_s: float = 1.0, *, cluster_id: str | None = None) -> int:
    """Return how many brokers the broker at this address reports as usable.

    0 if none answers within ``timeout_s``, or if it is of another cluster than ``cluster_id``.

    An open port is not enough: the listener opens before the controller has admitted the broker. A topic created in
    between fails, because it has no replica.
    """
    try:
        with (
            socket.create_connection((host, port), timeout=timeout_s) as connection,
            connection.makefile("rb") as answers,
        ):
            connection.settimeout(timeout_s)
            connection.sendall(_INT.pack(len(_REQUEST)) + _REQUEST)
            (size,) = _INT.unpack(answers.read(_INT.size))
            brokers, cluster = _decoded(answers.read(min(size, _ANSWER_BYTES)))
    except (OSError, ValueError, struct.error):
        return 0
    return brokers if cluster_id is None or cluster == cluster_id else 0


def _decoded(answer: bytes) -> tuple[int, str | None]:
    """Return the number of brokers and the cluster's id.

    Raises:
        ValueError: It is not an answer to our request.
        struct.error: It ends too soon.
    """
    correlation, brokers = struct.unpack_from(">ii", answer)
    if correlation != 1 or brokers < 0:
        raise ValueError("not an answer of Kafka")
    place = 8
    for _ in range(brokers):
        place += _INT.size  # the broker's number
        _host, place = _text(answer, place)
        place += _INT.size  # its port
        _rack, place = _text(answer, place)
    return brokers, _text(answer, place)[0]


def _text(answer: bytes, place: int) -> tuple[str | None, int]:
    """Return the text at a place, None for null, and the place after it."""
    (length,) = _SHORT.unpack_from(answer, place)
    place += _SHORT.size
    return (None, place) if length < 0 else (answer[place : place + length].decode(), place + length)
