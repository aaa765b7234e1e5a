-- Cancelled calls have a status of their own, and the rollups tell apart the calls that say nothing of the tool's health: cancelled
-- calls, and caller errors (classes tool, invalid_input, auth, policy). Durations and histograms are those of the other calls.
-- Rows that were counted before have no caller errors and no cancellations: they count as they did.
-- Each view is changed in place, so that no row passes it by; a sink of an older version goes on writing meanwhile.

ALTER TABLE tool_metrics {on_cluster}
    DROP CONSTRAINT IF EXISTS status_is_known,
    ADD CONSTRAINT status_is_known CHECK status IN ('success', 'error', 'timeout', 'cancelled', 'rejected');

ALTER TABLE tool_metrics {on_cluster}
    COMMENT COLUMN status 'success, error, timeout, cancelled by the caller, or rejected by a circuit (the call was never made)';

ALTER TABLE tool_slow_calls {on_cluster} COMMENT COLUMN status 'success, error, timeout or cancelled';

ALTER TABLE tool_counts_1m {on_cluster}
    ADD COLUMN IF NOT EXISTS caller_errors SimpleAggregateFunction(sum, UInt64)
        COMMENT 'Those of the errors and timeouts that say nothing of the tool: of class tool, invalid_input, auth or policy' AFTER rejections,
    ADD COLUMN IF NOT EXISTS cancellations SimpleAggregateFunction(sum, UInt64)
        COMMENT 'Calls with status cancelled' AFTER caller_errors,
    ADD COLUMN IF NOT EXISTS cancelled_us_sum SimpleAggregateFunction(sum, UInt64)
        COMMENT 'Total duration of cancelled calls, in microseconds' AFTER cancellations;

ALTER TABLE tool_counts_1m {on_cluster}
    COMMENT COLUMN successes 'Calls with status success, without those that their caller ignores (class policy)',
    COMMENT COLUMN errors 'Calls with status error, caller errors included',
    COMMENT COLUMN timeouts 'Calls with status timeout, caller errors included',
    COMMENT COLUMN duration_us_sum 'Total duration of successes and failures, in microseconds (one call counts for 10^12 at most); without caller errors and cancelled calls',
    COMMENT COLUMN duration_ms_min 'Shortest of the same calls, in milliseconds; infinite where there was none',
    COMMENT COLUMN duration_ms_max 'Longest of the same calls, in milliseconds; 0 where there was none',
    COMMENT COLUMN last_failure_at 'Latest error or timeout that is no caller error; 1970 where there was none';

-- A projection can't be changed. This one has the new columns and replaces by_hour. It has a name of its own: while a dropped one is
-- being removed, ClickHouse reads its data under the new definition (ClickHouse issue 121221).
ALTER TABLE tool_counts_1m {on_cluster} ADD PROJECTION IF NOT EXISTS per_hour
(
    SELECT
        tenant,
        tool_name,
        toStartOfHour(minute),
        sum(calls),
        sum(successes),
        sum(errors),
        sum(timeouts),
        sum(rejections),
        sum(caller_errors),
        sum(cancellations),
        sum(cancelled_us_sum),
        sum(duration_us_sum),
        min(duration_ms_min),
        max(duration_ms_max),
        sum(input_size_sum),
        sum(output_size_sum),
        sum(tokens_sum),
        sum(wasted_tokens_sum),
        sum(cost_nanousd_sum),
        max(last_success_at),
        max(last_failure_at),
        max(arrived_at)
    GROUP BY tenant, tool_name, toStartOfHour(minute)
);

ALTER TABLE tool_counts_1m {on_cluster} MATERIALIZE PROJECTION per_hour;

ALTER TABLE tool_counts_1m {on_cluster} DROP PROJECTION IF EXISTS by_hour;

-- A success of class policy is one that its caller ignores. `ended` is the status; an older sink stores a cancelled call as an error of class cancelled.
ALTER TABLE tool_counts_1m_mv {on_cluster} MODIFY QUERY
WITH
    if(error_class = 'cancelled' AND status IN ('error', 'timeout'), 'cancelled', status) AS ended,
    ended IN ('error', 'timeout') AS failed,
    failed AND error_class IN ('tool', 'invalid_input', 'auth', 'policy') AS caller_error,
    ended = 'success' AND error_class != 'policy' AS succeeded,
    succeeded OR (failed AND NOT caller_error) AS judged,
    toUInt64(round(least(execution_time_ms, 1e9) * 1000)) AS us
SELECT
    tenant,
    tool_name,
    toStartOfMinute(toDateTime(recorded_at, 'UTC')) AS minute,
    count() AS calls,
    countIf(succeeded) AS successes,
    countIf(ended = 'error') AS errors,
    countIf(ended = 'timeout') AS timeouts,
    countIf(ended = 'rejected') AS rejections,
    countIf(caller_error) AS caller_errors,
    countIf(ended = 'cancelled') AS cancellations,
    sumIf(us, ended = 'cancelled') AS cancelled_us_sum,
    sumIf(us, judged) AS duration_us_sum,
    min(if(judged, execution_time_ms, inf)) AS duration_ms_min,
    max(if(judged, execution_time_ms, 0.)) AS duration_ms_max,
    sum(input_size) AS input_size_sum,
    sum(output_size) AS output_size_sum,
    sum(input_tokens + output_tokens + cache_creation_tokens) AS tokens_sum,
    sumIf(input_tokens + output_tokens + cache_creation_tokens, failed) AS wasted_tokens_sum,
    sum(toUInt64(round(least(cost_usd, 1e6) * 1e9))) AS cost_nanousd_sum,
    maxIf(recorded_at, succeeded) AS last_success_at,
    maxIf(recorded_at, failed AND NOT caller_error) AS last_failure_at,
    max(toDateTime(kafka_timestamp, 'UTC')) AS arrived_at
FROM tool_metrics
GROUP BY tenant, tool_name, minute;

ALTER TABLE tool_latency_15m {on_cluster}
    COMMENT COLUMN buckets 'Successes and failures, without caller errors and cancelled calls, by duration d in ms: bucket i holds 2^(i/8) <= d < 2^((i+1)/8), bucket -160 everything below 1 ns (scale 3 of an OpenTelemetry exponential histogram)';

ALTER TABLE tool_latency_15m_mv {on_cluster} MODIFY QUERY
SELECT
    tenant,
    tool_name,
    toStartOfFifteenMinutes(toDateTime(recorded_at, 'UTC')) AS period,
    sumMap(map(toInt16(floor(log2(greatest(execution_time_ms, exp2(-20))) * 8)), toUInt64(1))) AS buckets,
    max(toDateTime(kafka_timestamp, 'UTC')) AS arrived_at
FROM tool_metrics
WHERE (status = 'success' AND error_class != 'policy')
    OR (status IN ('error', 'timeout') AND error_class NOT IN ('tool', 'invalid_input', 'auth', 'policy', 'cancelled'))
GROUP BY tenant, tool_name, period;

-- Caller errors by class and type: what a report says of them. Those of before are in tool_error_types_15m, with the tool's own errors.
CREATE TABLE IF NOT EXISTS tool_caller_errors_15m {on_cluster}
(
    tenant LowCardinality(String) COMMENT 'Whose calls; empty where there is one tenant',
    tool_name LowCardinality(String) COMMENT 'Name of the tool',
    error_class LowCardinality(String) COMMENT 'Kind of failure: tool, invalid_input, auth or policy',
    error_type LowCardinality(String) COMMENT 'Type of the error; where it named none, timeout or its class',
    period DateTime('UTC') CODEC(Delta(4), ZSTD(1)) COMMENT 'Start of the quarter of an hour, by the clock of the callers',
    errors SimpleAggregateFunction(sum, UInt64) COMMENT 'Calls that ended in it',
    first_at SimpleAggregateFunction(min, DateTime64(6, 'UTC')) COMMENT 'The first of them',
    last_at SimpleAggregateFunction(max, DateTime64(6, 'UTC')) COMMENT 'The last of them',
    example AggregateFunction(argMax, String, DateTime64(6, 'UTC')) COMMENT 'Message of the last; read it with argMaxMerge',
    arrived_at SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'When the latest of the events arrived'
)
ENGINE = {aggregating_merge_tree}
PARTITION BY toYYYYMM(period)
ORDER BY (tenant, tool_name, error_class, error_type, period)
TTL arrived_at + toIntervalDay(400)
SETTINGS {deduplication}
COMMENT 'Errors that say nothing of the tool, by class, type and quarter of an hour. Filled from tool_metrics; read it with sum, min, max and GROUP BY.';

CREATE MATERIALIZED VIEW IF NOT EXISTS tool_caller_errors_15m_mv {on_cluster} TO tool_caller_errors_15m AS
SELECT
    tenant,
    tool_name,
    error_class,
    multiIf(tool_metrics.error_type != '', tool_metrics.error_type, status = 'timeout', 'timeout', error_class) AS error_type,
    toStartOfFifteenMinutes(toDateTime(recorded_at, 'UTC')) AS period,
    count() AS errors,
    min(recorded_at) AS first_at,
    max(recorded_at) AS last_at,
    argMaxState(error_message, recorded_at) AS example,
    max(toDateTime(kafka_timestamp, 'UTC')) AS arrived_at
FROM tool_metrics
WHERE status IN ('error', 'timeout') AND error_class IN ('tool', 'invalid_input', 'auth', 'policy')
GROUP BY tenant, tool_name, error_class, error_type, period;

ALTER TABLE tool_error_types_15m_mv {on_cluster} MODIFY QUERY
SELECT
    tenant,
    tool_name,
    multiIf(tool_metrics.error_type != '', tool_metrics.error_type, status = 'timeout', 'timeout', error_class != '', error_class, 'unknown')
        AS error_type,
    toStartOfFifteenMinutes(toDateTime(recorded_at, 'UTC')) AS period,
    count() AS errors,
    min(recorded_at) AS first_at,
    max(recorded_at) AS last_at,
    argMaxState(error_message, recorded_at) AS example,
    max(toDateTime(kafka_timestamp, 'UTC')) AS arrived_at
FROM tool_metrics
WHERE status IN ('error', 'timeout') AND error_class NOT IN ('tool', 'invalid_input', 'auth', 'policy', 'cancelled')
GROUP BY tenant, tool_name, error_type, period;

ALTER TABLE tool_error_types_15m {on_cluster} COMMENT COLUMN errors 'Calls that ended in error or timeout; no caller errors';

ALTER TABLE tool_errors_mv {on_cluster} MODIFY QUERY
SELECT
    metric_id, tenant, tool_name, user_id, session_id, request_id, status, execution_time_ms, error_type, error_message,
    error_class, retry_after_s, parameters_hash, input_size, output_size, input_tokens, output_tokens,
    cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, service, generation, lease_id,
    probe_requested, traceparent, metadata, unknown_fields, recorded_at, kafka_partition, kafka_offset, kafka_timestamp,
    retention_days
FROM tool_metrics
WHERE status IN ('error', 'timeout') AND error_class != 'cancelled';

CREATE OR REPLACE VIEW tool_stats_1h {on_cluster} AS
SELECT
    counts.tenant AS tenant,
    counts.tool_name AS tool_name,
    counts.hour AS hour,
    counts.calls AS calls,
    counts.failures AS failures,
    counts.caller_errors AS caller_errors,
    counts.cancellations AS cancellations,
    counts.rejections AS rejections,
    if(counts.judged = 0, NULL, round(counts.failures / counts.judged, 6)) AS failure_rate,
    if(counts.judged = 0, NULL, round(counts.duration_us / 1000 / counts.judged, 3)) AS avg_ms,
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
        toUInt64(sum(errors) + sum(timeouts) - sum(tool_counts_1m.caller_errors)) AS failures,
        sum(tool_counts_1m.caller_errors) AS caller_errors,
        sum(tool_counts_1m.cancellations) AS cancellations,
        sum(tool_counts_1m.rejections) AS rejections,
        toUInt64(sum(successes) + failures) AS judged,
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
COMMENT 'Calls, failures, latency and cost a tool and hour, from the rollups. Rates and times are those of successes and failures, without caller errors and cancelled calls. Percentiles are upper bounds of buckets 9 % wide.';
