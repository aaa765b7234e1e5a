"""A checkout with one bug in it, for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutations.catalogue import Mutation


@contextmanager
def mutant(checkout: Path, mutation: Mutation) -> Iterator[None]:
    """Put the bug into the file while the block runs. However the block ends, the file is then as it was, with its times.

    Python recognises outdated bytecode by the second and the size of its source. A mutation may have the size of the original, so the
    bytecode is removed before and after.
    """
    path = checkout / mutation.file
    before, times = path.read_bytes(), path.stat()
    changed = mutation.mutated(before.decode()).encode()
    try:
        path.write_bytes(changed)
        _forget_bytecode(path)
        yield
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        _forget_bytecode(path)


def _forget_bytecode(path: Path) -> None:
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)
