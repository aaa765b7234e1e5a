"""The TypeScript client, built, for tests that run Node.js programs with it."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.limits import BUILD_S
from tests.support.npm import install_locked, printed
from tests.support.snippets import REPOSITORY

SOURCE: Final = REPOSITORY / "producers" / "typescript"
_LEFT_OUT: Final = ("node_modules", "dist", "build")


def built_client() -> Path:
    """Return a folder with the built package in ``node_modules``, for Node.js programs that a test writes beside it.

    It is built once for each state of the sources, apart from them: a developer's own build stays as it is.
    """
    home = Path(sys.prefix) / "adapters"
    home.mkdir(exist_ok=True)
    with (home / "typescript.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder, digest = home / "typescript", _digest()
        stamp = folder / "built"
        if not stamp.exists() or stamp.read_text() != digest:
            shutil.rmtree(folder, ignore_errors=True)
            package = folder / "node_modules" / "@switchgear" / "client"
            shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns(*_LEFT_OUT))
            install_locked(package)
            printed(package, "npm", "run", "build")
            stamp.write_text(digest)
        return folder


def compiled(name: str, code: str) -> Path:
    """Compile a program that imports the client, with strict types, and return the file with its JavaScript."""
    folder = built_client()
    source = folder / f"{name}.mts"
    source.write_text(code)
    modules = folder / "node_modules" / "@switchgear" / "client" / "node_modules"
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node", "--ignoreConfig"]
    done = subprocess.run(
        [str(modules / ".bin" / "tsc"), *options, "--typeRoots", str(modules / "@types"), str(source)],
        capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    source.unlink()
    assert done.returncode == 0, done.stdout
    return source.with_suffix(".mjs")


def _digest() -> str:
    found = hashlib.sha256()
    built_from = ("package.json", "package-lock.json", "tsconfig.json", ".npmrc")
    for path in [*(SOURCE / name for name in built_from), *sorted((SOURCE / "src").rglob("*.ts"))]:
        found.update(f"{path.relative_to(SOURCE)}\0".encode() + path.read_bytes())
    return found.hexdigest()
