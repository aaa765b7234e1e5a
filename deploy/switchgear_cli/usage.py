"""WrongUsageError: the command line can't be carried out as it stands; nothing was done. Exit code 2."""

from __future__ import annotations

from switchgear_schemas.errors import SwitchgearError


class WrongUsageError(SwitchgearError):
    """An argument is wrong in itself, found after the command line was parsed."""
