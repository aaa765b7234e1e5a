"""The code blocks of a document, so that tests run what readers copy."""

from __future__ import annotations

import contextlib
import contextvars
import io
import re
from dataclasses import dataclass, field
from pathlib import Path

from switchgear import Switchgear

REPOSITORY = Path(__file__).resolve().parents[2]


def snippets(document: str, language: str) -> list[str]:
    """Return the fenced blocks of ``language`` in ``document`` (a path from the repository's root), in order."""
    text = (REPOSITORY / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@dataclass
class Program:
    """A program as a reader copies it: a python block that begins with an import or a comment, and the blocks that continue it."""

    document: str
    line: int
    blocks: list[str] = field(default_factory=list)
    outputs: list[str | None] = field(default_factory=list)
    """What each block prints, if the document shows it in an ``output`` block right after it. ``…`` stands for any text."""

    @property
    def name(self) -> str:
        """Return the document and the line of the first block, for the test's report."""
        return f"{Path(self.document).name}:{self.line}"

    @property
    def code(self) -> str:
        """Return all blocks as one text."""
        return "\n".join(self.blocks)

    @property
    def connects(self) -> bool:
        """Return whether the program needs a broker."""
        return '"localhost:9092"' in self.code or ".from_env(" in self.code

    @property
    def tests(self) -> bool:
        """Return whether the program is a file for pytest."""
        return re.search(r"^(async )?def test_", self.code, re.MULTILINE) is not None

    def addressed(self, bootstrap_servers: str, topic_prefix: str) -> str:
        """Return the code with the address and topics of a test. A program with ``from_env`` reads them from its environment."""
        return self.code.replace('"localhost:9092"', f'"{bootstrap_servers}", topic_prefix="{topic_prefix}"')

    def run(self) -> None:
        """Run the program in this process, block by block, and compare what it prints.

        Raises:
            AssertionError: A block prints something else than the document says.
        """
        namespace: dict[str, object] = {"__name__": "__main__"}
        context = contextvars.copy_context()
        try:
            for number, (block, wanted) in enumerate(zip(self.blocks, self.outputs, strict=True), 1):
                printed = io.StringIO()
                compiled = compile(block, f"<{self.name}, block {number}>", "exec", dont_inherit=True)
                with contextlib.redirect_stdout(printed):
                    context.run(exec, compiled, namespace)
                if wanted is not None:
                    check_output(wanted, printed.getvalue())
        finally:  # in a process of its own, the end would close the clients
            for made in namespace.values():
                if isinstance(made, Switchgear):
                    made.close(0.2)


def check_output(wanted: str, printed: str) -> None:
    """Compare line by line. ``…`` in ``wanted`` stands for any text within its line.

    Raises:
        AssertionError: They differ.
    """
    pattern = r"[^\n]*".join(re.escape(part) for part in wanted.strip().split("…"))
    assert re.fullmatch(pattern, printed.strip()), f"the document says\n{wanted}\nbut this is printed\n{printed}"


def programs(document: str) -> list[Program]:
    """Return the programs of ``document`` in order. A block that begins with neither an import nor a comment continues the last one."""
    text = (REPOSITORY / document).read_text()
    found: list[Program] = []
    fences = re.finditer(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    after_python = False
    for fence in fences:
        language, block = fence[1], fence[2]
        if language == "output" and after_python:
            found[-1].outputs[-1] = block
        if language == "python":
            if not found or re.match(r"(import|from|#|\"\"\") ?", block):
                found.append(Program(document, text.count("\n", 0, fence.start()) + 1))
            found[-1].blocks.append(block)
            found[-1].outputs.append(None)
        after_python = language == "python"
    return found


def files(document: str) -> dict[str, str]:
    """Return the files that ``document`` shows: python blocks whose first line is a comment with the path."""
    found: dict[str, str] = {}
    for block in snippets(document, "python"):
        named = re.match(r"# ([\w/]+\.py)\b", block)
        if named is not None:
            found[named[1]] = block
    return found


def written(document: str, folder: Path) -> Path:
    """Write the files of ``document`` into ``folder``. An existing file is extended."""
    for name, code in files(document).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(code)
    return folder


def guide() -> list[Program]:
    """Return every program of ``docs/index.md``, ``docs/breaker.md`` and ``docs/guide``."""
    pages = sorted(f"docs/guide/{path.name}" for path in (REPOSITORY / "docs" / "guide").glob("*.md"))
    return [program for page in ("docs/index.md", "docs/breaker.md", *pages) for program in programs(page)]
