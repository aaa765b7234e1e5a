"""Read files whose names come from outside: settings, options, variables.

Opening a pipe waits for a writer, and a device may have no end. So only regular files are read, and only so many bytes of them.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Any, BinaryIO, Final

if TYPE_CHECKING:
    import ssl

MOST_BYTES: Final = 1_000_000
"""Of a file that people write."""
MOST_BYTES_OF_CERTIFICATES: Final = 8 * 1_048_576
_OPEN: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_PIECE: Final = 1_048_576

Name = str | os.PathLike[str]


def read_file(name: Name, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file. Links are followed.

    Raises:
        OSError: It can't be read, is not a regular file, or has more bytes. ``strerror`` says why.
        ValueError: The name can't be one.
    """
    with open_file(name) as file:
        content = bytearray()
        while len(content) <= most_bytes and (piece := os.read(file.fileno(), _PIECE)):
            content += piece
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", os.fspath(name))
    return bytes(content)


def open_file(name: Name) -> BinaryIO:
    """Open a regular file of any size, to read it piece by piece.

    Raises:
        OSError: It can't be opened, or is not a regular file. ``strerror`` says why.
        ValueError: The name can't be one.
    """
    _check(os.stat(name), name)  # noqa: PTH116 - importing pathlib is slow, and clients import this. Opening a device can change it
    descriptor = os.open(name, _OPEN)
    try:
        _check(os.fstat(descriptor), name)  # it may have been replaced
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def check_file(name: Name, most_bytes: int = MOST_BYTES_OF_CERTIFICATES) -> None:
    """Check a file that a library will read by its name.

    Raises:
        OSError: As of :func:`read_file`.
        ValueError: The name can't be one.
    """
    with open_file(name) as file:
        size = os.fstat(file.fileno()).st_size
    if size > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", os.fspath(name))


def trusted_at(url: str, cafile: Name | None) -> ssl.SSLContext | bool:
    """Return what an HTTP client of ``url`` trusts, as httpx takes it: a file of certificates, or else the usual ones.

    For ``http://`` these are not loaded: that takes 20 ms.

    Raises:
        OSError: As of :func:`check_file`, or the file holds no certificates.
        ValueError: The name can't be one.
    """
    if cafile is None:
        return not url.lower().startswith("http://")
    import ssl  # noqa: PLC0415 - slow to import, and clients import this

    check_file(cafile)
    return ssl.create_default_context(cafile=os.fspath(cafile))


def _check(found: os.stat_result, name: Any) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is not a regular file, but a folder", os.fspath(name))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file, but a pipe, a device or a socket", os.fspath(name))
