"""The scripts of the console's pages have right types, and their form is that of the formatter."""

import pytest

from switchgear_api.console.update_vendor import HERE as CONSOLE
from tests.support.npm import install_locked, printed

pytestmark = [pytest.mark.deep, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def packages():
    install_locked(CONSOLE)


@pytest.mark.parametrize("script", ["types", "format:check"])
def test_scripts_of_the_console_pass(script):
    printed(CONSOLE, "npm", "run", "--silent", script)


def test_script_and_styles_of_the_console_were_made_from_their_sources(tmp_path):
    printed(CONSOLE, "npm", "run", "--silent", "bundle", "--", f"--outdir={tmp_path}")
    for name in ("console.js", "console.css"):
        assert (tmp_path / name).read_bytes() == (CONSOLE / "assets" / name).read_bytes(), (
            "run `npm run bundle` in sinks/switchgear_api/console"
        )
