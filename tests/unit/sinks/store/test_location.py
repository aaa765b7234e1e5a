"""What clickhouse_url means."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchgear_schemas.errors import SettingsError
from switchgear_sinks.store import StoreLocation
from tests.support.table import table

DATA = Path("/data")


def test_the_bare_engine_lives_under_the_data_folder() -> None:
    where = StoreLocation.parse("chdb:", DATA)
    assert where.embedded
    assert where.folder == Path("/data/clickhouse")
    assert where.database == "switchgear"


def test_the_engine_may_have_a_folder_of_its_own() -> None:
    assert StoreLocation.parse("chdb:/srv/metrics", DATA).folder == Path("/srv/metrics")


def test_a_server_is_named_in_full() -> None:
    where = StoreLocation.parse("https://sink:p%40ss@ch.example:9443/tools", DATA)
    assert not where.embedded
    assert (where.scheme, where.host, where.port) == ("https", "ch.example", 9443)
    assert (where.username, where.password, where.database) == ("sink", "p@ss", "tools")


@pytest.mark.parametrize(("url", "port"), [("http://ch", 8123), ("https://ch", 8443), ("http://ch/", 8123)])
def test_ports_user_and_database_have_their_usual_defaults(url: str, port: int) -> None:
    where = StoreLocation.parse(url, DATA)
    assert (where.port, where.username, where.password, where.database) == (port, "default", "", "switchgear")


def test_a_message_never_shows_the_password() -> None:
    where = StoreLocation.parse("http://sink:secret@ch:8123/tools", DATA)
    assert "secret" not in f"{where} {where!r}"
    assert str(where) == "http://ch:8123/tools"


@table("url", ["http://", "http:///tools", "http://ch:0/x", "http://ch:port/x", "http://ch:99999/x"])
def test_a_url_without_a_host_and_port_says_how_to_write_it(url: str) -> None:
    with pytest.raises(SettingsError, match=r"like http://user:password@localhost:8123/switchgear"):
        StoreLocation.parse(url, DATA)


@pytest.mark.parametrize("url", ["http://ch/a;b", "http://ch/a/b", "http://ch/x?readonly=1", "http://ch/`x"])
def test_a_database_is_a_plain_name(url: str) -> None:
    with pytest.raises(SettingsError, match=r"database"):
        StoreLocation.parse(url, DATA)
