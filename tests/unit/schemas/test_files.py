"""Only regular files are read, and only so many bytes of them."""

import os
import socket

import pytest

from switchgear_schemas.files import check_file, open_file, read_file, trusted_at
from tests.support.table import table


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def terminal(path):
    path.symlink_to("/dev/tty")


def folder(path):
    path.mkdir()


def listening(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize("make", [pipe, device, terminal, folder, listening])
@pytest.mark.parametrize("read", [read_file, open_file, check_file])
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path, monkeypatch, make, read):
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    make(tmp_path / "x")
    with pytest.raises(OSError, match="not a regular file") as caught:
        read("x" if make is listening else tmp_path / "x")
    assert caught.value.strerror


def test_a_pipe_that_takes_the_place_of_a_file_is_refused(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "x")
    (tmp_path / "y").touch()
    before = os.stat(tmp_path / "y")  # noqa: PTH116 - as the module asks
    monkeypatch.setattr(os, "stat", lambda _name: before)
    with pytest.raises(OSError, match="not a regular file"):
        read_file(tmp_path / "x")


def test_a_file_is_read_up_to_the_limit_and_a_longer_one_is_an_error(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"x" * 10)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_file(link, 10) == b"x" * 10
    check_file(path, 10)
    for read in (read_file, check_file):
        with pytest.raises(OSError, match="more than 9 bytes"):
            read(path, 9)


def test_a_sparse_file_of_many_gigabytes_is_not_read_as_a_whole(tmp_path):
    path = tmp_path / "x"
    path.touch()
    os.truncate(path, 10 * 2**30)
    with pytest.raises(OSError, match="more than 1,000,000 bytes"):
        read_file(path)


@table("name", ["a\0b", "missing"])
def test_a_name_that_is_none_is_an_error(name):
    with pytest.raises((OSError, ValueError)):
        read_file(name)


@table("url", ["https://x", "HTTPS://x", "httpsx://x", "x", ""])
def test_everything_but_plain_http_is_verified(url):
    assert trusted_at(url, None) is True
    assert trusted_at("http://x", None) is trusted_at("HTTP://x", None) is False


def test_a_file_without_certificates_is_an_error_for_every_address(tmp_path):
    (tmp_path / "x").write_text("no certificate")
    for url in ("http://x", "https://x"):
        with pytest.raises(OSError, match=r"(?i)ssl|cert|pem"):
            trusted_at(url, tmp_path / "x")
        with pytest.raises(OSError, match="missing"):
            trusted_at(url, tmp_path / "missing")
