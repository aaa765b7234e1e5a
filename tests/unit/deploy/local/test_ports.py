"""Ports are the default or the next free one, held from then on; one that was asked for is held or refused, never replaced."""

import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from switchgear_cli.local.ports import (
    any_free_port,
    any_free_ports,
    hold_listening,
    hold_port,
    hold_reserved,
    is_free,
    port_of,
)
from switchgear_schemas.errors import SwitchgearError
from tests.support.limits import ANSWER_S

HOLDS = [hold_listening, hold_reserved]


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def listen(stack):
    def on(port):
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", port))
        listener.listen()
        return port

    return on


@pytest.fixture
def held(stack):
    """`held(…)`: the port that `hold_port` holds until the end of the test."""

    def at(requested, default, *, hold=hold_listening, **more):
        return port_of(stack.enter_context(hold_port(requested, default, flag="--api-port", hold=hold, **more)))

    return at


def test_a_port_with_a_listener_is_not_free(listen):
    port = any_free_port()
    assert is_free(port)
    listen(port)
    assert not is_free(port)


@pytest.mark.parametrize("hold", HOLDS)
def test_the_default_is_held_where_it_is_free(held, hold):
    port = any_free_port()
    assert held(None, port, hold=hold) == port


@pytest.mark.parametrize("hold", HOLDS)
def test_the_next_in_steps_of_ten_is_held_where_the_default_is_in_use(held, listen, hold):
    default = listen(any_free_port())
    found = held(None, default, hold=hold)
    assert found > default
    assert (found - default) % 10 == 0


@pytest.mark.parametrize("hold", HOLDS)
def test_a_port_is_held_by_one_at_a_time_and_is_free_again_at_the_end(hold):
    with hold_port(None, any_free_port(), flag="--api-port", hold=hold) as first:
        port = port_of(first)
        with pytest.raises(OSError, match="in use"):
            hold(port)
    hold(port).close()


def test_a_listening_port_takes_connections_before_a_server_accepts_them():
    with hold_listening(0) as listening, socket.create_connection(listening.getsockname(), timeout=ANSWER_S):
        assert not is_free(port_of(listening))


def test_a_server_can_listen_on_a_port_that_is_reserved(listen, stack):
    reserved = stack.enter_context(hold_port(None, any_free_port(), flag="--kafka-port", hold=hold_reserved))
    listen(port_of(reserved))


@pytest.mark.slow
def test_a_reservation_ends_with_its_process():
    script = """
import sys
from switchgear_cli.local.ports import any_free_port, hold_port, hold_reserved, port_of

held = hold_port(None, any_free_port(), flag="--kafka-port", hold=hold_reserved)
print(port_of(held), flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        port = int(child.stdout.readline())
        with pytest.raises(OSError, match="in use"):
            hold_reserved(port)
        child.kill()
    hold_reserved(port).close()


def test_a_port_of_another_component_is_skipped(held):
    port = any_free_port()
    assert held(None, port, taken={port}) > port


@pytest.mark.parametrize("hold", HOLDS)
def test_a_requested_port_in_use_is_an_error_that_names_the_flag(held, listen, hold):
    port = listen(any_free_port())
    with pytest.raises(SwitchgearError, match=rf"--api-port {port}: the port is in use.*leave --api-port out"):
        held(port, 1, hold=hold)


def test_a_requested_port_that_the_user_may_not_have_is_not_said_to_be_in_use(held):
    def forbidden(_port):
        raise PermissionError(13, "Permission denied")

    with pytest.raises(SwitchgearError, match=r"--api-port 80: Permission denied\. Name another port"):
        held(80, 1, hold=forbidden)


def test_an_address_that_can_not_be_used_at_all_is_said_as_it_is(held):
    def absent(_port):
        raise OSError(99, "Cannot assign requested address")

    with pytest.raises(SwitchgearError, match=r"The port 8620 of 127\.0\.0\.1 can't be used: Cannot assign"):
        held(None, 8620, hold=absent)


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_a_number_outside_the_range_of_ports_is_an_error(held, port):
    with pytest.raises(SwitchgearError, match=r"--api-port .* is not a port"):
        held(port, 1)


def test_a_default_at_the_end_of_the_range_is_not_searched_beyond_it(held):
    with pytest.raises(SwitchgearError, match="No free port from 65535 on"):
        held(None, 65_535, taken={65_535})


def test_ports_chosen_together_are_different():
    assert len(set(any_free_ports(200))) == 200
