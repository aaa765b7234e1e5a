"""Parameters leave the process as a keyed hash alone: equal calls can be told, their content can't be guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from switchgear.parameters_form import form_of


def parameters_hash(key: bytes, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str:
    """BLAKE2b (RFC 7693) of the parameters under ``key``, 32 hexadecimal characters.

    Equal parameters hash equally whatever the order of keywords, in every process with the same key, and different ones
    differently: see :mod:`switchgear.parameters_form`.

    Args:
        key: the deployment's secret, 1 to 64 bytes.
        args: positional parameters.
        kwargs: keyword parameters.

    Raises:
        ValueError: the key is empty (the hash could be guessed by trying) or longer than 64 bytes.
        FormlessError: a value can't be told from others like it.
    """
    import hashlib  # noqa: PLC0415 - takes 5 ms to import, and few programs hash parameters

    if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise ValueError(f"the key must have 1 to {hashlib.blake2b.MAX_KEY_SIZE} bytes, got {len(key)}")
    canonical = msgspec.json.encode(form_of([list(args), dict(kwargs or {})]), order="deterministic")
    return hashlib.blake2b(canonical, key=key, digest_size=16).hexdigest()
