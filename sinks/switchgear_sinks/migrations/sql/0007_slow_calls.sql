-- Calls slower than five seconds, in time order: the slowest 20 of 100 million calls are found among the slow ones alone. (One
-- timeout in each granule of tool_metrics is enough to make its index of durations useless.) The columns are those of tool_metrics.

CREATE TABLE IF NOT EXISTS tool_slow_calls {on_cluster}
(
    metric_id UUID COMMENT 'Identity of the call',
    tenant LowCardinality(String) COMMENT 'Whose call; empty where there is one tenant',
    tool_name LowCardinality(String) COMMENT 'Name of the tool',
    user_id String COMMENT 'User on whose behalf the call was made',
    session_id String COMMENT 'Agent session; empty where there was none',
    request_id String COMMENT 'Request within the session; empty where there was none',
    status LowCardinality(String) COMMENT 'success, error or timeout',
    execution_time_ms Float64 COMMENT 'Duration in milliseconds, more than 5000',
    error_type LowCardinality(String) COMMENT 'Type of the error, e.g. the class of the exception',
    error_message String CODEC(ZSTD(3)) COMMENT 'Message of the error, redacted and truncated by the emitter',
    error_class LowCardinality(String) COMMENT 'Kind of failure: transport, timeout, server, rate_limited, tool, invalid_input, auth, cancelled, policy, unknown',
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
    service LowCardinality(String) COMMENT 'Service that process belongs to',
    generation Nullable(UInt64) COMMENT 'Generation of the circuit that let the call through; null where no guard asked',
    lease_id String COMMENT 'Probe lease the call was made under',
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
COMMENT 'Calls that took longer than five seconds, in time order. Filled from tool_metrics; rejected calls were never made and are left out.';

CREATE MATERIALIZED VIEW IF NOT EXISTS tool_slow_calls_mv {on_cluster} TO tool_slow_calls AS
SELECT
    metric_id, tenant, tool_name, user_id, session_id, request_id, status, execution_time_ms, error_type, error_message,
    error_class, retry_after_s, parameters_hash, input_size, output_size, input_tokens, output_tokens,
    cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, service, generation, lease_id,
    probe_requested, traceparent, metadata, unknown_fields, recorded_at, kafka_partition, kafka_offset, kafka_timestamp,
    retention_days
FROM tool_metrics
WHERE status != 'rejected' AND execution_time_ms > 5000;

-- The calls that were stored before this table was: once, however often a crash makes this file start again.
INSERT INTO tool_slow_calls
    (metric_id, tenant, tool_name, user_id, session_id, request_id, status, execution_time_ms, error_type, error_message,
    error_class, retry_after_s, parameters_hash, input_size, output_size, input_tokens, output_tokens,
    cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, service, generation, lease_id,
    probe_requested, traceparent, metadata, unknown_fields, recorded_at, kafka_partition, kafka_offset, kafka_timestamp,
    retention_days)
SELECT
    metric_id, tenant, tool_name, user_id, session_id, request_id, status, execution_time_ms, error_type, error_message,
    error_class, retry_after_s, parameters_hash, input_size, output_size, input_tokens, output_tokens,
    cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, service, generation, lease_id,
    probe_requested, traceparent, metadata, unknown_fields, recorded_at, kafka_partition, kafka_offset, kafka_timestamp,
    retention_days
FROM tool_metrics
WHERE status != 'rejected' AND execution_time_ms > 5000 AND metric_id NOT IN (SELECT metric_id FROM tool_slow_calls);

-- The same view as before, over the slow calls alone.
CREATE OR REPLACE VIEW slow_executions {on_cluster} AS
SELECT
    tenant, tool_name, execution_time_ms, status, recorded_at, session_id, request_id, user_id, error_type, parameters_hash,
    input_size, output_size, metric_id
FROM tool_slow_calls
COMMENT 'Calls that took longer than five seconds. Add ORDER BY execution_time_ms DESC LIMIT 20.';
