"""Write what the Python client answers into ``answers.json``, for the parity tests of the TypeScript client.

Run it from the repository's folder with the repository's packages on the path::

    python producers/typescript/test/parity/generate.py [--check]

With ``--check`` it writes nothing, and fails if the file is out of date.
"""

# ruff: noqa: INP001 - a script; its parts are beside it

from __future__ import annotations

import json
import sys
from pathlib import Path

import circuits
import names
import outcomes
import words

ANSWERS = Path(__file__).with_name("answers.json")


def main() -> int:
    """Write or check the file. Return the exit code."""
    answers = circuits.answers() | words.answers() | outcomes.answers() | names.answers()
    text = json.dumps(answers, separators=(",", ":"), sort_keys=True).replace('{"policy"', '\n{"policy"') + "\n"
    if "--check" in sys.argv:
        return 0 if ANSWERS.read_text() == text else 1
    ANSWERS.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
