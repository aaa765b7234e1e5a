"""What ``make check`` and ``make test`` run side by side: ``python -m tests.support.side_by_side check|test [ARGUMENTS]``.

Each process of pytest-xdist imports all the tests that it is given: a third of a minute for ours. So the unit tests have processes of their own:
two in ``make check``, and three in ``make test``, because those of the engine and of the commands are mostly slow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_NO_TESTS: Final = 5
"""Of pytest: a choice such as ``-k`` left nothing of one part."""
_PYTEST: Final = (sys.executable, "-m", "pytest", "-q")
_QUICK: Final = (*_PYTEST, "-m", "not slow and not deep")
_WHOLE: Final = (*_PYTEST, "-m", "not deep")
_PROCESSES: Final = ("--dist=loadfile", "--no-loadscope-reorder", f"--numprocesses={os.environ.get('PROCESSES', '3')}")


def main(arguments: Sequence[str]) -> int:
    """Run all parts, and print what each printed when it ends. Return 1 if one failed, or if there was no test."""
    name, *given = arguments
    if name == "test" and any(Path(each.partition("::")[0]).exists() for each in given):
        return subprocess.call([*_WHOLE, *_PROCESSES, *given])
    tests, others = _PARTS[name]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in (*others, *([*part, *given] for part in tests[:-1]))
    ]
    codes = [subprocess.call([*tests[-1], *given])]
    for process in running:
        print(process.communicate()[0], end="", flush=True)
        codes.append(process.returncode)
    of_tests = [codes[0], *codes[1 + len(others) :]]
    if all(code == _NO_TESTS for code in of_tests):
        return 1
    return int(any(code not in {0, _NO_TESTS} for code in codes))


_HALVES: Final = (["tests/unit/producers"], ["tests/unit", "--ignore=tests/unit/producers"])
_ENGINE: Final = ("tests/unit/sinks", "tests/unit/deploy")
_THIRDS: Final = (_HALVES[0], [*_ENGINE], [*_HALVES[1], *(f"--ignore={each}" for each in _ENGINE)])
_Command = Sequence[str]
_PARTS: Final[dict[str, tuple[Sequence[_Command], Sequence[_Command]]]] = {
    "check": (
        [[*_QUICK, *half] for half in _HALVES],
        ([sys.executable, "-m", "mypy"],),
    ),
    "test": ([*([*_WHOLE, *third] for third in _THIRDS), [*_WHOLE, *_PROCESSES, "tests", "--ignore=tests/unit"]], ()),
}
"""By command: what pytest runs, and what else runs beside it. The last part of the tests prints while it runs."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
