"""A child's log stays bounded, and its last line can be quoted."""

import errno

from switchgear_cli.up import supervisor as supervisor_module
from switchgear_cli.up.supervisor import last_line, rotate


def test_a_short_log_is_left_alone(tmp_path):
    file = tmp_path / "worker.log"
    file.write_text("line\n")
    assert not rotate(file, 100)
    assert file.read_text() == "line\n"


def test_a_log_that_is_not_there_is_left_alone(tmp_path):
    assert not rotate(tmp_path / "none.log", 100)


def test_a_long_log_is_moved_aside_and_emptied(tmp_path):
    file = tmp_path / "worker.log"
    file.write_text("x" * 101)
    assert rotate(file, 100)
    assert file.read_text() == ""
    assert (tmp_path / "worker.log.1").read_text() == "x" * 101


def test_the_child_goes_on_writing_at_the_start_of_the_emptied_file(tmp_path):
    file = tmp_path / "worker.log"
    with file.open("ab", buffering=0) as child:
        child.write(b"x" * 101)
        rotate(file, 100)
        child.write(b"after\n")
    assert file.read_bytes() == b"after\n"


def test_only_one_old_file_is_kept(tmp_path):
    file = tmp_path / "worker.log"
    for text in ("a" * 200, "b" * 200):
        file.write_text(text)
        rotate(file, 100)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["worker.log", "worker.log.1"]
    assert (tmp_path / "worker.log.1").read_text() == "b" * 200


def test_on_a_full_disk_the_log_is_emptied_without_a_copy(tmp_path, monkeypatch):
    def full(_source, target):
        target.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(supervisor_module.shutil, "copyfile", full)
    file = tmp_path / "worker.log"
    file.write_text("x" * 101)
    assert rotate(file, 100)
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("worker.log", 0)]


def test_the_last_line_that_says_something_is_quoted(tmp_path):
    file = tmp_path / "worker.log"
    file.write_text("first\nValueError: no\n\n  \n")
    assert last_line(file) == "ValueError: no"


def test_nothing_is_quoted_of_an_empty_or_absent_log(tmp_path):
    (tmp_path / "empty.log").touch()
    assert last_line(tmp_path / "empty.log") == ""
    assert last_line(tmp_path / "none.log") == ""


def test_a_quote_is_short_and_survives_bytes_that_are_not_text(tmp_path):
    file = tmp_path / "worker.log"
    file.write_bytes(b"\xff\xfe" + b"y" * 50_000)
    assert 0 < len(last_line(file)) <= 400
