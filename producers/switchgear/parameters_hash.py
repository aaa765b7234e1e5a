"""Parameters leave the process as a keyed hash alone: equal calls can be told, their content can't be guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


def parameters_hash(key: bytes, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str:
    """BLAKE2b (RFC 7693) of the parameters under ``key``, 32 hexadecimal characters.

    Equal parameters hash equally whatever the order of keywords, in every process with the same key. Values that
    have no JSON form count by their type and ``repr``.

    Args:
        key: the deployment's secret, 1 to 64 bytes.
        args: positional parameters.
        kwargs: keyword parameters.

    Raises:
        ValueError: the key is empty (the hash could be guessed by trying) or longer than 64 bytes.
    """
    import hashlib  # noqa: PLC0415 - takes 5 ms to import, and few programs hash parameters

    if not 1 <= len(key) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise ValueError(f"the key must have 1 to {hashlib.blake2b.MAX_KEY_SIZE} bytes, got {len(key)}")
    plain = msgspec.to_builtins([args, kwargs or {}], str_keys=True, enc_hook=_describe)
    canonical = msgspec.json.encode(plain, order="deterministic")
    return hashlib.blake2b(canonical, key=key, digest_size=16).hexdigest()


def _describe(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}:{value!r}"
