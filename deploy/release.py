"""Make the files of a release, of the last commit, in ``dist/``: ``make release``.

Wheel, source distribution and npm tarball; a list of what an installation contains (CycloneDX); the notes; the hash of each file. Everything is built
twice, and the second time must give the same bytes. Nothing is published.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
CLIENT: Final = "producers/typescript"
EXTRAS: Final = "alerts,apprise,embedded,gateway-client,grpc,mcp-proxy,mcp-server,oidc,otel,prometheus,tune"
"""What the list of contents is about: all that runs, and no framework of agents."""
_LIMIT_S: Final = 600


def main(arguments: Sequence[str]) -> None:
    """Make all files, and say which.

    Raises:
        SystemExit: A step failed, or two builds differ. The message says which.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "dist", help="where to write; it is emptied")
    folder = parser.parse_args(arguments).folder.resolve()
    if _output("git", "status", "--porcelain"):
        print("Changes that aren't committed are not in this release.", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as made:
        once, again = Path(made, "once"), Path(made, "again")
        for place in (once, again):
            _export(place)
        build_python(once, folder)
        build_python(again, again / "dist")
        _same(folder, again / "dist")
        _same_from_source(folder, Path(made, "from-source"))
        build_npm(once, folder)
        shutil.copytree(once / CLIENT / "node_modules", again / CLIENT / "node_modules", symlinks=True)
        build_npm(again, again / "dist")
        _same(folder, again / "dist")
        check(folder, once / CLIENT)
        project = tomllib.loads((once / "pyproject.toml").read_text())["project"]
        list_contents(folder, Path(made, "installed"), project)
        notes = notes_of((once / "CHANGELOG.md").read_text(), project["version"], project["urls"]["Repository"])
    (folder / "NOTES.md").write_text(notes)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    (folder / "SHA256SUMS").write_text("".join(f"{_digest(path)}  {path.name}\n" for path in files))
    for path in files:
        print(f"{path.stat().st_size:>10,}  {path.name}")


def build_python(source: Path, folder: Path) -> None:
    """Build wheel and source distribution of a checkout into ``folder``.

    Raises:
        SystemExit: The build failed.
    """
    _run(sys.executable, "-m", "hatchling", "build", "--directory", str(folder), cwd=source)


def build_npm(source: Path, folder: Path) -> None:
    """Build the TypeScript client's tarball of a checkout into ``folder``.

    Raises:
        SystemExit: npm is missing, or the build failed.
    """
    if shutil.which("npm") is None:
        sys.exit("A release needs Node.js 20 or newer, with npm.")
    client = source / CLIENT
    if not (client / "node_modules").exists():
        _run("npm", "ci", "--ignore-scripts", "--prefer-offline", cwd=client)
    _run("npm", "pack", "--silent", "--pack-destination", str(folder), cwd=client)


def check(folder: Path, client: Path) -> None:
    """Check the files as their indexes and their users' tools will.

    Raises:
        SystemExit: A check failed. Its output has been printed.
    """
    packages = [str(path) for pattern in ("*.whl", "switchgear-*.tar.gz") for path in folder.glob(pattern)]
    _run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", *packages, cwd=folder)
    (tarball,) = folder.glob("*.tgz")
    _run("npx", "--no-install", "publint", "run", "--strict", str(tarball), cwd=client)
    _run("npx", "--no-install", "attw", "--profile", "esm-only", str(tarball), cwd=client)


def list_contents(folder: Path, environment: Path, project: Mapping[str, Any]) -> None:
    """Write what an installation with all that runs contains, with versions and licences, as CycloneDX.

    Raises:
        SystemExit: A package can't be installed.
    """
    name, version = project["name"], project["version"]
    uv = [sys.executable, "-m", "uv"]
    python = environment / "bin" / "python"
    _run(*uv, "venv", "--quiet", "--python", sys.executable, str(environment))
    # Found in the folder, not named by its path: the list would have the path.
    _run(
        *uv, "pip", "install", "--quiet", "--python", str(python), "--find-links", str(folder),
        "--constraint", str(REPOSITORY / "constraints.txt"), f"{name}[{EXTRAS}]=={version}",
    )  # fmt: skip
    _run(
        sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--output-format", "JSON",
        "--output-file", str(folder / f"{name}-{version}.cdx.json"), "--pyproject", str(REPOSITORY / "pyproject.toml"), str(python),
    )  # fmt: skip


def notes_of(changelog: str, version: str, repository: str) -> str:
    """Return the section of a version, with links that lead to that version's tag.

    Raises:
        SystemExit: The changelog has no such section.
    """
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit(f"CHANGELOG.md has no section ## [{version}].")
    return re.sub(r"\]\((?![\w+]+:|#)([^)]+)\)", rf"]({repository}/blob/v{version}/\1)", found[1].strip()) + "\n"


def _export(folder: Path) -> None:
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    _run("git", "archive", "--output", str(archive), "HEAD")
    _unpack(archive, folder)


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack what we made. Python's own way needs 3.11.4, and we run from 3.11.0 on."""
    _run("tar", "--extract", "--file", str(archive), "--directory", str(folder))


def _same(first: Path, second: Path) -> None:
    for path in second.iterdir():
        if _digest(path) != _digest(first / path.name):
            sys.exit(f"{path.name}: a second build of the same commit has other bytes.")


def _same_from_source(folder: Path, source: Path) -> None:
    """Compare the wheel with one of the source distribution: those who build from it get the same."""
    (sdist,) = folder.glob("switchgear-*.tar.gz")
    source.mkdir()
    _unpack(sdist, source)
    (unpacked,) = source.iterdir()
    _run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(source / "dist"),
        cwd=unpacked,
    )
    _same(folder, source / "dist")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _output(*command: str) -> str:
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=_LIMIT_S
    ).stdout.strip()


def _run(*command: str, cwd: Path = REPOSITORY) -> None:
    """Run a step. Its output is shown only if it fails."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": _output("git", "log", "-1", "--format=%ct"), "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_LIMIT_S, check=False
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout}\nThis failed: {json.dumps(command)}")


if __name__ == "__main__":
    main(sys.argv[1:])
