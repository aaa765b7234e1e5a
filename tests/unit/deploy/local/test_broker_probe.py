"""A broker counts if it answers in Kafka's protocol, in time, and for the cluster that is asked for."""

import socket
import struct
from contextlib import contextmanager
from threading import Thread

import pytest

from switchgear_cli.local.broker_probe import brokers_online
from tests.support.limits import ANSWER_S
from tests.support.table import table

REQUEST_BYTES = 4 + 14


def text(value):
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()


def metadata(*, brokers=1, cluster="cluster-1", correlation=1):
    """An answer to a request for metadata, version 2."""
    each = struct.pack(">i", 1) + text("127.0.0.1") + struct.pack(">i", 9092) + text(None)
    body = struct.pack(">ii", correlation, brokers) + each * brokers + text(cluster) + struct.pack(">ii", 1, 0)
    return struct.pack(">i", len(body)) + body


@contextmanager
def answering(answer):
    """A server that reads one request and answers with these bytes; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                received = b""
                while len(received) < REQUEST_BYTES:
                    received += connection.recv(REQUEST_BYTES)
                connection.sendall(answer)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(ANSWER_S)


@pytest.mark.parametrize("brokers", [0, 1, 3])
def test_the_brokers_of_an_answer_are_counted(brokers):
    with answering(metadata(brokers=brokers)) as port:
        assert brokers_online("127.0.0.1", port) == brokers


@pytest.mark.parametrize(("asked", "online"), [("cluster-1", 1), ("cluster-2", 0), (None, 1)])
def test_a_broker_of_another_cluster_does_not_count(asked, online):
    with answering(metadata()) as port:
        assert brokers_online("127.0.0.1", port, cluster_id=asked) == online


@table(
    "answer",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", metadata()[:-20], metadata(correlation=7), metadata(brokers=-1)],
    ids=["nothing", "HTTP", "half an answer", "another correlation", "less than none"],
)
def test_anything_but_an_answer_of_kafka_is_no_broker(answer):
    with answering(answer) as port:
        assert brokers_online("127.0.0.1", port, 0.5) == 0
