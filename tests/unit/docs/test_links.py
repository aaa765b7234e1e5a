"""Links of the files outside docs/, which the site's build doesn't check: to files that exist, and to headings that they have."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.snippets import REPOSITORY
from tests.support.table import table

SITE = REPOSITORY / "docs"


def _files() -> list[str]:
    """Return Markdown files of the repository that aren't pages of the site, without those that git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return sorted(name for name in listed if (REPOSITORY / name).is_file() and not name.startswith("docs/"))


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of ``page``."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@table("name", _files())
def test_links_of_a_file_outside_the_site_lead_somewhere(name):
    file = REPOSITORY / name
    text = re.sub(r"^```.*?^```$", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(<?([^)>\s]+)>?\)", text):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        assert target.exists(), link
        assert target.is_relative_to(REPOSITORY), link
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), link
