"""A check that a test closes its Kafka clients."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def none_left_open() -> Iterator[None]:
    """Fail if the block forgets a client without closing it: its sockets and tasks would stay."""
    gc.collect()  # what earlier tests have left
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(each.message) for each in found] == []
