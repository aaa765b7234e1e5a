"""Write ``docs/llms.txt``, the list of pages for language models: ``python docs/llms.py``. ``make docs`` does it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).resolve().parent
_HEAD = """# Switchgear

> Fleet-wide circuit breakers and tool health for AI agents: when a tool breaks, one process finds out, and milliseconds later all others stop calling it.

Paths are relative to this file. To put Switchgear into a code base, follow ../skills/instrument-with-switchgear/SKILL.md. To change Switchgear itself,
read ../AGENTS.md.
"""
_LONGEST = 160


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags name Python objects that nobody needs here."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def text() -> str:
    """Return the list: the sections of the site's navigation, and each page's title and first sentence."""
    nav = yaml.load((DOCS.parent / "mkdocs.yml").read_text(), _Loader)["nav"]  # noqa: S506 - a safe loader
    parts = [_HEAD]
    for entry in nav:
        ((section, pages),) = entry.items()
        parts.append(f"\n## {section}\n\n")
        parts += [_line(page) for page in _pages(pages)]
    return "".join(parts)


def _pages(entries: str | Sequence[Any]) -> Iterator[str]:
    for entry in [entries] if isinstance(entries, str) else entries:
        if isinstance(entry, Mapping):
            yield from _pages(list(entry.values()))
        elif entry == "integrations/index.md":  # hooks.py adds the pages that it links
            found = re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / entry).read_text())
            yield from (entry, *(f"integrations/{name}" for name in dict.fromkeys(found)))
        else:
            yield entry


def _line(page: str) -> str:
    body = re.sub(r"^(```.*?^```|<!--.*?-->)$", "", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    title, _, rest = body.partition("\n")
    paragraphs = [each.replace("\n", " ").strip() for each in re.split(r"\n{2,}", rest)]
    prose = next((each for each in paragraphs if re.match(r"[\w`*\[]", each) and not each.startswith("* ")), "")
    prose = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose).replace("**", "")
    sentence = re.split(r"(?<=[.:])\s", prose)[0].rstrip(":")
    if len(sentence) > _LONGEST:
        sentence = sentence[:_LONGEST].rpartition(" ")[0] + " …"
    return f"- [{title.removeprefix('# ')}]({page})" + (f": {sentence}\n" if sentence else "\n")


if __name__ == "__main__":
    (DOCS / "llms.txt").write_text(text())
