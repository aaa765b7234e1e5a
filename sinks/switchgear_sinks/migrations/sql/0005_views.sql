-- Views for people who write SQL.

CREATE VIEW IF NOT EXISTS tool_stats_1h {on_cluster} AS
SELECT
    counts.tenant AS tenant,
    counts.tool_name AS tool_name,
    counts.hour AS hour,
    counts.calls AS calls,
    counts.failures AS failures,
    counts.rejections AS rejections,
    if(counts.calls = counts.rejections, NULL, round(counts.failures / (counts.calls - counts.rejections), 6)) AS failure_rate,
    if(counts.calls = counts.rejections, NULL, round(counts.duration_us / 1000 / (counts.calls - counts.rejections), 3)) AS avg_ms,
    latency.p50_ms AS p50_ms,
    latency.p95_ms AS p95_ms,
    latency.p99_ms AS p99_ms,
    counts.max_ms AS max_ms,
    counts.tokens AS tokens,
    counts.wasted_tokens AS wasted_tokens,
    counts.cost_usd AS cost_usd
FROM
(
    SELECT
        tenant, tool_name, toStartOfHour(minute) AS hour,
        sum(tool_counts_1m.calls) AS calls,
        sum(errors) + sum(timeouts) AS failures,
        sum(tool_counts_1m.rejections) AS rejections,
        sum(duration_us_sum) AS duration_us,
        max(duration_ms_max) AS max_ms,
        sum(tokens_sum) AS tokens,
        sum(wasted_tokens_sum) AS wasted_tokens,
        sum(cost_nanousd_sum) / 1e9 AS cost_usd
    FROM tool_counts_1m
    GROUP BY tenant, tool_name, hour
) AS counts
LEFT JOIN
(
    SELECT
        tenant, tool_name, hour,
        arraySort(mapKeys(merged)) AS bounds,
        arrayCumSum(arrayMap(bound -> merged[bound], bounds)) AS below,
        exp2((bounds[arrayFirstIndex(n -> n >= 0.50 * below[-1], below)] + 1) / 8) AS p50_ms,
        exp2((bounds[arrayFirstIndex(n -> n >= 0.95 * below[-1], below)] + 1) / 8) AS p95_ms,
        exp2((bounds[arrayFirstIndex(n -> n >= 0.99 * below[-1], below)] + 1) / 8) AS p99_ms
    FROM
    (
        SELECT tenant, tool_name, toStartOfHour(period) AS hour, sumMap(buckets) AS merged
        FROM tool_latency_15m
        GROUP BY tenant, tool_name, hour
    )
) AS latency ON latency.tenant = counts.tenant AND latency.tool_name = counts.tool_name AND latency.hour = counts.hour
COMMENT 'Calls, failures, latency and cost a tool and hour, from the rollups. Percentiles are upper bounds of buckets 9 % wide.';

CREATE VIEW IF NOT EXISTS slow_executions {on_cluster} AS
SELECT
    tenant, tool_name, execution_time_ms, status, recorded_at, session_id, request_id, user_id, error_type, parameters_hash,
    input_size, output_size, metric_id
FROM tool_metrics
WHERE status != 'rejected' AND execution_time_ms > 5000
COMMENT 'Calls that took longer than five seconds. Add ORDER BY execution_time_ms DESC LIMIT 20.';

CREATE VIEW IF NOT EXISTS error_patterns {on_cluster} AS
SELECT
    tenant,
    tool_name,
    error_type,
    error_class,
    replaceRegexpAll(
        replaceRegexpAll(
            replaceRegexpAll(error_message, '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}', '<id>'),
            '\\b(0x)?[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}\\b', '<id>'),
        '[0-9]+(\\.[0-9]+)?', '<n>') AS pattern,
    count() AS errors,
    uniqExact(session_id) AS sessions,
    min(recorded_at) AS first_at,
    max(recorded_at) AS last_at,
    argMax(error_message, recorded_at) AS last_message
FROM tool_errors
GROUP BY tenant, tool_name, error_type, error_class, pattern
COMMENT 'Errors by message with ids and numbers taken out.';

CREATE VIEW IF NOT EXISTS circuit_history {on_cluster} AS
SELECT
    circuit_id, tool_name, changed_at, previous_state, state, rule,
    JSONExtract(cause, 'value', 'Nullable(Float64)') AS value,
    JSONExtract(cause, 'threshold', 'Nullable(Float64)') AS threshold,
    actor, reason, calls, failed, slow, attempt, open_until, last_error, generation, version
FROM circuit_transitions
WHERE state != previous_state
ORDER BY circuit_id, version
LIMIT 1 BY circuit_id, version
COMMENT 'Changes of state, each once, with what caused them.';

CREATE VIEW IF NOT EXISTS duplicate_calls {on_cluster} AS
SELECT
    tenant,
    session_id,
    tool_name,
    parameters_hash,
    count() AS calls,
    countIf(status IN ('error', 'timeout')) AS failures,
    min(recorded_at) AS first_at,
    max(recorded_at) AS last_at,
    round(sum(execution_time_ms), 3) AS total_ms,
    sum(input_tokens + output_tokens + cache_creation_tokens) AS tokens,
    sum(tool_metrics.cost_usd) AS cost_usd
FROM tool_metrics
WHERE parameters_hash != '' AND session_id != '' AND status != 'rejected'
GROUP BY tenant, session_id, tool_name, parameters_hash
HAVING calls > 1
COMMENT 'The same call with the same parameters more than once in one session.';

CREATE VIEW IF NOT EXISTS waste_by_tool {on_cluster} AS
SELECT
    tenant,
    tool_name,
    toDate(recorded_at) AS day,
    count() AS calls,
    countIf(status IN ('error', 'timeout')) AS failures,
    round(sumIf(execution_time_ms, status IN ('error', 'timeout')) / 1000, 3) AS wasted_seconds,
    sumIf(input_tokens + output_tokens + cache_creation_tokens, status IN ('error', 'timeout')) AS wasted_tokens,
    sumIf(tool_metrics.cost_usd, status IN ('error', 'timeout')) AS wasted_usd
FROM tool_metrics
WHERE status != 'rejected'
GROUP BY tenant, tool_name, day
COMMENT 'Time, tokens and money spent on calls that failed, a tool and day.';
