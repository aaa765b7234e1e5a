"""docs/howto/installing.md: the wheel, and an environment with only the SDK and its dependencies."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.integration.howto.pages import by_host_name, statuses
from tests.support.limits import BUILD_S, READY_S
from tests.support.processes import environment
from tests.support.snippets import REPOSITORY, check_output, programs

pytestmark = pytest.mark.deep

PAGE = "docs/howto/installing.md"
PACKAGES = [REPOSITORY / folder for folder in (
    "schemas/switchgear_schemas", "producers/switchgear", "stream/switchgear_stream", "sinks/switchgear_sinks",
    "deploy/switchgear_cli",
)]  # fmt: skip


@dataclass(frozen=True)
class Bare:
    """An environment without extras, and the wheel that was installed into it."""

    folder: Path
    wheel: Path

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, outside the repository."""
        return subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]], env=environment(extra=variables), cwd=self.folder,
            capture_output=True, text=True, timeout=READY_S, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return an environment made as the page says, without a network: the build tool and the dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("bare")
    pip(*["wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir"], str(folder / "dist"))
    (wheel,) = (folder / "dist").glob("switchgear-*.whl")
    venv.create(folder, with_pip=False)
    pip("--python", str(folder / "bin" / "python"), "install", "--no-deps", str(wheel))
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in needed_by("switchgear"):
        for file in metadata.distribution(name).files or ():
            if not file.parts[0].startswith("..") and "__pycache__" not in file.parts:
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), target)
    return Bare(folder, wheel)


def pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def needed_by(name: str) -> set[str]:
    """Return the distributions that ``name`` needs without extras, directly or indirectly."""
    found: set[str] = set()
    for text in metadata.requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            found |= {requirement.name, *needed_by(requirement.name)}
    return found


def test_check_of_the_installing_page_runs_with_the_sdk_alone(bare):
    (check,) = programs(PAGE)
    done = bare.run("python", "-c", check.code)
    assert done.stderr == ""
    check_output(check.outputs[0], done.stdout)
    where = bare.run("python", "-c", "import switchgear; print(switchgear.__file__)").stdout
    assert where.startswith(str(bare.folder))


def test_programs_of_the_start_page_send_their_events_with_the_sdk_alone(bare, settings):
    address, prefix = by_host_name(settings), settings.topic_prefix
    for program in programs("docs/guide/start.md"):
        if "gateway" in program.code:  # needs the extra gateway-client
            continue
        done = bare.run(
            "python", "-c", program.addressed(address, prefix),
            SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS=address, SWITCHGEAR_TOPIC_PREFIX=prefix,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), program.name
    assert statuses(settings)["success"] >= 1


def test_first_snippet_of_the_readme_loses_no_event_with_the_sdk_alone(bare, settings):
    address, prefix = by_host_name(settings), settings.topic_prefix
    (bare.folder / "first.py").write_text(programs("README.md")[0].addressed(address, prefix))
    done = bare.run("python", "first.py", SWITCHGEAR_KAFKA_BOOTSTRAP_SERVERS=address, SWITCHGEAR_TOPIC_PREFIX=prefix)
    assert (done.returncode, done.stderr) == (0, "")
    found = statuses(settings)
    assert found["error"] == 5
    assert found["rejected"] >= 1


def test_every_public_name_can_be_imported_with_the_sdk_alone(bare):
    code = (
        "import switchgear, switchgear.testing; [getattr(switchgear, name) for name in switchgear.__all__];"
        "switchgear.Switchgear.from_env(service='check').close(0)"
    )
    assert bare.run("python", "-c", code).stderr == ""


def test_command_names_the_extra_that_it_needs_when_only_the_sdk_is_installed(bare):
    done = bare.run("switchgear", "circuits")
    assert done.returncode == 1
    assert "Install switchgear[service]" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_wheel_contains_every_file_of_the_packages(bare):
    here = {
        str(file.relative_to(package.parent))
        for package in PACKAGES
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    left_out = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for pattern in left_out["exclude"]:  # what only developers need
        place = pattern.removeprefix("/sinks/")
        here -= {name for name in here if fnmatch(name, place) or name.startswith(f"{place}/")}
    with zipfile.ZipFile(bare.wheel) as archive:
        assert here <= set(archive.namelist())


def test_extras_of_the_installing_page_exist(bare):
    text = (REPOSITORY / PAGE).read_text()
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))))
    named |= {extra for asked in re.findall(r"'\.\[(.*?)\]'", text) for extra in asked.split(",")}
    with zipfile.ZipFile(bare.wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        offered = set(re.findall(r"^Provides-Extra: (\w+)$", archive.read(name).decode(), re.MULTILINE))
    assert named
    assert named <= offered
