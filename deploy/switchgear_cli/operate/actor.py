"""Who commands, where nobody is named."""

from __future__ import annotations

import getpass
import socket


def this_person() -> str:
    """``user@host`` of this machine; the host alone where the user has no name."""
    host = socket.gethostname()
    try:
        return f"{getpass.getuser()}@{host}"
    except (KeyError, OSError):
        return host
