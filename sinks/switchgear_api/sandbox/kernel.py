"""Confine this process with the Linux kernel until it ends: Landlock for files, seccomp for system calls.

Both need no rights and can't be undone. They bind the calling thread and the threads that it starts later, so call them before
any thread starts.

Sources: ``Documentation/userspace-api/landlock.rst`` and ``seccomp_filter.rst`` of Linux 6.18; the numbers are those of
``include/uapi/linux/landlock.h`` and of the system call tables.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

LOWEST_ABI: Final = 3
"""Version of Landlock (Linux 6.2): the first one that denies truncating a file that the process may not write."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_ASK_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_DIR, _MAKE_REG, _MAKE_SYM, _REFER, _TRUNCATE, _IOCTL = (1 << bit for bit in (7, 8, 12, 13, 14, 15))
_READ: Final = _READ_FILE | _READ_DIR
_WRITE: Final = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE
_OF_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_FILE_RIGHTS: Final = {3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}  # by ABI: all rights that it knows
_TCP: Final = 3  # bind and connect, since ABI 4
_SCOPES: Final = 3  # no abstract sockets of and signals to other processes, since ABI 6

_REFUSED_CALLS: Final[dict[str, tuple[int, ...]]] = {  # on x86_64, on aarch64 (which has only the *at forms)
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "ptrace": (101, 117), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "chmod": (90,), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92,), "fchown": (93, 55), "lchown": (94,), "fchownat": (260, 54),
    "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268), "open_by_handle_at": (304, 265),
    "init_module": (175, 105), "finit_module": (313, 273), "add_key": (248, 217), "keyctl": (250, 219),
    "perf_event_open": (298, 241), "bpf": (321, 280), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
}  # fmt: skip
"""System calls that are refused with ``EPERM``."""
_ARCHITECTURES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""By ``platform.machine()``: the number of the architecture, and its place in the tuples above."""

_LOAD_WORD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # classic BPF
_ALLOW, _KILL_PROCESS, _EPERM = 0x7FFF0000, 0x80000000, 0x00050001
_X32: Final = 0x40000000


class UnwalledError(RuntimeError):
    """The kernel can't confine the process. The message says what is missing."""


def missing() -> str | None:
    """Return what this system lacks for Landlock and seccomp, as a clause; None if it has both."""
    if sys.platform != "linux":
        return f"it needs Linux, and this is {sys.platform}"
    if platform.machine() not in _ARCHITECTURES:
        return f"the architecture {platform.machine()} is not supported"
    abi = _landlock_abi()
    if abi < LOWEST_ABI:
        return "the kernel has no Landlock (Linux 6.2 or later, with landlock among its security modules)"
    return None


def confine_files(read: Iterable[Path], write: Iterable[Path]) -> None:
    """From now on, allow only files below ``read`` and ``write``, and no execution.

    Paths that do not exist are left out. A newer kernel also denies TCP, and signals to other processes.

    Raises:
        UnwalledError: The kernel has no Landlock, or its version is too old.
        OSError: The kernel refuses.
    """
    abi = _landlock_abi()
    if abi < LOWEST_ABI:
        raise UnwalledError(missing() or "the kernel has no Landlock")
    handled = _FILE_RIGHTS[min(abi, max(_FILE_RIGHTS))]
    fields = [handled, *([_TCP] if abi >= 4 else []), *([_SCOPES] if abi >= 6 else [])]
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    ruleset = _syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for paths, rights in ((read, _READ), (write, _READ | _WRITE)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        _no_new_privileges()
        _syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def confine_calls() -> None:
    """From now on, refuse system calls that open sockets, run programs, read other processes or change rights.

    Raises:
        UnwalledError: The architecture is not supported.
        OSError: The kernel refuses.
    """
    if platform.machine() not in _ARCHITECTURES:
        raise UnwalledError(missing() or "the architecture is not known")
    architecture, place = _ARCHITECTURES[platform.machine()]
    numbers = [known[place] for known in _REFUSED_CALLS.values() if place < len(known)]
    count = len(numbers)
    code = [
        (_LOAD_WORD, 0, 0, 4),  # seccomp_data.arch
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD_WORD, 0, 0, 0),  # seccomp_data.nr
        (_JUMP_AT_LEAST, count + 1, 0, _X32),
        *((_JUMP_EQUAL, count - nth, 0, number) for nth, number in enumerate(numbers)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    packed = b"".join(struct.pack("=HBBI", *each) for each in code)
    held = ctypes.create_string_buffer(packed, len(packed))
    program = _Program(len(code), ctypes.cast(held, ctypes.c_void_p))
    _no_new_privileges()
    _check(_libc().prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0))


class _Program(ctypes.Structure):
    """``struct sock_fprog``."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _landlock_abi() -> int:
    asked = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    return max(0, int(asked))


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not path.is_dir():
            rights &= _OF_A_FILE
        _syscall(
            _ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_PATH_BENEATH),
            struct.pack("=Qi", rights, opened),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(opened)


def _no_new_privileges() -> None:
    _check(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _syscall(number: int, *arguments: object) -> int:
    return _check(_libc().syscall(number, *arguments))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
