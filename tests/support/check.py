"""What ``make check`` runs side by side: mypy, and the quick unit tests in two processes.

pytest-xdist would have each process import all test files. Here each imports its own half.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

_NO_TESTS: Final = 5
"""Of pytest: a choice such as ``-k`` left nothing of one half."""
_HALVES: Final = (["tests/unit/producers"], ["tests/unit", "--ignore=tests/unit/producers"])


def main(arguments: Sequence[str]) -> int:
    """Run all, and print what each printed when it ends. ``arguments`` are for pytest. Return 1 if one failed."""
    python = sys.executable
    tests = [python, "-m", "pytest", "-q", "-m", "not slow and not deep"]
    commands = [[*tests, *half, *arguments] for half in _HALVES]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in ([python, "-m", "mypy"], *commands)
    ]
    codes = []
    for process in running:
        print(process.communicate()[0], end="", flush=True)
        codes.append(process.returncode)
    if all(code == _NO_TESTS for code in codes[1:]):
        return 1
    return int(any(code not in {0, _NO_TESTS} for code in codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
