"""Default ports that a test may use: those of a running system stay out of its way."""

import os

import pytest

from switchgear_cli.local.ports import is_free
from switchgear_cli.up import ports as ports_module


@pytest.fixture
def defaults(monkeypatch):
    """Each flag's default, at ports that are free, as are the next ones of each."""
    first = 21_000 + 100 * (os.getpid() % 100)
    base = next(base for base in range(first, 32_000, 100) if all(is_free(base + number) for number in range(80)))
    of_flags = {flag: base + port % 10 for flag, port in ports_module.DEFAULTS.items()}
    of_flags["--kafka-port"] = base + 5
    monkeypatch.setattr(ports_module, "DEFAULTS", of_flags)
    return of_flags
