"""Ports are the default or the next free one; one that was asked for is taken or refused, never replaced."""

import socket
from contextlib import ExitStack

import pytest

from switchgear_cli.local.ports import any_free_port, any_free_ports, choose_port, is_free
from switchgear_schemas.errors import SwitchgearError


@pytest.fixture
def listen():
    with ExitStack() as stack:

        def on(port):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", port))
            listener.listen()
            return port

        yield on


def test_a_port_with_a_listener_is_not_free(listen):
    port = any_free_port()
    assert is_free(port)
    listen(port)
    assert not is_free(port)


def test_the_default_is_chosen_where_it_is_free():
    port = any_free_port()
    assert choose_port(None, port, flag="--api-port") == port


def test_the_next_free_port_is_chosen_where_the_default_is_in_use(listen):
    default = listen(any_free_port())
    chosen = choose_port(None, default, flag="--api-port")
    assert chosen > default
    assert is_free(chosen)


def test_a_port_that_is_already_assigned_is_skipped():
    port = any_free_port()
    assert choose_port(None, port, flag="--api-port", taken={port}) > port


def test_a_requested_port_in_use_is_an_error_that_names_the_flag(listen):
    port = listen(any_free_port())
    with pytest.raises(SwitchgearError, match=rf"--api-port {port}: the port is in use.*leave --api-port out"):
        choose_port(port, 1, flag="--api-port")


def test_a_requested_port_that_another_flag_took_is_an_error():
    port = any_free_port()
    with pytest.raises(SwitchgearError, match="--api-port"):
        choose_port(port, 1, flag="--api-port", taken={port})


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_a_number_outside_the_range_of_ports_is_an_error(port):
    with pytest.raises(SwitchgearError, match=r"--kafka-port .* is not a port"):
        choose_port(port, 1, flag="--kafka-port")


def test_a_default_at_the_end_of_the_range_is_not_searched_beyond_it():
    with pytest.raises(SwitchgearError, match="No free port from 65535 on"):
        choose_port(None, 65_535, flag="--api-port", taken={65_535})


def test_ports_chosen_together_are_different():
    assert len(set(any_free_ports(200))) == 200
