"""Find the circuits that processes opened on their own evidence, from the calls that those circuits refused.

No record says that such a circuit opened or closed. A ``rejected`` event whose metadata has the source ``local`` shows that it is
open. A later call of the same process that the tool answered shows that it has closed.
"""

# ruff: noqa: S608 - the SQL is built from our own names only; every value is bound

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from switchgear_schemas.cause import Cause
from switchgear_sinks.repository.queries import Conditions, microseconds, select
from switchgear_sinks.store import Database

WITHIN: Final = timedelta(minutes=10)
"""How far back to look for refusals. After so long without one, the process has ended or no longer calls the tool."""
MOST: Final = 1_000
_SINCE: Final = "fromUnixTimestamp64Micro({since:Int64}, 'UTC')"
_UNTIL: Final = "fromUnixTimestamp64Micro({until:Int64}, 'UTC')"
_RECORDED: Final = f"recorded_at >= {_SINCE} AND recorded_at <= {_UNTIL}"

# An event without a source comes from a producer with its own breaker. With a generation, it comes from the fleet's circuit.
_REFUSALS: Final = f"""
    SELECT
        tool_name, service, emitter_id, recorded_at AS at,
        if(JSONHas(metadata, 'refused'), least(JSONExtractUInt(metadata, 'refused'), 1000000000), 1) AS refused,
        JSONExtractString(metadata, 'refused_by') AS refused_by,
        JSONExtractString(metadata, 'scope') AS given_scope,
        JSONExtractString(metadata, 'family') AS family,
        multiIf(family != '', 'family', given_scope IN ('user', 'session', 'tenant', 'target'), given_scope, 'tool') AS circuit_scope,
        multiIf(circuit_scope = 'user', user_id, circuit_scope = 'session', session_id, circuit_scope = 'tenant', tenant,
            circuit_scope = 'target', target, '') AS whose,
        JSONExtractString(metadata, 'state') AS given_state,
        if(given_state IN ('half_open', 'forced_open'), given_state, 'open') AS circuit_state,
        JSONType(metadata, 'retry_after_s') IN ('Int64', 'UInt64', 'Double') AS waits,
        JSONExtractFloat(metadata, 'retry_after_s') AS waits_s,
        JSONExtractRaw(metadata, 'cause') AS given_cause,
        JSONExtractString(metadata, 'last_error') AS error
    FROM tool_metrics
    WHERE tool_name IN {{tools:Array(String)}} AND {_RECORDED} AND status = 'rejected'
        AND (refused_by = 'local' OR (refused_by = '' AND NOT JSONHas(metadata, 'refused') AND generation IS NULL))
"""

# When the last answered call of each of these circuits began: a call of its tool by its process, for its user, session, tenant or target. For the
# circuit of a family it is the last of the tools that the family refused.
# An answer "bad argument" counts, because the tool works. A call that its caller ignores (class policy) does not count.
_ANSWERED: Final = f"""
    SELECT tool_name, emitter_id, circuit, max(began_at) AS began
    FROM
    (
        SELECT
            tool_name, emitter_id,
            arrayJoin([('tool', ''), ('user', user_id), ('session', session_id), ('tenant', tenant), ('target', target)]) AS circuit,
            recorded_at - toIntervalMicrosecond(toInt64(least(execution_time_ms, 1e9) * 1000)) AS began_at
        FROM tool_metrics
        WHERE tool_name IN {{tools:Array(String)}} AND {_RECORDED}
            AND emitter_id IN (SELECT emitter_id FROM refusals)
            AND ((status = 'success' AND error_class != 'policy') OR (status = 'error' AND error_class IN ('tool', 'invalid_input')))
            AND served_by NOT IN ('cache', 'none')
    )
    WHERE (tool_name, emitter_id, circuit) IN
        (SELECT tool_name, emitter_id, (if(circuit_scope = 'family', 'tool', circuit_scope), whose) FROM refusals)
    GROUP BY tool_name, emitter_id, circuit
"""

_CIRCUITS: Final = f"""
    WITH refusals AS ({_REFUSALS}), answered AS ({_ANSWERED}), circuits AS
    (
        SELECT
            refusals.*,
            if(circuit_scope = 'family', family, refusals.tool_name) AS circuit_name,
            if(
                circuit_scope = 'family',
                max(answered.began) OVER (PARTITION BY refusals.emitter_id, family),
                answered.began
            ) AS began
        FROM refusals
        LEFT JOIN answered ON refusals.tool_name = answered.tool_name AND refusals.emitter_id = answered.emitter_id
            AND if(refusals.circuit_scope = 'family', 'tool', refusals.circuit_scope) = answered.circuit.1
            AND refusals.whose = answered.circuit.2
    )
    SELECT
        circuit_name AS tool_name, service, circuit_scope AS scope,
        argMax(circuit_state, at) AS state,
        uniqExact(emitter_id) AS processes,
        sum(refused) AS refused_calls,
        min(at) AS first_at,
        max(at) AS last_at,
        maxOrNullIf(at + toIntervalMillisecond(toInt64(greatest(least(waits_s, 1e9), 0) * 1000)), waits) AS until,
        argMax(given_cause, at) AS cause,
        argMax(error, at) AS last_error
    FROM circuits
    WHERE at >= began
    GROUP BY tool_name, service, scope
    ORDER BY last_at DESC, tool_name, service, scope
    LIMIT {MOST}
"""


async def local_circuits(db: Database, since: datetime, until: datetime, tool_name: str | None) -> list[dict[str, Any]]:
    """Return the circuits that refused calls between two times, both included, as the API shows them.

    The cost does not depend on how much is stored. The counts per minute name the few tools that refuse, and ``tool_metrics``
    is read for those only.
    """
    where = (
        Conditions(None)
        .equal("tool_name", tool_name)
        .that(f"minute >= toStartOfMinute({_SINCE})", f"minute <= {_UNTIL}")
    )
    times = {"since": microseconds(since), "until": microseconds(until)}
    having = f"GROUP BY tool_name HAVING sum(rejections) > 0 ORDER BY max(minute) DESC, tool_name LIMIT {MOST}"
    refusing = await db.rows(select("tool_name", "tool_counts_1m", where, having), where.parameters | times)
    if not refusing:
        return []
    rows = await db.rows(_CIRCUITS, times | {"tools": [row["tool_name"] for row in refusing]})
    return [_circuit(row) for row in rows]


def _circuit(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tool_name": row["tool_name"],
        "service": row["service"],
        "scope": row["scope"],
        "state": row["state"],
        "processes": row["processes"],
        "since": row["first_at"],
        "last_refusal_at": row["last_at"],
        "refusals": row["refused_calls"],
        "open_until": row["until"],
        "cause": _cause(row["cause"]),
        "last_error": row["last_error"] or None,
    }


_decode_cause: Final = msgspec.json.Decoder(Cause, strict=False).decode


def _cause(text: str) -> dict[str, Any] | None:
    """Return the cause as in a circuit's record; None if another producer's metadata has something else."""
    try:
        return msgspec.structs.asdict(_decode_cause(text))
    except msgspec.MsgspecError:
        return None
