"""What the image is made of: packages by hash, and other images whose digests one command writes."""

import importlib.util
import os
import re
import tomllib

import pytest

from tests.support.shared import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
ENTRY = re.compile(r"^([a-z0-9-]+)==([\w.]+)( ; .*?)?( \\\n    --hash=sha256:[0-9a-f]{64})+$", re.MULTILINE)


def loaded():
    found = importlib.util.spec_from_file_location("pin_images", DEPLOY / "pin_images.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def entries(name):
    text = (DEPLOY / name).read_text()
    rest = ENTRY.sub("", re.sub(r"^#.*$", "", text, flags=re.MULTILINE))
    assert rest.strip() == "", "only packages with hashes, and no address of an index"
    return {found[1]: found[2] for found in ENTRY.finditer(text)}


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-build.txt"])
def test_each_package_of_the_image_has_hashes_and_the_version_that_was_tested(name):
    tested = dict(line.split("==") for line in (REPOSITORY / "constraints.txt").read_text().split() if "==" in line)
    untested = {
        package: version for package, version in entries(name).items() if tested.get(package, version) != version
    }
    assert untested == {}, "run `make requirements`"


def test_the_list_has_every_package_that_the_image_needs():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["gateway"], *extras["stream"], *extras["sink"]]
    names = {re.match(r"[A-Za-z0-9._-]+", each)[0].lower().replace("_", "-").replace(".", "-") for each in wanted}
    assert names - entries("requirements.txt").keys() <= {"switchgear"}, "run `make requirements`"
    for each in project["build-system"]["requires"]:
        assert re.match(r"[a-z-]+", each)[0] in entries("requirements-build.txt")


def test_the_image_installs_nothing_without_a_hash():
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if "pip install" in line]
    assert len(lines) == 3
    assert all("--require-hashes" in line or "--no-deps --no-index" in line for line in lines)


def test_every_image_of_others_is_named_by_its_digest():
    pin = loaded()
    for name in pin.FILES:
        text = (REPOSITORY / name).read_text()
        assert pin.images_in(text)
        assert all(re.search(rf"{re.escape(image)}@sha256:[0-9a-f]{{64}}\b", text) for image in pin.images_in(text))
        assert text.count("@sha256:") == len(re.findall(r"^FROM |^\s*image: (?!switchgear:)", text, re.MULTILINE))


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the files, and a ``docker`` that answers as ``answer`` says."""
    for name in loaded().FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((REPOSITORY / name).read_text())

    def answer(script):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / "docker").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / "docker").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        return tmp_path

    return answer


def test_every_image_of_others_gets_the_digest_of_its_tag_and_a_second_run_the_new_one(copy):
    pin = loaded()
    for digit in "ab":
        folder = copy(f'echo "sha256:{digit * 64}"')
        pin.main(folder)
        compose, dockerfile = ((folder / name).read_text() for name in pin.FILES)
        assert compose.count(f"@sha256:{digit * 64}\n") == 4
        assert dockerfile.count(f"FROM python:3.13-slim@sha256:{digit * 64}") == 2
        assert "image: switchgear:0.1.0\n" in compose
        assert pin.images_in(compose)[0].startswith("apache/kafka:")


@pytest.mark.parametrize("script", ["echo no such image >&2; exit 1", "echo latest", "echo"])
def test_without_a_digest_nothing_is_changed(copy, script):
    pin = loaded()
    folder = copy(script)
    before = [(folder / name).read_text() for name in pin.FILES]
    with pytest.raises(SystemExit, match=r"apache/kafka:.* can't be read"):
        pin.main(folder)
    assert [(folder / name).read_text() for name in pin.FILES] == before
