"""Run one reader's queries in a confined process: ``python -I -m switchgear_api.sandbox.reader``.

The process confines itself before it loads the engine, because Landlock binds only threads that start later, and the engine starts
some when it is imported. Then it answers requests from standard input on standard output, and ends with its input.

A request is a line of JSON: first ``{"open": connection string of chDB}``, then ``{"query": text, "format": name, "parameters": {…}, "settings": {…}}``.
An answer is a line ``{"ok": true, "size": n}`` and n bytes. With ``"ok": false`` the bytes are an error's text.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import resource
import select
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any, BinaryIO, Final

from switchgear_api.sandbox.kernel import confine_calls, confine_files
from switchgear_sinks.crashes import end_at_crashes

_SYSTEM: Final = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo",
    "/proc/self/stat", "/proc/self/statm", "/proc/self/status", "/proc/self/maps", "/proc/self/cgroup", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/sys/fs/cgroup", "/sys/devices/system/cpu",
    "/proc/sys/vm/overcommit_memory", "/sys/kernel/mm/transparent_hugepage/enabled",
    "/dev/null", "/dev/urandom",
)  # fmt: skip
"""Files that the engine reads when it is loaded and started. They hold no secrets of this machine."""
_OPEN_FILES: Final = 4096


def main() -> None:
    """Serve. The only argument is an object of JSON.

    ``read``: folders that may be read. ``scratch``: the folder to write. ``walled``: false leaves Landlock and seccomp out.
    ``data_bytes``: memory that the process may allocate. ``file_bytes``: size of one file that it writes.
    """
    given = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the engine may print to standard output
    try:
        _confine_resources(given["data_bytes"], given["file_bytes"])
        if given["walled"]:
            read = [*_libraries(), *map(Path, _SYSTEM), *map(Path, given["read"])]
            confine_files(read=read, write=[Path(given["scratch"])])
            confine_calls()
        threading.Thread(target=_end_with_input, daemon=True).start()
        _serve(sys.stdin.buffer, answers)
    except (ImportError, OSError, RuntimeError) as error:
        _send(answers, str(error).encode(errors="replace"), ok=False)


def _confine_resources(data_bytes: int, file_bytes: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _OPEN_FILES if most == resource.RLIM_INFINITY else min(_OPEN_FILES, most)
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, files),
        (resource.RLIMIT_DATA, data_bytes),
        (resource.RLIMIT_FSIZE, file_bytes),
    ):
        with contextlib.suppress(ValueError):  # the limit is lower already
            resource.setrlimit(kind, (limit, limit))
    with contextlib.suppress(OSError):  # Linux only: when memory runs out, end this process first
        Path("/proc/self/oom_score_adj").write_text("1000")


def _libraries() -> list[Path]:
    found = importlib.util.find_spec("chdb")
    packages = [Path(found.origin).parent.parent] if found is not None and found.origin else []
    return [*packages, Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("platstdlib"))]


def _end_with_input() -> None:
    """End the process when the parent has ended, even while the engine is busy."""
    waiting = select.poll()
    waiting.register(0, 0)  # a hang-up is always reported
    waiting.poll()
    os._exit(0)


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    for unused in ("pyarrow", "numpy"):  # half of the import's time, and only for answers as Python objects
        sys.modules[unused] = None  # type: ignore[assignment] # an import of it raises ImportError
    chdb: Any = importlib.import_module("chdb")  # only after the confinement
    end_at_crashes()
    _send(answers, b"")
    engine: Any = None
    for line in requests:
        request = json.loads(line)
        try:
            if "open" in request:
                engine = chdb.connect(request["open"])
                _send(answers, b"")
                continue
            if request["settings"]:
                engine.query("SET " + ", ".join(f"{name} = '{value}'" for name, value in request["settings"].items()))
            found = engine.query(request["query"], request["format"], params=request["parameters"])
            _send(answers, b"" if found is None else bytes(found.bytes() or b""))
        except RuntimeError as error:
            _send(answers, str(error).encode(errors="replace"), ok=False)


def _send(answers: BinaryIO, body: bytes, *, ok: bool = True) -> None:
    answers.write(json.dumps({"ok": ok, "size": len(body)}).encode() + b"\n" + body)
    answers.flush()


if __name__ == "__main__":
    main()
