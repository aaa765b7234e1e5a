"""The folder ``shared`` beside the repository, with real data, the reference documents and research. A user's clone does not have it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def shared_folder() -> Path:
    """Return the folder. If it is absent, skip the test; in CI, fail it."""
    folder = REPOSITORY.parent / "shared"
    if folder.is_dir():
        return folder
    if os.environ.get("CI"):
        pytest.fail(f"CI is set and {folder} is not there.")
    pytest.skip(f"{folder} is not there.")
