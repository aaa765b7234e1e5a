"""Which names a server answers to."""

import pytest

from switchgear_http.hosts import KnownHosts, host_name, host_of, is_loopback
from switchgear_http.problem import ProblemError
from tests.support.table import table


def known(host, api_allowed_hosts=None, api_http="127.0.0.1:8620"):
    return KnownHosts(api_allowed_hosts, api_http, "ALLOWED").knows(host)


@table(
    "host",
    [
        "localhost",
        "LOCALHOST:8620",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:8620",
        "127.9.9.9:1",
        "[::1]",
        "[::1]:8620",
        "10.0.0.7:80",
    ],
)
@table("listed", [None, "", "gear.example.com"])
def test_localhost_and_addresses_are_always_known_hosts(host, listed):
    assert known(host, api_allowed_hosts=listed)


@table(
    "host",
    [
        "evil.example", "evil.example:8620", "localhost.evil.example", "evil-localhost", "127.0.0.1.nip.io:8620", "",
        "localhost:8620:8620", "[::1", "::1", "localhost@evil.example", "[evil.example]:80", "localhost:port", "0x7f000001",
    ],
)  # fmt: skip
def test_other_names_are_unknown_hosts_of_a_local_api(host):
    assert not known(host)
    assert not known(host, api_http="[::1]:0")
    assert not known(host, api_http="localhost:8620", api_allowed_hosts="gear.example.com")


def test_listed_names_are_known_hosts_in_any_case_and_with_any_port():
    listed = {"api_allowed_hosts": " Gear.example.com, *.fleet.example.com "}
    assert known("gear.example.com", **listed)
    assert known("GEAR.EXAMPLE.COM.:443", **listed)
    assert known("a.fleet.example.com:8620", **listed)
    assert known("a.b.fleet.example.com", **listed)
    assert not known("fleet.example.com", **listed)
    assert not known("evilfleet.example.com", **listed)
    assert not known("x.gear.example.com", **listed)


def test_an_api_for_other_machines_answers_to_every_name_until_names_are_listed():
    assert known("switchgear-api.prod.svc:8620", api_http="0.0.0.0:8620")
    assert known("anything", api_http="10.1.2.3:8620")
    assert not known("anything", api_http="0.0.0.0:8620", api_allowed_hosts="gear.example.com")
    assert known("gear.example.com", api_http="0.0.0.0:8620", api_allowed_hosts="gear.example.com")


def test_host_name_is_parsed_from_the_host_header():
    assert host_name("Example.COM:80") == "example.com"
    assert host_name("[2001:DB8::1]:80") == "2001:db8::1"
    assert host_name("a:b") is None
    assert host_name(":80") is None


def test_only_addresses_of_this_machine_are_loopback():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.8.8", "::1", "[::1]")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.com", "")))


def test_refusal_of_an_unknown_host_names_the_setting():
    with pytest.raises(ProblemError, match=r"evil\.example.*SWITCHGEAR_X") as caught:
        KnownHosts(None, "127.0.0.1:1", "SWITCHGEAR_X").check("evil.example")
    assert caught.value.status == 421


def test_host_of_an_address_has_no_brackets():
    assert (host_of("[::1]:80"), host_of("a.example:1")) == ("::1", "a.example")
