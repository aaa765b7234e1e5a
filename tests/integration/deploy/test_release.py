"""``make release``: of the last commit, so what isn't committed is not tested here."""

from __future__ import annotations

import email
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.limits import BUILD_S
from tests.support.snippets import REPOSITORY

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PACKAGES = {Path(path).name for path in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """A folder with a release. The command has built everything twice, compared it, and checked it."""
    folder = tmp_path_factory.mktemp("release")
    done = subprocess.run(
        [sys.executable, "deploy/release.py", "--folder", str(folder)],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=3 * BUILD_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(release):
    (path,) = release.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_a_release_has_all_files_and_their_hashes(release):
    version = PROJECT["project"]["version"]
    made = {
        f"switchgear-{version}-py3-none-any.whl",
        f"switchgear-{version}.tar.gz",
        f"switchgear-client-{version}.tgz",
        f"switchgear-{version}.cdx.json",
        "NOTES.md",
    }
    assert {path.name for path in release.iterdir()} == made | {"SHA256SUMS"}
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=release, capture_output=True, text=True, check=False
    )
    assert done.stdout.count(": OK") == len(made), done.stdout


def test_the_wheel_has_the_packages_alone(wheel):
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert tops == PACKAGES | {f"switchgear-{PROJECT['project']['version']}.dist-info"}
    names = [name.rpartition("/")[2] for name in wheel.namelist()]
    assert not [name for name in names if name.startswith("test_") or name in {"conftest.py", "package.json"}]


def test_no_file_of_a_release_has_a_path_of_this_machine(release, wheel):
    here = [str(path).encode() for path in (REPOSITORY, Path.home(), release.parent) if len(path.parts) > 1]
    for name in wheel.namelist():
        content = wheel.read(name)
        assert not [path for path in here if path + b"/" in content], name
    for path in (*release.glob("*.json"), release / "NOTES.md"):
        assert not [place for place in here if place + b"/" in path.read_bytes()], path.name
    (tarball,) = release.glob("*.tgz")
    with tarfile.open(tarball) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member).read()
            assert not [path for path in here if path + b"/" in content], member.name


def test_the_metadata_say_where_the_project_is_and_have_links_that_work_elsewhere(wheel):
    (name,) = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
    said = email.message_from_bytes(wheel.read(name))
    urls = dict(each.split(", ", 1) for each in said.get_all("Project-URL"))
    assert urls == PROJECT["project"]["urls"]
    readme = said.get_payload(decode=True).decode()
    links = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert len(links) > 30
    assert [link for link in links if not re.match(r"https?://", link)] == []
    for link in links:
        found = re.match(rf"{re.escape(urls['Repository'])}/blob/v([\d.]+)/([^#]+)", link)
        if found:
            assert found[1] == PROJECT["project"]["version"]
            assert (REPOSITORY / found[2]).exists(), link


def test_the_npm_tarball_has_the_built_package_alone(release):
    (tarball,) = release.glob("*.tgz")
    with tarfile.open(tarball) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    assert {name for name in names if not name.startswith("dist/")} == {"LICENSE", "README.md", "package.json"}
    assert {"dist/index.js", "dist/index.d.ts", "dist/mcp.js", "dist/mcp.d.ts"} <= names


def test_the_list_of_contents_names_each_package_with_its_version(release):
    (path,) = release.glob("*.cdx.json")
    listed = json.loads(path.read_text())
    assert listed["bomFormat"] == "CycloneDX"
    assert listed["metadata"]["component"]["name"] == "switchgear"
    versions = {each["name"].lower(): each["version"] for each in listed["components"]}
    tested = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE))
    for name in ("aiokafka", "chdb-core", "faust-streaming", "pydantic"):
        assert versions[name] == tested[name]
    assert any(each["dependsOn"] for each in listed["dependencies"] if "dependsOn" in each)
