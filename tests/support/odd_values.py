"""Odd values of a message as JSON text: at the limit of their type, just beyond it, and of another type."""

from __future__ import annotations

import json
from typing import Final

NUMBER_FIELDS: Final = (
    *("execution_time_ms", "cost_usd", "retry_after_s", "input_size", "output_size", "input_tokens", "output_tokens"),
    *("cache_creation_tokens", "generation"),
)
TEXT_FIELDS: Final = (
    *("tenant", "user_id", "session_id", "request_id", "error_type", "error_message", "parameters_hash", "fallback_tool"),
    *("emitter_id", "service", "lease_id", "traceparent"),
)  # fmt: skip
NUMBERS: Final = (
    *("0", "-0", "-0.0", "-1", "1.0", "1.5", "1E5", "1e18", "1e19", "1e308", "1e309", "-1e309", "5e-324", "1e-400"),
    *("1.7976931348623157e308", "NaN", "Infinity", "-Infinity", "9223372036854775807", "9223372036854775808"),
    *("18446744073709551615", "18446744073709551616", "1" * 400, "1" * 5_000, "0." + "1" * 400, "00", "+1", ".5", "5."),
    *("true", '"5"', "null", "[]", "{}"),
)
TEXTS: Final = (
    *('"\\u0000"', '"a\\u0000b"', '"\\ud800"', '"\\udfff\\ud800"', '"\x7f"', '"\\u202e"', '""', '"\x00"', '"\n"'),
    *('"' + "x" * 200_000 + '"', '"' + "\\u0000" * 3_000 + '"', '"\ud800"', "5", "true", "[]", "null"),
)
TIMES: Final = (
    *('"1970-01-01T00:00:00Z"', '"2000-01-01T00:00:00Z"', '"1999-12-31T23:59:59.999999Z"', '"2100-01-01T00:00:00Z"'),
    *('"2099-12-31T23:59:59.999999Z"', '"2099-12-31T23:59:59.9999999Z"', '"2099-12-31T23:59:59-14:00"'),
    *('"2000-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59Z"', '"0001-01-01T00:00:00+23:59"', '"2026-11-21"'),
    *('"2026-11-21 10:00:00"', '"2026-11-21T10:00:00"', '"2026-11-21t10:00:00z"', '"2026-11-21T10:00:60Z"'),
    *('"2026-11-21T24:00:00Z"', '"2026-02-30T00:00:00Z"', '"2026-11-21T10:00:00.123456789Z"', '"20261121T100000Z"'),
    *('"2026-11-21T10:00:00+99:99"', '"2026-11-21T10:00:00,5Z"', '"1795262400"', '"now"', '""'),
    *("1795262400", "1795262400.5", "1e300", "-1", "0", "NaN"),
)
NESTED: Final = (
    *('{"a":NaN}', '{"a":1e999}', '{"a":"\\ud800"}', '{"a":"\\u0000"}', '{"a":1,"a":2}', '{"":1}', '{"\\u0000":1}'),
    *('{"a":18446744073709551616}', '{"a":-9223372036854775809}', '{"a":' + "9" * 5_000 + "}"),
    *('{"a":' + "[" * depth + "]" * depth + "}" for depth in (200, 900, 5_000, 200_000)),
    *("5", '"x"', "[]", "null"),
)
IDS: Final = (
    *('"00000000-0000-0000-0000-000000000000"', '"ffffffff-ffff-ffff-ffff-ffffffffffff"', '""', "5"),
    *('"{6f2a4a0e-6d0c-5e7b-9a52-5f1c8f4d2b11}"', '"6f2a4a0e6d0c5e7b9a525f1c8f4d2b11"'),
    *('"urn:uuid:6f2a4a0e-6d0c-5e7b-9a52-5f1c8f4d2b11"', '"6F2A4A0E-6D0C-5E7B-9A52-5F1C8F4D2B11"'),
)
NAMES: Final = (
    *("\0mark", "\0", " ", "\u202e", "\x7f\x9b", "a|user=b", "a|family", "%7Cfamily", "a'b\\c\t\n", "x" * 512, "x" * 513, "x" * (1 << 20), ""),
)  # fmt: skip
WHOLE: Final = (
    *(b"null", b"true", b"5", b'""', b"[]", b"{}", b"\x00" * 100, b"\xff\xfe\x00", b"not json"),
    b'\xef\xbb\xbf{"tool_name":"x","status":"error"}',
    b'{"tool_name":"x","status":"error"}\n',
    b' {"tool_name":"x","status":"error"}',
    b'{"tool_name":"x","status":"error"}\x00',
    b'{"tool_name":"x","status":"error",}',
    b'{"tool_name":"x","status":"error"}{}',
    b'{"tool_name":"x","status":"error"}\n{"tool_name":"y","status":"error"}',
    b'{"tool_name":"x\xff","status":"error"}',
    b'{"tool_name":"x","status":"error","user_id":"\xc0\x80"}',
    b'{"tool_name":"x","status":"error","user_id":"\xed\xa0\x80"}',
    b'{"tool_name":"x","status":"error","unknown":"\xff"}',
    b'{"tool_name":"x","status":"error","\\u0075ser_id":"escaped"}',
    b'{"tool_name":"x","status":"error","user_id":1,"user_id":"b"}',
    b'{"tool_name":"x","status":"error","metadata":{"a":1},"metadata":{"b":1}}',
    b'{"tool_name":"x","tool_name":"y","status":"error"}',
    b'{"tool_name":"x","status":"error","":1}',
)
COLUMNS: Final = ("kafka_offset", "kafka_partition", "kafka_timestamp", "retention_days", "unknown_fields", "_part")
"""The columns of the table that no message sets."""


def execution_with(**fields: str) -> bytes:
    """Return an execution with the given JSON texts for some fields."""
    extra = "".join(f',"{name}":{text}' for name, text in fields.items())
    return b'{"tool_name":"odd","status":"error"' + extra.encode("utf-8", "surrogatepass") + b"}"


def odd_executions() -> dict[str, list[bytes]]:
    """Return messages by what is odd about them."""
    return {
        "numbers": [execution_with(**{name: text}) for name in NUMBER_FIELDS for text in NUMBERS],
        "texts": [execution_with(**{name: text}) for name in TEXT_FIELDS for text in TEXTS],
        "times": [execution_with(recorded_at=text) for text in TIMES],
        "nested": [execution_with(**{name: text}) for name in ("metadata", "unknown") for text in NESTED],
        "ids and columns": [
            *[execution_with(metric_id=text) for text in IDS],
            *[execution_with(**{name: text}) for name in COLUMNS for text in ("5", "-1", '"x"', "1e999")],
            *[execution_with(**{name: text}) for name in ("probe_requested", "status") for text in ("1", "true", "null")],
            *[execution_with(**{name: text}) for name in ("served_by", "error_class") for text in ('"x"', '""', "null")],
        ],
        "names and bytes": [
            *[json.dumps({"tool_name": name, "status": "success"}).encode() for name in NAMES],
            *WHOLE,
        ],
    }  # fmt: skip
