"""Code that opens its own connections reaches public addresses only."""

import socket
import threading

import pytest

from switchgear_alerts.wall import RefusedAddressError, Wall, walled
from tests.support.table import table


@table(
    "address",
    [
        ("127.0.0.1", 9), ("10.0.0.7", 9), ("169.254.169.254", 80), ("::1", 9, 0, 0), ("fd00::1", 9, 0, 0),
        ("fe80::1%lo", 9, 0, 0), "/var/run/docker.sock", ("localhost", 9), (),
    ],
)  # fmt: skip
def test_a_private_address_a_path_and_an_unresolved_name_are_refused(address):
    wall = Wall("hooks.example.com")
    with pytest.raises(RefusedAddressError, match="not a public address"):
        wall.check(address)
    assert wall.refused is not None


@table("address", [("93.184.215.14", 443), ("2606:4700::6810:84e5", 443, 0, 0)])
def test_a_public_address_passes(address):
    Wall("hooks.example.com").check(address)


@table("host", ["localhost", "127.0.0.1", "::1"])
def test_this_machine_passes_if_the_configuration_names_it(host):
    Wall(host).check(("127.0.0.1", 9))


def test_a_connection_is_refused_before_it_is_made_and_only_inside_the_wall():
    wall = Wall("hooks.example.com")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        with pytest.raises(RefusedAddressError), wall.around():
            socket.create_connection(server.getsockname())
        with pytest.raises(BlockingIOError):
            server.accept()
        socket.create_connection(server.getsockname()).close()
        server.accept()[0].close()


def test_a_packet_without_a_connection_is_refused():
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        pytest.raises(RefusedAddressError),
        Wall("example.com").around(),
    ):
        sender.sendto(b"x", ("127.0.0.1", 9))


def test_the_wall_is_around_a_function_in_whichever_thread_it_runs():
    wall = Wall("hooks.example.com")
    found = []

    def connect():
        try:
            socket.create_connection(("127.0.0.1", 9))
        except OSError as error:
            found.append(type(error))

    thread = threading.Thread(target=walled(connect, wall))
    thread.start()
    thread.join()
    assert found == [RefusedAddressError]
