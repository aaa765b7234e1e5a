"""`up` holds every port from the moment it chose it, so that several systems can start at the same time."""

import socket
from contextlib import ExitStack

import pytest

from switchgear_cli.local.ports import any_free_port, any_free_ports, port_of
from switchgear_cli.up.ports import DEFAULTS, check_ports, held_ports
from switchgear_schemas.errors import SwitchgearError


@pytest.fixture
def hold():
    """`hold(…)`: the ports of one more system, by component, held until the end of the test."""
    with ExitStack() as stack:

        def more(named=None, *, workers=1, alerts=True):
            held = stack.enter_context(held_ports(named or {}, workers=workers, alerts=alerts))
            return {
                "--kafka-port": port_of(held.kafka),
                "--api-port": port_of(held.api),
                "--worker-port": port_of(held.workers[0]),
                "--gateway-port": port_of(held.gateway),
                "--alerts-port": port_of(held.alerts) if held.alerts is not None else None,
                "--otlp-port": port_of(held.otlp),
                **{f"worker-{number}": port_of(each) for number, each in enumerate(held.workers[1:], 2)},
            }

        yield more


def test_the_documented_ports_are_the_defaults():
    assert DEFAULTS == {
        "--kafka-port": 9092,
        "--api-port": 8620,
        "--worker-port": 8621,
        "--gateway-port": 8622,
        "--alerts-port": 8624,
        "--otlp-port": 4317,
    }


def test_the_first_system_has_the_default_ports_and_the_next_ones_those_ten_above(defaults, hold):
    for number in range(4):
        assert hold() == {flag: port + 10 * number for flag, port in defaults.items()}


def test_no_component_falls_back_to_the_documented_port_of_another(defaults, hold, monkeypatch):
    defaults["--gateway-port"] = defaults["--worker-port"] + 10
    found = hold(workers=3)
    assert found["--gateway-port"] == defaults["--gateway-port"]
    assert [found["worker-2"], found["worker-3"]] == [defaults["--worker-port"] + 20, defaults["--worker-port"] + 30]


@pytest.mark.parametrize("flag", DEFAULTS)
def test_every_port_has_a_flag(defaults, hold, flag):
    port = any_free_port()
    assert hold({flag: port}) == defaults | {flag: port}


@pytest.mark.parametrize("flag", DEFAULTS)
def test_a_named_port_in_use_is_one_sentence_with_its_flag_and_nothing_stays_held(defaults, hold, flag):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SwitchgearError, match=rf"^{flag} {port}: the port is in use\. Stop what uses it, or leave"):
            hold({flag: port})
    assert hold() == defaults


@pytest.mark.parametrize("flag", DEFAULTS)
def test_a_named_port_that_another_system_holds_is_in_use(defaults, hold, flag):
    port = hold()[flag]
    with pytest.raises(SwitchgearError, match=rf"{flag} {port}: the port is in use"):
        hold({flag: port})


@pytest.mark.parametrize(("flag", "other"), [("--kafka-port", "--api-port"), ("--api-port", "--kafka-port")])
def test_a_named_port_is_not_given_to_the_component_whose_default_it_is(defaults, hold, flag, other):
    assert hold({flag: defaults[other]}) == defaults | {flag: defaults[other], other: defaults[other] + 10}


def test_workers_after_the_first_have_ports_above_the_one_that_is_named(defaults, hold):
    port = defaults["--worker-port"] + 30
    found = hold({"--worker-port": port}, workers=2)
    assert (found["--worker-port"], found["worker-2"]) == (port, port + 10)


def test_alerts_have_no_port_unless_they_run(defaults, hold):
    assert hold(alerts=False)["--alerts-port"] is None


def test_one_port_for_two_flags_is_an_error():
    port, other = any_free_ports(2)
    check_ports({"--kafka-port": port, "--api-port": other})
    with pytest.raises(SwitchgearError, match=f"--api-port and --otlp-port are both {port}"):
        check_ports({"--api-port": port, "--kafka-port": other, "--otlp-port": port})
