"""The code blocks of a document, so that tests run what people copy."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def snippets(document: str, language: str) -> list[str]:
    """Every fenced block of ``language`` in ``document`` (a path from the repository's root), in order."""
    text = (REPOSITORY / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
