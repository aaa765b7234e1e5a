"""The folder ``shared`` beside the repository: real data, the seeds and research. A user's clone has none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def shared_folder() -> Path:
    """The folder. Where it is absent the test is skipped, except in CI, where that fails it."""
    folder = REPOSITORY.parent / "shared"
    if folder.is_dir():
        return folder
    if os.environ.get("CI"):
        pytest.fail(f"CI is set and {folder} is not there.")
    pytest.skip(f"{folder} is not there.")
