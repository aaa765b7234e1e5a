"""Hostile messages by a seed: arbitrary bytes, and well-formed messages with odd values."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from switchgear.breaker import snapshot
from switchgear.fleet.rows import MARK, PolicyOverrides
from switchgear_schemas import BreakerPolicy, DeadLetter
from switchgear_schemas.headers import REKEYED, RESENT
from tests.support.fleet import failed_row

ODD_NUMBERS: Final = (
    *("0", "-0", "-1", "1.5", "1e18", "1e308", "1e309", "-1e309", "5e-324", "1e-300", "NaN", "Infinity", "-Infinity"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551616", "1" * 400, "1" * 5_000, "true", "null"),
    *('"5"', "[]", "{}", "0.1", "86400", "86401", "1e-9"),
)
ODD_TEXTS: Final = (
    *('""', '"\\u0000"', '"\\ud800"', '"\\udfff\\ud800"', '"\\u202e\\u200b"', '"\x7f"', '"|user="', '"a|session=b"'),
    *('"' + "x" * 257 + '"', '"' + "x" * 100_000 + '"', '"' + "\\u0000" * 3_000 + '"', "5", "true", "[]", "null"),
)
ODD_TIMES: Final = (
    *('"1970-01-01T00:00:00Z"', '"2000-01-01T00:00:00Z"', '"2099-12-31T23:59:59-14:00"', '"9999-12-31T23:59:59Z"'),
    *('"9999-12-31T23:59:59-23:59"', '"0001-01-01T00:00:00+23:59"', '"2026-11-21"', '"2026-11-21T10:00:00"', '"now"'),
    *("1795262400", "1e300", "-1", '"2026-11-21T10:00:60Z"'),
)
ODD_NESTED: Final = (
    *('{"a":NaN}', '{"a":1e999}', '{"a":"\\ud800"}', '{"":1}', '{"a":1,"a":2}', "5", "[]", "null"),
    *('{"a":' + "[" * depth + "]" * depth + "}" for depth in (200, 5_000, 100_000)),
)
EVENT: Final = {  # of each field, what is put into it
    "tool_name": ODD_TEXTS,
    "status": (*ODD_TEXTS, '"error"', '"timeout"', '"rejected"', '"cancelled"', '"overdue"'),
    **dict.fromkeys(("user_id", "session_id", "emitter_id", "lease_id", "error_type", "error_message", "tenant"), ODD_TEXTS),
    **dict.fromkeys(("execution_time_ms", "input_tokens", "output_tokens", "generation", "retry_after_s", "overdue_ms"), ODD_NUMBERS),
    **dict.fromkeys(("cost_usd", "input_size", "cache_creation_tokens"), ODD_NUMBERS),
    "recorded_at": ODD_TIMES,
    "metadata": ODD_NESTED,
    "probe_requested": ("true", "false", "1", '"yes"'),
    "error_class": ('"transport"', '"cancelled"', '"policy"', '"odd"', "5"),
    "unknown": ODD_NESTED,
}  # fmt: skip
COMMAND: Final = {
    "tool_name": (*ODD_TEXTS, '"*"', '"mcp:*"', '"' + "?*" * 128 + '"', '"[a-"', '"**"'),
    "verb": ('"set_policy"', '"force_open"', '"close"', '"reset"', '"disable"', '"auto"', '"metrics_only"', '"x"', "5"),
    "actor": ODD_TEXTS,
    "reason": ODD_TEXTS,
    "until": ODD_TIMES,
    "circuit_id": (*ODD_TEXTS, '"good-0|user=u"'),
    "command_id": ODD_TEXTS,
}
POLICY: Final[tuple[str, ...]] = tuple(BreakerPolicy.model_fields)
BINARY: Final = (
    b"",
    b"\x00",
    b"\xff" * 40,
    b"[" * 50_000,
    b"{}",
    b"null",
    b"\x1f\x8b\x08",
    b"\x93\x01\x02",
    b"\xc1",
    b"not it",
)
PADS: Final = (900_000, 1_100_000, 3_000_000, 20_000_000)
NAMES: Final = (
    "\x00mark",
    "\x00",
    " ",
    "\u202e",
    "a|user=b",
    "a|family",
    "%257C|session=",
    "\xffmark",
    "ö" * 256,
    "policies-0",
    "x\ny",
)
COMPRESSIONS: Final = (None, "gzip", "snappy", "lz4", "zstd")


@dataclass
class Hostile:
    """A record to write. ``partition`` is None for that of its key. ``transaction`` is None, ``commit`` or ``abort``."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    timestamp_ms: int | None = None
    compression: str | None = None
    transaction: str | None = None


def blob(rng: random.Random) -> bytes:
    """Return arbitrary bytes."""
    return rng.choice(BINARY) if rng.random() < 0.4 else rng.randbytes(rng.choice((1, 9, 40, 300, 5_000)))


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return ``data`` with some bytes changed, added or removed."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found) + 1)
        kind = rng.random()
        if kind < 0.6 and at < len(found):
            found[at] = rng.randrange(256)
        elif kind < 0.8:
            found[at:at] = rng.randbytes(rng.randint(1, 9))
        else:
            del found[at : at + rng.randint(1, 30)]
    return bytes(found)


def _json(fields: dict[str, str]) -> bytes:
    return ("{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields.items()) + "}").encode(
        errors="surrogatepass"
    )


def execution(rng: random.Random, tool_name: str = "t") -> bytes:
    """Return an execution with some odd values."""
    fields = {"tool_name": json.dumps(tool_name), "status": json.dumps(rng.choice(("success", "error", "timeout")))}
    for name in rng.sample(sorted(EVENT), rng.choice((0, 1, 1, 2, 4))):
        if name != "tool_name" or rng.random() < 0.3:
            fields[name] = rng.choice(EVENT[name])
    if rng.random() < 0.01:
        fields["pad"] = '"' + "x" * rng.choice(PADS) + '"'
    found = _json(fields)
    return damaged(rng, found) if rng.random() < 0.2 else found


def command(rng: random.Random) -> bytes:
    """Return a command with odd values. Half of them set a policy."""
    fields = {"tool_name": '"t"', "verb": '"set_policy"', "actor": '"fuzz"'}
    if rng.random() < 0.6:
        values = {name: rng.choice(ODD_NUMBERS) for name in rng.sample(POLICY, rng.randint(1, 3))}
        if rng.random() < 0.3:
            values["fallback"] = json.dumps(["f" * rng.choice((1, 300))] * rng.choice((1, 20, 200)))
        if rng.random() < 0.2:
            values["scope"] = rng.choice(('"user"', '"session"', '"tool"', '"x"'))
        fields["policy"] = "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in values.items()) + "}"
    else:
        fields["verb"] = rng.choice(COMMAND["verb"])
    for name in rng.sample(sorted(COMMAND), rng.choice((0, 1, 2))):
        fields[name] = rng.choice(COMMAND[name])
    found = _json(fields)
    return damaged(rng, found) if rng.random() < 0.2 else found


ROW: Final = failed_row()
SAVED: Final = snapshot.decode(ROW.breaker)
RECORD: Final[dict[str, Any]] = json.loads(ROW.record or b"{}")


def row(rng: random.Random) -> tuple[bytes, bytes]:
    """Return a key and a value for the changelog."""
    kind = rng.random()
    if kind < 0.25:
        return rng.choice((b"t", b"\xff", b"\xff0", b"\x00mark", MARK, rng.randbytes(8))), blob(rng)
    if kind < 0.5:
        return rng.choice((ROW.key, b"t")), damaged(rng, ROW.encode())
    if kind < 0.6:
        overrides = PolicyOverrides(partition=rng.randrange(4), applied=rng.choice((0, 2**63)), tables={"*": blob(rng)})
        return overrides.key, overrides.encode()
    numbers = (-1, 0, 2**62, 2**63 - 1)
    changed: dict[str, Any] = rng.choice((
        {"total_calls": rng.choice(numbers)}, {"version": rng.choice(numbers)}, {"applied": rng.choice((2**63, 2**64 - 1))},
        {"clock": rng.choice((-1.0, 1e300, float("nan"), float("inf")))}, {"fences": {rng.choice((-1, 0, 10**9)): rng.choice(numbers)}},
        {"policy": blob(rng)}, {"record": blob(rng)}, {"breaker": blob(rng)}, {"fallback": ("f" * 1_000,) * 100},
        {"command_until": rng.choice((0.0, 1e300))}, {"commands": ("c",) * 10_000}, {"state": "ajar"},
        {"breaker": _breaker(rng)}, {"breaker": _breaker(rng)}, {"breaker": _breaker(rng)},
    ))  # fmt: skip
    return ROW.key, msgspec.structs.replace(ROW, **changed).encode()


def _breaker(rng: random.Random) -> bytes:
    times = (-1.0, 0.0, 1e10, 1e300, float("inf"), float("nan"))
    counts = (-1, 0, 7, 2**62, 2**63 - 1)
    if rng.random() < 0.5:
        name = rng.choice(
            ("stamp", "ignored", "up", "down", "cusum", "streak", "reporters", "panes", "size", "slow_ms")
        )
        value: Any = rng.choice(times) if name in {"size", "slow_ms"} else rng.choice(counts)
        evidence = msgspec.structs.replace(SAVED.evidence, **{name: value})
        return snapshot.encode(msgspec.structs.replace(SAVED, evidence=evidence))
    name = rng.choice(
        ("changed_at", "open_until", "clock", "retry_at", "generation", "attempt", "state", "half_open", "cause")
    )
    if name in {"half_open", "cause"}:
        value = rng.choice(([], [1] * 7, [None] * 7, [0, 0, 0, 0, 0, 0, [["a", "b"]] * 50]))
    else:
        value = rng.choice(counts) if name in {"generation", "attempt", "state"} else rng.choice(times)
    return snapshot.encode(msgspec.structs.replace(SAVED, **{name: value}))


def circuit(rng: random.Random) -> tuple[bytes, bytes]:
    """Return a key and a value for the circuits topic."""
    if rng.random() < 0.3:
        return rng.choice((b"t", b"\xff", b"\x00mark", rng.randbytes(8))), blob(rng)
    fields = {name: json.dumps(value) for name, value in RECORD.items()}
    for name in rng.sample(sorted(fields), rng.randint(1, 3)):
        times = name in {"changed_at", "open_until", "stands_until"}
        texts = name in {"circuit_id", "tool_name", "state", "scope", "mode", "last_error"}
        fields[name] = rng.choice(ODD_TIMES if times else ODD_TEXTS if texts else (*ODD_NUMBERS, *ODD_NESTED))
    found = _json(fields)
    return rng.choice((b"search", b"t", b"\xff")), damaged(rng, found) if rng.random() < 0.2 else found


def letter(rng: random.Random) -> tuple[bytes, bytes, list[tuple[str, bytes | None]]]:
    """Return a key, a value and headers for the dead-letter topic."""
    real = DeadLetter("x.executions", 1, 5, 7, "reason", "worker", original_key=b"k", value=b"v")
    found: list[tuple[str, bytes | None]] = list(real.headers())
    if rng.random() < 0.8:
        at = rng.randrange(len(found))
        found[at] = (found[at][0], rng.choice((None, b"", b"-1", b"9" * 5_000, b"\xff", rng.randbytes(30))))
    return rng.choice((real.key, b"k", b"\xff")), blob(rng), rng.sample(found, rng.randint(0, len(found)))


def headers(rng: random.Random) -> list[tuple[str, bytes | None]]:
    """Return headers for executions and commands. None of them claims the place of another message."""
    kind = rng.random()
    if kind < 0.5:
        return []
    if kind < 0.6:
        return [(REKEYED, rng.choice((None, b"", b"1", b"a:b", b"-1:2", b"9:1", b"0:" + b"9" * 30, blob(rng))))]
    if kind < 0.8:
        return [(RESENT, rng.choice((None, b"", b"1", blob(rng))))]
    return [
        (rng.choice(("x", "", "switchgear.", "ö", "traceparent")), rng.choice((None, b"", blob(rng))))
        for _ in range(rng.randint(1, 30))
    ]
