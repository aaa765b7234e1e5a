"""What the kernel holds a process to: each in a process of its own, since it cannot be taken back."""

import platform
import subprocess
import sys
import textwrap

import pytest

from switchgear_api.sandbox.kernel import missing
from tests.support.limits import READY_S

pytestmark = pytest.mark.slow

PRELUDE = """
import os, socket, subprocess, sys, threading
from pathlib import Path
from switchgear_api.sandbox.kernel import confine_calls, confine_files
inside, outside = map(Path, sys.argv[1:])
def attempt(work):
    try:
        work()
    except OSError as error:
        return type(error).__name__
    return "done"
"""


def confined(tmp_path, body: str) -> list[str]:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "file").write_text("x")
    code = PRELUDE + textwrap.dedent(body)
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(inside), str(outside)],
        capture_output=True,
        check=False,
        text=True,
        timeout=READY_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_confined_process_can_open_only_files_below_its_folders(tmp_path):
    assert confined(
        tmp_path,
        """
        confine_files(read=[outside], write=[inside])
        (inside / "new").write_text("y")
        print((outside / "file").read_text(), (inside / "file").read_text())
        for work in (
            lambda: Path("/etc/passwd").read_text(), lambda: (outside / "file").write_text("y"),
            lambda: os.truncate(outside / "file", 0), lambda: (outside / "file").unlink(), lambda: os.listdir("/"),
            lambda: os.link(outside / "file", inside / "link"), lambda: os.rename(outside / "file", inside / "moved"),
            lambda: (outside / "new").write_text("y"), lambda: (outside / "folder").mkdir(),
        ):
            print(attempt(work))
        """,
    ) == ["x", "x", *["PermissionError"] * 5, "OSError", *["PermissionError"] * 3]
    assert (tmp_path / "outside" / "file").read_text() == "x"


def test_link_does_not_lead_a_confined_process_out_of_its_folders(tmp_path):
    assert (
        confined(
            tmp_path,
            """
        (inside / "link").symlink_to(outside)
        confine_files(read=[], write=[inside])
        (inside / "later").symlink_to(outside / "file")
        print(attempt((inside / "link" / "file").read_text), attempt((inside / "later").read_text))
        """,
        )
        == ["PermissionError"] * 2
    )


def test_confinement_holds_for_threads_that_start_later(tmp_path):
    assert (
        confined(
            tmp_path,
            """
        confine_files(read=[], write=[inside])
        confine_calls()
        said = []
        def work():
            said.extend((attempt((outside / "file").read_text), attempt(socket.socket)))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        print(*said)
        """,
        )
        == ["PermissionError"] * 2
    )


def test_confined_process_cannot_use_sockets_programs_signals_or_rights(tmp_path):
    assert (
        confined(
            tmp_path,
            """
        confine_calls()
        for work in (
            socket.socket, lambda: socket.socket(socket.AF_UNIX), lambda: subprocess.run(["/bin/true"]),
            lambda: os.execv("/bin/true", ["true"]), lambda: os.kill(os.getppid(), 0), lambda: os.chmod(outside / "file", 0o777),
            lambda: os.chown(outside / "file", 0, 0), lambda: os.pidfd_open(os.getppid()),
        ):
            print(attempt(work))
        """,
        )
        == ["PermissionError"] * 8
    )


def test_system_call_of_another_architecture_ends_the_process(tmp_path):
    """The 32-bit numbers of calls are others: with them the filter could be walked round."""
    if platform.machine() != "x86_64":
        pytest.skip("x86-64 alone has them")
    code = PRELUDE + textwrap.dedent("""
        import ctypes, mmap
        confine_calls()
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # getpid of the 32-bit table
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
        print("went on")
    """)
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, "a", "b"], capture_output=True, check=False, text=True, timeout=READY_S
    )
    assert done.returncode < 0
    assert done.stdout == ""


def test_this_machine_has_landlock_and_seccomp():
    assert missing() is None


@pytest.mark.parametrize(("system", "machine", "word"), [("darwin", "arm64", "Linux"), ("linux", "riscv64", "riscv64")])
def test_missing_says_why_a_system_cannot_confine(monkeypatch, system, machine, word):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert word in (missing() or "")
