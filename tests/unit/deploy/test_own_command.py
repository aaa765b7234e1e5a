"""How other programs start Switchgear again, wherever it was installed."""

from __future__ import annotations

import json
import sys

import pytest

from switchgear_cli import own_command as module
from switchgear_cli.own_command import own_command


class Distribution:
    """An installed package."""

    version = "1.2.3"

    def __init__(self, source=None):
        self._source = source

    def read_text(self, name):
        assert name == "direct_url.json"
        return None if self._source is None else json.dumps(self._source)


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Return a function that lets Switchgear be installed in a folder, from a source, with a program on the PATH."""

    def install(folder, source=None, program=None, uv=""):
        monkeypatch.setattr(sys, "prefix", str(tmp_path / folder))
        monkeypatch.setattr(sys, "base_prefix", "/usr")
        monkeypatch.setenv("UV", uv)
        monkeypatch.setattr(module.metadata, "distribution", lambda _name: Distribution(source))
        found = {"switchgear": program and program.replace("PREFIX", sys.prefix)}
        monkeypatch.setattr(module.shutil, "which", found.get)

    return install


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("/usr/bin/switchgear", ["switchgear"]),
        ("PREFIX/bin/switchgear", ["PREFIX/bin/switchgear"]),
        (None, [sys.executable, "-P", "-m", "switchgear_cli"]),
    ],
)
def test_an_installed_program_is_started_by_its_name_or_its_path(installed, program, command):
    installed("venv", program=program)
    assert own_command() == [word.replace("PREFIX", sys.prefix) for word in command]


@pytest.mark.parametrize(
    ("source", "requirement"),
    [
        (None, "switchgear[mcp-proxy]==1.2.3"),
        ({"url": "file:///w/a.whl", "archive_info": {}}, "switchgear[mcp-proxy] @ file:///w/a.whl"),
        (
            {"url": "https://h/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "switchgear[mcp-proxy] @ git+https://h/r@abc",
        ),
    ],
)
def test_an_environment_that_is_not_kept_is_made_again_from_the_same_source(installed, source, requirement):
    installed("archive-v0/x", source, "PREFIX/bin/switchgear", uv="/opt/uv")
    assert own_command("mcp-proxy") == ["/opt/uv", "tool", "run", "--from", requirement, "switchgear"]
    for folder in ("pipx/.cache/x", ".cache/pipx/x"):
        installed(folder, source, "PREFIX/bin/switchgear")
        assert own_command("mcp-proxy") == ["pipx", "run", "--spec", requirement, "switchgear"]
