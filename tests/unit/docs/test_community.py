"""The files that GitHub, the MCP registry and agents read: each says what the project's own data say."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib

import yaml

from switchgear_cli.catalogue import COMMANDS
from switchgear_schemas.settings import ClientSettings, Settings
from tests.support.snippets import REPOSITORY
from tests.support.table import table

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
HOME = PROJECT["urls"]["Repository"]
OWNER, NAME = HOME.removeprefix("https://github.com/").split("/")
SERVER = json.loads((REPOSITORY / "server.json").read_text())
TEMPLATES = sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / ".github").rglob("*.yml"))


def _text(path: str) -> str:
    return (REPOSITORY / path).read_text()


def test_all_files_name_the_same_repository():
    for path in ("SECURITY.md", "CODE_OF_CONDUCT.md", "docs/security.md", ".github/ISSUE_TEMPLATE/config.yml"):
        assert f"{HOME}/security/advisories/new" in _text(path), path
    assert all(url.startswith(f"{HOME}") for url in PROJECT["urls"].values())
    assert yaml.safe_load(_text("CITATION.cff"))["repository-code"] == HOME
    assert json.loads(_text("producers/typescript/package.json"))["repository"]["url"] == f"git+{HOME}.git"
    assert SERVER["repository"] == {"url": HOME, "source": "github"}
    assert f"@{OWNER}/maintainers" in _text(".github/CODEOWNERS")


def test_no_file_names_another_repository_of_ours():
    listed = subprocess.run(
        ["git", "grep", "-IhoE", r"github\.com/[A-Za-z0-9-]+/switchgear\b", "--", ":!tests/"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert set(listed) == {HOME.removeprefix("https://")}


def test_citation_and_registry_name_the_version_of_the_package():
    version = PROJECT["version"]
    cited = yaml.safe_load(_text("CITATION.cff"))
    assert (cited["version"], cited["license"], cited["cff-version"]) == (version, PROJECT["license"], "1.2.0")
    (package,) = SERVER["packages"]
    assert SERVER["version"] == package["version"] == version
    assert f"## [{version}]" in _text("CHANGELOG.md")
    for path in ("producers/typescript/package.json", "producers/typescript/package-lock.json"):
        assert json.loads(_text(path))["version"] == version, path


def test_the_registrys_entry_is_named_as_the_registry_asks():
    assert SERVER["name"] == f"io.github.{OWNER}/{NAME}"
    assert f"mcp-name: {SERVER['name']} " in _text("README.md")  # proves to the registry that the package is ours
    assert 1 <= len(SERVER["description"]) <= 100
    assert re.fullmatch(
        r"https://static\.modelcontextprotocol\.io/schemas/\d{4}-\d\d-\d\d/server\.schema\.json", SERVER["$schema"]
    )


def test_the_registrys_entry_starts_a_command_that_exists_with_its_extra_and_settings():
    (package,) = SERVER["packages"]
    (argument,) = package["packageArguments"]
    assert argument["value"] in {entry.name for entry in COMMANDS}
    (extra,) = package["runtimeArguments"]
    wanted = re.fullmatch(r"switchgear\[([\w-]+)\]==(\S+)", extra["value"])
    assert wanted
    assert wanted[1] in PROJECT["optional-dependencies"]
    assert wanted[2] == PROJECT["version"]
    known = {f"SWITCHGEAR_{name.upper()}" for name in {**Settings.model_fields, **ClientSettings.model_fields}}
    assert {each["name"] for each in package["environmentVariables"]} <= known


@table("path", TEMPLATES)
def test_a_form_of_github_has_what_github_requires(path):
    form = yaml.safe_load(_text(path))
    if path.endswith("config.yml"):
        assert all(set(link) == {"name", "url", "about"} for link in form["contact_links"])
        return
    assert {"name", "description", "body"} <= set(form)
    ids = [part["id"] for part in form["body"]]
    assert len(ids) == len(set(ids))
    assert all(part["attributes"]["label"] for part in form["body"])


def test_commands_that_agents_and_contributors_are_told_exist():
    targets = set(re.findall(r"^([a-z-]+):", _text("Makefile"), re.MULTILINE))
    for path in ("AGENTS.md", "CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md"):
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", _text(path), re.MULTILINE))
        assert named, path
        assert named <= targets, path
    for path in re.findall(r"`((?:tests|producers)/[\w/.]+)`", _text("AGENTS.md")):
        assert (REPOSITORY / path).exists(), path
    (one_file,) = re.findall(r"pytest -q (\S+)`", _text("AGENTS.md"))
    assert (REPOSITORY / one_file).is_file()


def test_nobody_is_asked_to_write_to_an_address_that_may_not_exist():
    for path in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "CITATION.cff", ".github/CODEOWNERS"):
        assert not re.search(r"[\w.+-]+@[\w-]+\.\w+", _text(path)), path
