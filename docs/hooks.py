"""MkDocs hooks."""

import re
from pathlib import Path
from typing import Any

from cyclopts.docs.markdown import generate_markdown_docs

from switchgear_cli.main import build_app

_COMMANDS = "<!-- commands -->"
_SPHINX_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):<code>[~.]?")


def on_config(config: Any) -> None:
    """List the pages of integrations in the order in which their first page links them."""
    (pages,) = [each["Integrations"] for each in config.nav if "Integrations" in each]
    text = Path(config.docs_dir, pages[0]).read_text()
    pages += [f"integrations/{name}" for name in dict.fromkeys(re.findall(r"\]\(([\w-]+\.md)\)", text))]


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page with its marker replaced by the help of every command."""
    if _COMMANDS not in markdown:
        return markdown
    _, heading, commands = generate_markdown_docs(build_app(), generate_toc=False).partition("\n## ")
    return markdown.replace(_COMMANDS, heading + commands)


def on_page_content(html: str, **_: object) -> str:
    """Return the HTML of a page without the Sphinx roles of docstrings: editors know them, Markdown doesn't."""
    return _SPHINX_ROLE.sub("<code>", html)
