"""A server listens on its own socket, or on the one that `switchgear up` holds for it; an answer names the process."""

import os
import socket
import subprocess
import sys

import pytest

from switchgear_http.sockets import SOCKET_VARIABLE, listen, own_pid, url_of
from switchgear_schemas.errors import SettingsError
from switchgear_schemas.settings import load_settings
from tests.support.limits import ANSWER_S, HAPPEN_S


@pytest.fixture
def held():
    """A listening socket as `up` holds it."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held


def address_of(held):
    host, port = held.getsockname()
    return f"{host}:{port}"


@pytest.fixture
def inherited(held, monkeypatch):
    """The descriptor of the held socket in this process, as a child inherits it."""
    descriptor = os.dup(held.fileno())
    monkeypatch.setenv(SOCKET_VARIABLE, f"{address_of(held)}={descriptor}")
    return descriptor


def test_a_server_listens_on_the_address_of_its_setting():
    with listen("127.0.0.1:0", "SWITCHGEAR_X") as listening:
        assert url_of(listening) == f"http://127.0.0.1:{listening.getsockname()[1]}"
        socket.create_connection(listening.getsockname(), timeout=ANSWER_S).close()


def test_an_address_in_use_is_an_error_that_names_the_setting(held):
    with pytest.raises(SettingsError, match=r"cannot be listened on: Address already in use.*set SWITCHGEAR_X"):
        listen(address_of(held), "SWITCHGEAR_X")


def test_an_inherited_socket_is_used_and_its_end_leaves_the_one_of_the_parent(held, inherited):
    with listen(address_of(held), "SWITCHGEAR_X") as listening:
        assert listening.fileno() == inherited
        with socket.create_connection(held.getsockname(), timeout=ANSWER_S):
            listening.accept()[0].close()
    with socket.create_connection(held.getsockname(), timeout=ANSWER_S):
        held.accept()[0].close()


@pytest.mark.parametrize("fixture", [None, "inherited"])
def test_an_answer_in_two_writes_does_not_wait_for_the_client_between_them(held, fixture, request):
    address = "127.0.0.1:0"
    if fixture is not None:
        request.getfixturevalue(fixture)
        address = address_of(held)
    with listen(address, "SWITCHGEAR_X") as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_an_inherited_socket_is_not_handed_on(held, inherited):
    with listen(address_of(held), "SWITCHGEAR_X") as listening:
        assert not listening.get_inheritable()
        assert SOCKET_VARIABLE not in os.environ


def test_an_inherited_socket_of_another_address_is_left_alone(inherited):
    with listen("127.0.0.1:0", "SWITCHGEAR_X") as listening:
        assert listening.fileno() != inherited
    os.close(inherited)


@pytest.mark.slow
def test_an_inherited_socket_reaches_a_child_process(held):
    script = (
        "import sys; from switchgear_http.sockets import listen\n"
        "with listen(sys.argv[1], '') as listening: listening.accept()[0].sendall(b'here')"
    )
    environment = os.environ | {SOCKET_VARIABLE: f"{address_of(held)}={held.fileno()}"}
    command = [sys.executable, "-c", script, address_of(held)]
    with (
        socket.create_connection(held.getsockname(), timeout=HAPPEN_S) as waiting,  # before the child is there
        subprocess.Popen(command, env=environment, pass_fds=[held.fileno()]) as child,
    ):
        assert waiting.recv(4) == b"here"
        assert child.wait(HAPPEN_S) == 0


def test_the_variable_of_the_socket_is_not_taken_for_a_setting(inherited, caplog):
    load_settings()
    assert caplog.text == ""
    os.close(inherited)


def test_an_answer_names_this_process():
    assert own_pid() == {"Switchgear-Pid": str(os.getpid())}
