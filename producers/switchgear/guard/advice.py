"""Advice: what to use instead, for a refusal that the caller gets as a value, or on entering a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from switchgear.guard.rejection import Rejection
    from switchgear.guard.runtime import Runtime


def advised(runtime: Runtime, refusal: Rejection) -> Rejection:
    """``refusal`` with the first of the tool's fallbacks that would not be refused too; as it is where there is none.

    A guard calls that one itself; who asks for a permit has to be told.
    """
    if refusal.source not in {"local", "fleet"}:
        return refusal
    chain = runtime.chain(refusal.tool, ())
    named = next((tool for tool in chain if not runtime.is_open(tool)), None)
    return refusal if named is None or named == refusal.fallback else msgspec.structs.replace(refusal, fallback=named)
