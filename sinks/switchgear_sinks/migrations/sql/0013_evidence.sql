-- What a call was about, what it signed in with, how late it was, and how much its source could tell about a failure. Processes whose
-- clock is wrong.

ALTER TABLE tool_metrics {on_cluster}
    ADD COLUMN IF NOT EXISTS target LowCardinality(String) DEFAULT ''
        COMMENT 'What the call was about, such as a host, if the policy of the tool keeps targets apart' AFTER tool_name,
    ADD COLUMN IF NOT EXISTS credential String DEFAULT ''
        COMMENT 'Keyed hash of what the call signed in with; empty if that is not known' AFTER request_id,
    ADD COLUMN IF NOT EXISTS overdue_ms Nullable(Float64)
        COMMENT 'How long the call had run when it was reported as overdue, in milliseconds; null if it was not' AFTER execution_time_ms,
    ADD COLUMN IF NOT EXISTS evidence LowCardinality(String) DEFAULT 'full'
        COMMENT 'What the source of the event could tell about a failure: full, or status_only if it hides the kind of error'
        AFTER error_class,
    ADD COLUMN IF NOT EXISTS recorded_as String DEFAULT ''
        COMMENT 'recorded_at as it was sent, if it was ahead of the clock of the broker or had no time zone; else empty' AFTER recorded_at;

ALTER TABLE tool_errors {on_cluster}
    ADD COLUMN IF NOT EXISTS target LowCardinality(String) DEFAULT ''
        COMMENT 'What the call was about, such as a host, if the policy of the tool keeps targets apart' AFTER tool_name,
    ADD COLUMN IF NOT EXISTS credential String DEFAULT ''
        COMMENT 'Keyed hash of what the call signed in with; empty if that is not known' AFTER request_id,
    ADD COLUMN IF NOT EXISTS overdue_ms Nullable(Float64)
        COMMENT 'How long the call had run when it was reported as overdue, in milliseconds; null if it was not' AFTER execution_time_ms,
    ADD COLUMN IF NOT EXISTS evidence LowCardinality(String) DEFAULT 'full'
        COMMENT 'What the source of the event could tell about a failure: full, or status_only if it hides the kind of error'
        AFTER error_class;

ALTER TABLE tool_slow_calls {on_cluster}
    ADD COLUMN IF NOT EXISTS target LowCardinality(String) DEFAULT ''
        COMMENT 'What the call was about, such as a host, if the policy of the tool keeps targets apart' AFTER tool_name,
    ADD COLUMN IF NOT EXISTS credential String DEFAULT ''
        COMMENT 'Keyed hash of what the call signed in with; empty if that is not known' AFTER request_id,
    ADD COLUMN IF NOT EXISTS overdue_ms Nullable(Float64)
        COMMENT 'How long the call had run when it was reported as overdue, in milliseconds; null if it was not' AFTER execution_time_ms,
    ADD COLUMN IF NOT EXISTS evidence LowCardinality(String) DEFAULT 'full'
        COMMENT 'What the source of the event could tell about a failure: full, or status_only if it hides the kind of error'
        AFTER error_class;

ALTER TABLE tool_errors_mv {on_cluster} MODIFY QUERY
SELECT
    metric_id, tenant, tool_name, target, user_id, session_id, request_id, credential, status, execution_time_ms, overdue_ms,
    error_type, error_message, error_class, evidence, retry_after_s, parameters_hash, input_size, output_size,
    input_tokens, output_tokens, cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, service,
    generation, lease_id, family_generation, family_lease_id, probe_requested, traceparent, metadata, unknown_fields,
    recorded_at, kafka_partition, kafka_offset, kafka_timestamp, retention_days
FROM tool_metrics
WHERE status IN ('error', 'timeout') AND error_class != 'cancelled';

ALTER TABLE tool_slow_calls_mv {on_cluster} MODIFY QUERY
SELECT
    metric_id, tenant, tool_name, target, user_id, session_id, request_id, credential, status, execution_time_ms, overdue_ms,
    error_type, error_message, error_class, evidence, retry_after_s, parameters_hash, input_size, output_size,
    input_tokens, output_tokens, cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, service,
    generation, lease_id, family_generation, family_lease_id, probe_requested, traceparent, metadata, unknown_fields,
    recorded_at, kafka_partition, kafka_offset, kafka_timestamp, retention_days
FROM tool_metrics
WHERE status != 'rejected' AND execution_time_ms > 5000;

ALTER TABLE circuit_transitions {on_cluster}
    ADD COLUMN IF NOT EXISTS target LowCardinality(String) DEFAULT ''
        COMMENT 'What tells the targets of the tool apart, such as url.host; empty if nothing does' AFTER scope;

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
