"""What a circuit's row says of its tool's rate limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from switchgear_cli.reads.formats import ago, count
from switchgear_schemas.pacing import DEMAND_S, rate_in_words


def limit_in_words(circuit: Mapping[str, Any], now: str) -> str:
    """Return the limit in words, such as ``keeps 100 calls per 60 s with 12 processes``. Empty if none is known.

    Args:
        circuit: A circuit as ``GET /v1/circuits`` answers. Older APIs know no limits.
        now: When that was, in RFC 3339.
    """
    pace = circuit.get("pace")
    if not pace or not pace["limits"]:
        return ""
    limits = pace["limits"]
    widest = max(limits, key=lambda each: (not each["credential"], each["asked"]))
    rate = rate_in_words(widest["rate"], widest["period_s"])
    more = f" (and {count(len(limits) - 1)} more limits by credential)" if len(limits) > 1 else ""
    if pace["mode"] != "enforce":
        return f"takes {rate}{more}"
    processes = circuit.get("active_processes") or 1
    parts = [f"keeps {rate}{more} with {count(processes)} process{'es' if processes > 1 else ''}"]
    if widest["paused_until"] is not None and (wait := ago(widest["paused_until"], now)).startswith("in "):
        parts.append(f"paused, goes on {wait}")
    asked, refused, waited = widest["asked"], widest["refused"], widest["waited"]
    if refused or waited:
        parts.append(f"{count(asked)} asked for in {DEMAND_S} s, {count(waited)} waited, {count(refused)} refused")
    return "; ".join(parts)
