import hashlib
import json

from switchgear_api.console import update_vendor
from switchgear_api.console.update_vendor import COPIES, HERE, VENDOR, VERSIONS, Copy, copied

LOCK = json.loads((HERE / "package-lock.json").read_text())


def test_vendored_files_are_those_that_the_list_of_hashes_names():
    listed = json.loads(VERSIONS.read_text())["files"]
    found = {each["file"]: hashlib.sha256((VENDOR / each["file"]).read_bytes()).hexdigest() for each in listed}
    assert found == {each["file"]: each["sha256"] for each in listed}
    present = {path.name for path in VENDOR.iterdir() if not path.name.endswith(".d.ts")}
    assert present == found.keys() | {VERSIONS.name}
    assert {copy.target for copy in COPIES} == found.keys()


def test_vendored_versions_are_those_of_the_lock_file():
    for each in json.loads(VERSIONS.read_text())["files"]:
        assert LOCK["packages"][f"node_modules/{each['package']}"]["version"] == each["version"]


def test_every_vendored_library_has_its_licence():
    packages = {copy.package for copy in COPIES}
    assert packages == {copy.package for copy in COPIES if "LICENSE" in copy.source}
    texts = [(VENDOR / f"{package}.LICENSE.txt").read_text() for package in packages]
    assert all("License" in text or "Redistribution and use" in text for text in texts)


def test_lock_file_of_the_console_names_no_registry():
    assert "resolved" not in (HERE / "package-lock.json").read_text()


def test_names_of_packages_become_files_that_a_browser_finds(tmp_path, monkeypatch):
    package = tmp_path / "node_modules" / "lib"
    package.mkdir(parents=True)
    (package / "lib.js").write_text('import{a}from"preact";a()\n//# sourceMappingURL=lib.js.map\n')
    monkeypatch.setattr(update_vendor, "HERE", tmp_path)
    copy = Copy(
        "lib",
        "lib.js",
        "lib.js",
        imports=(("preact", "./preact.js"),),
        beginning="let b;\n",
        ending="\nexport default a;\n",
    )
    assert copied(copy) == 'let b;\nimport{a}from"./preact.js";a()\nexport default a;\n'
