"""Copy the libraries of the console's pages from npm packages into ``assets/vendor``.

Change a version in ``package.json``, run ``npm install`` in this folder, then ``python -m switchgear_api.console.update_vendor``. Browsers
load the copies as they are, so users need neither npm nor Node.js.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
VENDOR: Final = HERE / "assets" / "vendor"
VERSIONS: Final = VENDOR / "VERSIONS.json"


@dataclass(frozen=True)
class Copy:
    """One file to copy.

    Args:
        package: The npm package.
        source: The file in the package.
        target: The name of the copy.
        imports: Names of packages in imports, and the files that replace them. A browser can't find a package by its name.
        beginning: Text that makes a module of a script, before it.
        ending: The same, after it.
    """

    package: str
    source: str
    target: str
    imports: tuple[tuple[str, str], ...] = ()
    beginning: str = ""
    ending: str = ""


COPIES: Final = (
    Copy("preact", "dist/preact.mjs", "preact.js"),
    Copy("preact", "hooks/dist/hooks.mjs", "preact-hooks.js", imports=(("preact", "./preact.js"),)),
    Copy("preact", "LICENSE", "preact.LICENSE.txt"),
    Copy("htm", "dist/htm.mjs", "htm.js"),
    Copy("htm", "LICENSE", "htm.LICENSE.txt"),
    Copy(
        "smol-toml",
        "dist/index.cjs",
        "smol-toml.js",
        beginning="const exports = {};\n",
        ending="\nexport default exports;\n",
    ),
    Copy("smol-toml", "LICENSE", "smol-toml.LICENSE.txt"),
    Copy("uplot", "dist/uPlot.iife.min.js", "uplot.js", ending="\nexport default uPlot;\n"),
    Copy("uplot", "dist/uPlot.min.css", "uplot.css"),
    Copy("uplot", "LICENSE", "uplot.LICENSE.txt"),
)


def copied(copy: Copy) -> str:
    """Return the text of a file as a browser loads it."""
    text = (HERE / "node_modules" / copy.package / copy.source).read_text()
    text = re.sub(r"^//# sourceMappingURL=.*\n?", "", text, flags=re.MULTILINE)
    for package, file in copy.imports:
        text = re.sub(rf'from *"{re.escape(package)}"', f'from"{file}"', text)
    return copy.beginning + text.rstrip("\n") + (copy.ending or "\n")


def main() -> int:
    """Install the packages that the lock file names, copy their files, and write their versions and hashes."""
    npm = shutil.which("npm")
    if npm is None:
        print("npm is not installed. Install Node.js 20 or newer, and run this again.", file=sys.stderr)
        return 1
    subprocess.run([npm, "ci"], cwd=HERE, check=True, timeout=600)
    files = []
    for copy in COPIES:
        text = copied(copy)
        (VENDOR / copy.target).write_text(text)
        version = json.loads((HERE / "node_modules" / copy.package / "package.json").read_text())["version"]
        files.append(
            {
                "file": copy.target,
                "package": copy.package,
                "version": version,
                "source": copy.source,
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
            }
        )
    VERSIONS.write_text(json.dumps({"files": files}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
