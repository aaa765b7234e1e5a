-- The tables of 0.1.0. A column, view or table of a later version comes in a file with the next number.

-- Raw rows, immutable, one per event: the event's own fields as its producer sent them, and where Kafka kept it.
-- What a producer left out is made from the Kafka coordinates, so that a replay makes the same.
CREATE TABLE IF NOT EXISTS tool_metrics {on_cluster}
(
    metric_id UUID DEFAULT toUUID(concat(
        substring(leftPad(lower(hex(toUInt64(toUnixTimestamp64Milli(kafka_timestamp)))), 12, '0'), 1, 8), '-',
        substring(leftPad(lower(hex(toUInt64(toUnixTimestamp64Milli(kafka_timestamp)))), 12, '0'), 9, 4), '-7',
        substring(lower(hex(sipHash128(kafka_partition, kafka_offset, kafka_timestamp))), 1, 3), '-8',
        substring(lower(hex(sipHash128(kafka_partition, kafka_offset, kafka_timestamp))), 4, 3), '-',
        substring(lower(hex(sipHash128(kafka_partition, kafka_offset, kafka_timestamp))), 7, 12)))
        COMMENT 'Identity of the call; a version 7 UUID from the Kafka coordinates where the producer sent none',
    tenant LowCardinality(String) DEFAULT '' COMMENT 'Whose call; empty where there is one tenant',
    tool_name LowCardinality(String) COMMENT 'Name of the tool',
    target LowCardinality(String) DEFAULT '' COMMENT 'What the call was about, such as a host, if the policy of the tool keeps targets apart',
    user_id String DEFAULT '' COMMENT 'User on whose behalf the call was made',
    session_id String DEFAULT '' COMMENT 'Agent session; empty where there was none',
    request_id String DEFAULT '' COMMENT 'Request within the session; empty where there was none',
    credential String DEFAULT '' COMMENT 'Keyed hash of what the call signed in with; empty if that is not known',
    status LowCardinality(String) COMMENT 'success, error, timeout, cancelled by the caller, or rejected by a circuit (the call was never made)',
    execution_time_ms Float64 DEFAULT 0 COMMENT 'Duration in milliseconds',
    overdue_ms Nullable(Float64) COMMENT 'How long the call had run when it was reported as overdue, in milliseconds; null if it was not',
    error_type LowCardinality(String) DEFAULT '' COMMENT 'Type of the error, e.g. the class of the exception',
    error_message String DEFAULT '' CODEC(ZSTD(3)) COMMENT 'Message of the error, redacted and truncated by the emitter',
    error_class LowCardinality(String) DEFAULT '' COMMENT 'Kind of failure: transport, timeout, server, rate_limited, tool, invalid_input, auth, cancelled, policy, unknown',
    evidence LowCardinality(String) DEFAULT 'full' COMMENT 'What the source of the event could tell about a failure: full, or status_only if it hides the kind of error',
    retry_after_s Nullable(Float64) COMMENT 'Wait that a rate-limited tool asked for, in seconds',
    parameters_hash String DEFAULT '' COMMENT 'Keyed hash of the parameters: equal calls have equal hashes',
    input_size UInt64 DEFAULT 0 CODEC(T64, ZSTD(1)) COMMENT 'Size of the input in bytes or characters',
    output_size UInt64 DEFAULT 0 CODEC(T64, ZSTD(1)) COMMENT 'Size of the output in bytes or characters',
    input_tokens UInt64 DEFAULT 0 CODEC(T64, ZSTD(1)) COMMENT 'Model tokens spent on the input',
    output_tokens UInt64 DEFAULT 0 CODEC(T64, ZSTD(1)) COMMENT 'Model tokens spent on the output',
    cache_creation_tokens UInt64 DEFAULT 0 CODEC(T64, ZSTD(1)) COMMENT 'Model tokens written to a prompt cache',
    cost_usd Float64 DEFAULT 0 COMMENT 'Cost of the call in US dollars',
    served_by LowCardinality(String) DEFAULT 'call' COMMENT 'What produced the result: call, fallback, cache, none',
    fallback_tool LowCardinality(String) DEFAULT '' COMMENT 'Tool that answered instead',
    emitter_id LowCardinality(String) DEFAULT '' COMMENT 'Process that emitted the event',
    reporter LowCardinality(String) DEFAULT '' COMMENT 'Credential that counts as the reporter of the event; empty if the process does',
    service LowCardinality(String) DEFAULT '' COMMENT 'Service that process belongs to',
    generation Nullable(UInt64) COMMENT 'Generation of the circuit that let the call through; null where no guard asked',
    lease_id String DEFAULT '' COMMENT 'Probe lease the call was made under',
    family_generation Nullable(UInt64) COMMENT 'Generation of the circuit of the family at the call; null where no guard asked or knew it',
    family_lease_id String DEFAULT '' COMMENT 'Probe lease of the circuit of the family that the call was made under',
    probe_requested Bool DEFAULT false COMMENT 'The refused caller asked for a probe lease',
    traceparent String DEFAULT '' COMMENT 'W3C trace context',
    metadata String DEFAULT '' CODEC(ZSTD(3)) COMMENT 'Anything else, as JSON text',
    unknown_fields String DEFAULT '' CODEC(ZSTD(3)) COMMENT 'Fields that this version does not know, as JSON text',
    recorded_at DateTime64(6, 'UTC') DEFAULT kafka_timestamp CODEC(Delta(8), ZSTD(1)) COMMENT 'When the call ended, by the clock of the caller',
    recorded_as String DEFAULT '' COMMENT 'recorded_at as it was sent, if it was ahead of the clock of the broker or had no time zone; else empty',
    kafka_partition UInt32 DEFAULT 0 CODEC(T64, ZSTD(1)) COMMENT 'Partition of the executions topic',
    kafka_offset UInt64 DEFAULT 0 CODEC(Delta(8), ZSTD(1)) COMMENT 'Offset in that partition',
    kafka_timestamp DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'When the broker appended the event',
    retention_days UInt16 MATERIALIZED {retention_days} COMMENT 'How long this row is kept after it arrived',
    INDEX metric_id_bloom metric_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX recorded_at_minmax recorded_at TYPE minmax GRANULARITY 4,
    INDEX execution_time_minmax execution_time_ms TYPE minmax GRANULARITY 1,
    CONSTRAINT tool_name_is_not_empty CHECK tool_name != '',
    CONSTRAINT recorded_at_is_plausible CHECK toYear(recorded_at) BETWEEN 2000 AND 2099,
    CONSTRAINT status_is_known CHECK status IN ('success', 'error', 'timeout', 'cancelled', 'rejected')
)
ENGINE = {merge_tree}
PARTITION BY toYYYYMM(kafka_timestamp)
ORDER BY (tenant, tool_name, recorded_at)
TTL toDateTime(kafka_timestamp) + toIntervalDay(retention_days)
SETTINGS {deduplication}
COMMENT 'One row a tool call, as it was emitted. Rows are never changed.';

-- Failed calls in time order: the newest errors of all tools without a scan. By tool, they are read from the projection.
-- The columns are those of tool_metrics.
CREATE TABLE IF NOT EXISTS tool_errors {on_cluster}
(
    metric_id UUID COMMENT 'Identity of the call',
    tenant LowCardinality(String) COMMENT 'Whose call; empty where there is one tenant',
    tool_name LowCardinality(String) COMMENT 'Name of the tool',
    target LowCardinality(String) DEFAULT '' COMMENT 'What the call was about, such as a host, if the policy of the tool keeps targets apart',
    user_id String COMMENT 'User on whose behalf the call was made',
    session_id String COMMENT 'Agent session; empty where there was none',
    request_id String COMMENT 'Request within the session; empty where there was none',
    credential String DEFAULT '' COMMENT 'Keyed hash of what the call signed in with; empty if that is not known',
    status LowCardinality(String) COMMENT 'error or timeout',
    execution_time_ms Float64 COMMENT 'Duration in milliseconds',
    overdue_ms Nullable(Float64) COMMENT 'How long the call had run when it was reported as overdue, in milliseconds; null if it was not',
    error_type LowCardinality(String) COMMENT 'Type of the error, e.g. the class of the exception',
    error_message String CODEC(ZSTD(3)) COMMENT 'Message of the error, redacted and truncated by the emitter',
    error_class LowCardinality(String) COMMENT 'Kind of failure: transport, timeout, server, rate_limited, tool, invalid_input, auth, cancelled, policy, unknown',
    evidence LowCardinality(String) DEFAULT 'full' COMMENT 'What the source of the event could tell about a failure: full, or status_only if it hides the kind of error',
    retry_after_s Nullable(Float64) COMMENT 'Wait that a rate-limited tool asked for, in seconds',
    parameters_hash String COMMENT 'Keyed hash of the parameters: equal calls have equal hashes',
    input_size UInt64 COMMENT 'Size of the input in bytes or characters',
    output_size UInt64 COMMENT 'Size of the output in bytes or characters',
    input_tokens UInt64 COMMENT 'Model tokens spent on the input',
    output_tokens UInt64 COMMENT 'Model tokens spent on the output',
    cache_creation_tokens UInt64 COMMENT 'Model tokens written to a prompt cache',
    cost_usd Float64 COMMENT 'Cost of the call in US dollars',
    served_by LowCardinality(String) COMMENT 'What produced the result: call, fallback, cache, none',
    fallback_tool LowCardinality(String) COMMENT 'Tool that answered instead',
    emitter_id LowCardinality(String) COMMENT 'Process that emitted the event',
    reporter LowCardinality(String) DEFAULT '' COMMENT 'Credential that counts as the reporter of the event; empty if the process does',
    service LowCardinality(String) COMMENT 'Service that process belongs to',
    generation Nullable(UInt64) COMMENT 'Generation of the circuit that let the call through; null where no guard asked',
    lease_id String COMMENT 'Probe lease the call was made under',
    family_generation Nullable(UInt64) COMMENT 'Generation of the circuit of the family at the call; null where no guard asked or knew it',
    family_lease_id String DEFAULT '' COMMENT 'Probe lease of the circuit of the family that the call was made under',
    probe_requested Bool COMMENT 'The refused caller asked for a probe lease',
    traceparent String COMMENT 'W3C trace context',
    metadata String CODEC(ZSTD(3)) COMMENT 'Anything else, as JSON text',
    unknown_fields String CODEC(ZSTD(3)) COMMENT 'Fields that this version does not know, as JSON text',
    recorded_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'When the call ended, by the clock of the caller',
    kafka_partition UInt32 COMMENT 'Partition of the executions topic',
    kafka_offset UInt64 COMMENT 'Offset in that partition',
    kafka_timestamp DateTime64(3, 'UTC') CODEC(Delta(8), ZSTD(1)) COMMENT 'When the broker appended the event',
    retention_days UInt16 COMMENT 'How long this row is kept after it arrived'
)
ENGINE = {merge_tree}
PARTITION BY toYYYYMM(kafka_timestamp)
ORDER BY (tenant, recorded_at)
TTL toDateTime(kafka_timestamp) + toIntervalDay(retention_days)
SETTINGS {deduplication}
COMMENT 'Calls that ended in error or timeout, in time order. Filled from tool_metrics.';

-- The same columns. It is made before the other one has its projection, which would be copied too.
CREATE TABLE IF NOT EXISTS tool_slow_calls {on_cluster} AS tool_errors
ENGINE = {merge_tree}
PARTITION BY toYYYYMM(kafka_timestamp)
ORDER BY (tenant, recorded_at)
TTL toDateTime(kafka_timestamp) + toIntervalDay(retention_days)
SETTINGS {deduplication}
COMMENT 'Calls that took longer than five seconds, in time order. Filled from tool_metrics; rejected calls were never made and are left out.';

ALTER TABLE tool_errors {on_cluster} ADD PROJECTION IF NOT EXISTS by_tool
(
    SELECT tenant, tool_name, recorded_at, status, error_type, error_class, error_message, session_id, metric_id
    ORDER BY tool_name, tenant, recorded_at
);

CREATE MATERIALIZED VIEW IF NOT EXISTS tool_errors_mv {on_cluster} TO tool_errors AS
SELECT
    metric_id, tenant, tool_name, target, user_id, session_id, request_id, credential, status, execution_time_ms, overdue_ms,
    error_type, error_message, error_class, evidence, retry_after_s, parameters_hash, input_size, output_size,
    input_tokens, output_tokens, cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, reporter, service,
    generation, lease_id, family_generation, family_lease_id, probe_requested, traceparent, metadata, unknown_fields,
    recorded_at, kafka_partition, kafka_offset, kafka_timestamp, retention_days
FROM tool_metrics
WHERE status IN ('error', 'timeout') AND error_class != 'cancelled';

-- Calls slower than five seconds, in time order, and by duration in the projection: the slowest 20 of 100 million calls are found among
-- the slow ones alone. (One timeout in each granule of tool_metrics is enough to make its index of durations useless.)
ALTER TABLE tool_slow_calls {on_cluster}
    ADD PROJECTION IF NOT EXISTS by_duration (SELECT * ORDER BY execution_time_ms),
    COMMENT COLUMN status 'success, error, timeout or cancelled',
    COMMENT COLUMN execution_time_ms 'Duration in milliseconds, more than 5000';

CREATE MATERIALIZED VIEW IF NOT EXISTS tool_slow_calls_mv {on_cluster} TO tool_slow_calls AS
SELECT
    metric_id, tenant, tool_name, target, user_id, session_id, request_id, credential, status, execution_time_ms, overdue_ms,
    error_type, error_message, error_class, evidence, retry_after_s, parameters_hash, input_size, output_size,
    input_tokens, output_tokens, cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, reporter, service,
    generation, lease_id, family_generation, family_lease_id, probe_requested, traceparent, metadata, unknown_fields,
    recorded_at, kafka_partition, kafka_offset, kafka_timestamp, retention_days
FROM tool_metrics
WHERE status != 'rejected' AND execution_time_ms > 5000;

-- Counts by minute and latency histograms by quarter of an hour: 16 to 24 times faster than quantiles of raw rows, where
-- t-digests by minute are slower than none (measured over 10 million rows). Sums are of integers, so that they are exact
-- in whatever order parts are merged. Rejected calls were never made: they are counted, and have no duration.
-- Calls that say nothing of the tool's health are counted apart: cancelled calls, and caller errors (classes tool, invalid_input,
-- auth, policy). Durations and histograms are those of the other calls.
-- The projections have the minutes of all tools side by side, and the counts by hour: a day of all tools is 1/60 of the rows.
-- per_hour is used by whoever groups by toStartOfHour(minute) and the other keys.
CREATE TABLE IF NOT EXISTS tool_counts_1m {on_cluster}
(
    tenant LowCardinality(String) COMMENT 'Whose calls; empty where there is one tenant',
    tool_name LowCardinality(String) COMMENT 'Name of the tool',
    minute DateTime('UTC') CODEC(Delta(4), ZSTD(1)) COMMENT 'Start of the minute, by the clock of the callers',
    calls SimpleAggregateFunction(sum, UInt64) COMMENT 'Events, rejected ones included',
    successes SimpleAggregateFunction(sum, UInt64) COMMENT 'Calls with status success, without those that their caller ignores (class policy)',
    errors SimpleAggregateFunction(sum, UInt64) COMMENT 'Calls with status error, caller errors included',
    timeouts SimpleAggregateFunction(sum, UInt64) COMMENT 'Calls with status timeout, caller errors included',
    rejections SimpleAggregateFunction(sum, UInt64) COMMENT 'Calls refused by a circuit',
    caller_errors SimpleAggregateFunction(sum, UInt64) COMMENT 'Those of the errors and timeouts that say nothing of the tool: of class tool, invalid_input, auth or policy',
    cancellations SimpleAggregateFunction(sum, UInt64) COMMENT 'Calls with status cancelled',
    cancelled_us_sum SimpleAggregateFunction(sum, UInt64) COMMENT 'Total duration of cancelled calls, in microseconds',
    duration_us_sum SimpleAggregateFunction(sum, UInt64) COMMENT 'Total duration of successes and failures, in microseconds (one call counts for 10^12 at most); without caller errors and cancelled calls',
    duration_ms_min SimpleAggregateFunction(min, Float64) COMMENT 'Shortest of the same calls, in milliseconds; infinite where there was none',
    duration_ms_max SimpleAggregateFunction(max, Float64) COMMENT 'Longest of the same calls, in milliseconds; 0 where there was none',
    input_size_sum SimpleAggregateFunction(sum, UInt64) COMMENT 'Total input in bytes or characters',
    output_size_sum SimpleAggregateFunction(sum, UInt64) COMMENT 'Total output in bytes or characters',
    tokens_sum SimpleAggregateFunction(sum, UInt64) COMMENT 'Input, output and cache creation tokens',
    wasted_tokens_sum SimpleAggregateFunction(sum, UInt64) COMMENT 'Those of them that were spent on calls that failed',
    cost_nanousd_sum SimpleAggregateFunction(sum, UInt64) COMMENT 'Total cost in billionths of a US dollar',
    last_success_at SimpleAggregateFunction(max, DateTime64(6, 'UTC')) COMMENT 'Latest success; 1970 where there was none',
    last_failure_at SimpleAggregateFunction(max, DateTime64(6, 'UTC')) COMMENT 'Latest error or timeout that is no caller error; 1970 where there was none',
    arrived_at SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'When the latest of the events arrived',
    PROJECTION by_minute (SELECT * ORDER BY minute, tenant, tool_name),
    PROJECTION per_hour
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
    )
)
ENGINE = {aggregating_merge_tree}
PARTITION BY toYYYYMM(minute)
ORDER BY (tenant, tool_name, minute)
TTL arrived_at + toIntervalDay(400)
SETTINGS {deduplication}, deduplicate_merge_projection_mode = 'rebuild'
COMMENT 'Counts and sums a tool and minute. Filled from tool_metrics; read it with sum, min, max and GROUP BY.';

-- A success of class policy is one that its caller ignores. `ended` is the status; a cancelled call may be stored as an error of class cancelled.
CREATE MATERIALIZED VIEW IF NOT EXISTS tool_counts_1m_mv {on_cluster} TO tool_counts_1m AS
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

CREATE TABLE IF NOT EXISTS tool_latency_15m {on_cluster}
(
    tenant LowCardinality(String) COMMENT 'Whose calls; empty where there is one tenant',
    tool_name LowCardinality(String) COMMENT 'Name of the tool',
    period DateTime('UTC') CODEC(Delta(4), ZSTD(1)) COMMENT 'Start of the quarter of an hour, by the clock of the callers',
    buckets SimpleAggregateFunction(sumMap, Map(Int16, UInt64)) COMMENT 'Successes and failures, without caller errors and cancelled calls, by duration d in ms: bucket i holds 2^(i/8) <= d < 2^((i+1)/8), bucket -160 everything below 1 ns (scale 3 of an OpenTelemetry exponential histogram)',
    arrived_at SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'When the latest of the events arrived'
)
ENGINE = {aggregating_merge_tree}
PARTITION BY toYYYYMM(period)
ORDER BY (tenant, tool_name, period)
TTL arrived_at + toIntervalDay(400)
SETTINGS {deduplication}
COMMENT 'Latency histograms a tool and quarter of an hour. Filled from tool_metrics; merge them with sumMap.';

CREATE MATERIALIZED VIEW IF NOT EXISTS tool_latency_15m_mv {on_cluster} TO tool_latency_15m AS
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

-- Errors by type and quarter of an hour: what a dashboard says of each tool's most frequent error, without reading every error.
CREATE TABLE IF NOT EXISTS tool_error_types_15m {on_cluster}
(
    tenant LowCardinality(String) COMMENT 'Whose calls; empty where there is one tenant',
    tool_name LowCardinality(String) COMMENT 'Name of the tool',
    error_type LowCardinality(String) COMMENT 'Type of the error; where it named none, timeout, its class, or unknown',
    period DateTime('UTC') CODEC(Delta(4), ZSTD(1)) COMMENT 'Start of the quarter of an hour, by the clock of the callers',
    errors SimpleAggregateFunction(sum, UInt64) COMMENT 'Calls that ended in error or timeout; no caller errors',
    first_at SimpleAggregateFunction(min, DateTime64(6, 'UTC')) COMMENT 'The first of them',
    last_at SimpleAggregateFunction(max, DateTime64(6, 'UTC')) COMMENT 'The last of them',
    example AggregateFunction(argMax, String, DateTime64(6, 'UTC')) COMMENT 'Message of the last; read it with argMaxMerge',
    arrived_at SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'When the latest of the events arrived'
)
ENGINE = {aggregating_merge_tree}
PARTITION BY toYYYYMM(period)
ORDER BY (tenant, tool_name, error_type, period)
TTL arrived_at + toIntervalDay(400)
SETTINGS {deduplication}
COMMENT 'Errors and timeouts a tool, type and quarter of an hour. Filled from tool_metrics; read it with sum, min, max and GROUP BY.';

CREATE MATERIALIZED VIEW IF NOT EXISTS tool_error_types_15m_mv {on_cluster} TO tool_error_types_15m AS
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

-- Caller errors by class and type: what a report says of them.
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

-- Processes whose clock is wrong.
CREATE TABLE IF NOT EXISTS emitter_clocks {on_cluster}
(
    tenant LowCardinality(String) COMMENT 'Whose calls; empty where there is one tenant',
    service LowCardinality(String) COMMENT 'Service that the process belongs to',
    emitter_id String COMMENT 'Process that emitted the events',
    hour DateTime('UTC') CODEC(Delta(4), ZSTD(1)) COMMENT 'Start of the hour in which the events arrived, by the clock of the broker',
    events SimpleAggregateFunction(sum, UInt64) COMMENT 'Events whose time was more than a minute off, or had no time zone',
    ahead SimpleAggregateFunction(sum, UInt64) COMMENT 'Those that were more than a minute ahead',
    behind SimpleAggregateFunction(sum, UInt64) COMMENT 'Those that were more than a minute behind',
    without_zone SimpleAggregateFunction(sum, UInt64) COMMENT 'Those whose time had no time zone',
    least_s SimpleAggregateFunction(min, Int64) COMMENT 'Smallest difference: the time that was sent minus that of the broker, in seconds',
    most_s SimpleAggregateFunction(max, Int64) COMMENT 'Largest difference, in seconds',
    last_at SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'When the latest of the events arrived'
)
ENGINE = {aggregating_merge_tree}
PARTITION BY toYYYYMM(hour)
ORDER BY (tenant, service, emitter_id, hour)
TTL hour + toIntervalDay(30)
SETTINGS {deduplication}
COMMENT 'Processes whose clock is wrong, by hour. Filled from tool_metrics; read it with sum, min, max and GROUP BY.';

CREATE MATERIALIZED VIEW IF NOT EXISTS emitter_clocks_mv {on_cluster} TO emitter_clocks AS
WITH
    ifNull(parseDateTime64BestEffortOrNull(upper(recorded_as), 6, 'UTC'), recorded_at) AS sent,
    dateDiff('second', kafka_timestamp, sent) AS off
SELECT
    tenant,
    service,
    emitter_id,
    toStartOfHour(toDateTime(kafka_timestamp, 'UTC')) AS hour,
    count() AS events,
    countIf(off > 60) AS ahead,
    countIf(off < -60) AS behind,
    countIf(recorded_as != '' AND NOT match(recorded_as, '([Zz]|[+-][0-9]{2}:?[0-9]{2})$')) AS without_zone,
    min(off) AS least_s,
    max(off) AS most_s,
    max(toDateTime(kafka_timestamp, 'UTC')) AS last_at
FROM tool_metrics
WHERE off > 60 OR off < -60 OR recorded_as != ''
GROUP BY tenant, service, emitter_id, hour;

-- Every record of the circuits topic: the history behind the state, for people and for the health reports.
CREATE TABLE IF NOT EXISTS circuit_transitions {on_cluster}
(
    circuit_id String COMMENT 'The circuit: its tool, with the user or session where the scope says so',
    tool_name LowCardinality(String) COMMENT 'Name of the tool; of the circuit of a family: the family',
    family LowCardinality(String) DEFAULT '' COMMENT 'Family of the tool, such as mcp:weather; empty without one',
    scope LowCardinality(String) DEFAULT 'tool' COMMENT 'What the circuit is kept for: tool, user, session or family',
    target LowCardinality(String) DEFAULT '' COMMENT 'What tells the targets of the tool apart, such as url.host; empty if nothing does',
    state LowCardinality(String) COMMENT 'closed, open, half_open, forced_open, disabled or metrics_only',
    previous_state LowCardinality(String) DEFAULT '' COMMENT 'State before; empty in the first record of the circuit',
    version UInt64 COMMENT 'Rises with every record of the circuit',
    generation UInt64 COMMENT 'Rises with every change of state',
    cause String DEFAULT '' COMMENT 'Why, as JSON text: rule, value, threshold, sample, reporters, actor, reason',
    rule LowCardinality(String) MATERIALIZED JSONExtractString(cause, 'rule') COMMENT 'Rule that decided',
    actor String MATERIALIZED JSONExtractString(cause, 'actor') COMMENT 'Who commanded it',
    reason String MATERIALIZED JSONExtractString(cause, 'reason') COMMENT 'The reason in words',
    changed_at DateTime64(6, 'UTC') COMMENT 'When the state changed, by the clock of the broker',
    open_until Nullable(DateTime64(6, 'UTC')) COMMENT 'At or after this instant a probe may go',
    attempt UInt32 DEFAULT 0 COMMENT 'Opens in a row without a close between them; a close by a ramp counts once the ramp is over',
    admitted_share Float64 DEFAULT 1 COMMENT 'Share of the calls that go while it is closed; below 1 while the tool recovers by a ramp',
    leases String DEFAULT '' COMMENT 'Probe leases that live, as JSON text',
    counts String DEFAULT '' COMMENT 'The window at the time of the record, as JSON text',
    calls UInt64 MATERIALIZED JSONExtractUInt(counts, 'calls') COMMENT 'Calls in the window',
    failed UInt64 MATERIALIZED JSONExtractUInt(counts, 'failed') COMMENT 'Failed calls in the window',
    slow UInt64 MATERIALIZED JSONExtractUInt(counts, 'slow') COMMENT 'Slow calls in the window',
    last_error String DEFAULT '' COMMENT 'Type and message of the last counted failure',
    mode LowCardinality(String) DEFAULT 'enforce' COMMENT 'enforce, metrics_only, forced_open or disabled',
    fallback String DEFAULT '' COMMENT 'Tools to use instead, in order, as JSON text',
    kafka_partition UInt32 COMMENT 'Partition of the circuits topic',
    kafka_offset UInt64 COMMENT 'Offset in that partition',
    kafka_timestamp DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'When the broker appended the record',
    INDEX changed_at_minmax changed_at TYPE minmax GRANULARITY 1,
    CONSTRAINT circuit_id_is_not_empty CHECK circuit_id != ''
)
ENGINE = {merge_tree}
PARTITION BY toYear(kafka_timestamp)
ORDER BY (circuit_id, version, changed_at)
TTL toDateTime(kafka_timestamp) + toIntervalDay(400)
SETTINGS {deduplication}
COMMENT 'Every record of every circuit. A version may appear twice (published again after a crash), with the same content.';

-- Views for people who write SQL.
CREATE VIEW IF NOT EXISTS tool_stats_1h {on_cluster} AS
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

CREATE VIEW IF NOT EXISTS slow_executions {on_cluster} AS
SELECT
    tenant, tool_name, execution_time_ms, status, recorded_at, session_id, request_id, user_id, error_type, parameters_hash,
    input_size, output_size, metric_id
FROM tool_slow_calls
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

-- What `switchgear retention set` was told: the newest line of a tenant, or of the default, is in force.
CREATE TABLE IF NOT EXISTS retention_rules {on_cluster}
(
    tenant String COMMENT 'Whose rows; the default for all others where is_default is true',
    is_default Bool COMMENT 'The rule is for every tenant without one of its own',
    days UInt16 COMMENT 'How long rows are kept after they arrived; 0: the rule was taken back',
    set_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When it was set'
)
ENGINE = {merge_tree}
ORDER BY (is_default, tenant, set_at)
COMMENT 'How long rows of tool_metrics and tool_errors are kept, as set by command';

-- What operators did through the HTTP API: who, when, from where, why, and how to undo it.
CREATE TABLE IF NOT EXISTS operator_actions {on_cluster}
(
    audit_id UUID COMMENT 'Identity of the action',
    at DateTime64(6, 'UTC') COMMENT 'When it was asked for, by the clock of the API',
    stage UInt8 COMMENT '0: asked for, before anything was sent; 1: with its outcome. The row with the highest stage counts',
    actor String COMMENT 'Who: the name of the token, or the subject of the login',
    address String COMMENT 'The address that the request came from',
    action LowCardinality(String) COMMENT 'The command, such as force_open, set_policy or retry_dead_letter',
    subject String COMMENT 'The circuit, the tool or glob of a policy, or the dead letter',
    reason String COMMENT 'The reason that the operator gave',
    outcome LowCardinality(String) COMMENT 'asked, applied, unchanged, sent, unconfirmed, refused or failed',
    detail String COMMENT 'More about the outcome',
    before String COMMENT 'State before, as JSON text',
    after String COMMENT 'State after, as JSON text',
    undo String COMMENT 'The commands that undo it, as JSON text; empty if it cannot be undone',
    undo_of String COMMENT 'The audit_id of the action that this one undoes; empty if none',
    expires_at Nullable(DateTime64(6, 'UTC')) COMMENT 'When it ends by itself',
    CONSTRAINT actor_is_not_empty CHECK actor != ''
)
ENGINE = {merge_tree}
PARTITION BY toYear(at)
ORDER BY (at, audit_id, stage)
SETTINGS {deduplication}
COMMENT 'Actions of operators through the HTTP API, up to two rows each. They are kept without a limit.';

-- What this store lacks, because sinks had written it to a store that was lost, or that was another one.
CREATE TABLE IF NOT EXISTS sink_history {on_cluster}
(
    consumer_group String COMMENT 'Consumer group of the sinks',
    topic String COMMENT 'Topic; empty in the row that says when the group began to write here',
    partition UInt32 COMMENT 'Partition of the topic',
    lacks_before UInt64 COMMENT 'The store lacks the offsets before this one; 0: nothing is lacking, or it was read again',
    readable UInt64 COMMENT 'How many of these offsets Kafka still had when this was noted',
    noted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When this was noted'
)
ENGINE = {merge_tree}
ORDER BY (consumer_group, topic, partition, noted_at)
COMMENT 'From which offsets on this store has the topics. A row with lacks_before = 0 is the last word about its partition.';
