-- Raw rows, immutable, one a tool call: the event's own fields as its producer sent them, plus where Kafka kept it.
-- What a producer left out is minted from the Kafka coordinates, so that a replay mints the same.

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
    user_id String DEFAULT '' COMMENT 'User on whose behalf the call was made',
    session_id String DEFAULT '' COMMENT 'Agent session; empty where there was none',
    request_id String DEFAULT '' COMMENT 'Request within the session; empty where there was none',
    status LowCardinality(String) COMMENT 'success, error, timeout, or rejected by a circuit (the call was never made)',
    execution_time_ms Float64 DEFAULT 0 COMMENT 'Duration in milliseconds',
    error_type LowCardinality(String) DEFAULT '' COMMENT 'Type of the error, e.g. the class of the exception',
    error_message String DEFAULT '' CODEC(ZSTD(3)) COMMENT 'Message of the error, redacted and truncated by the emitter',
    error_class LowCardinality(String) DEFAULT '' COMMENT 'Kind of failure: transport, timeout, server, rate_limited, tool, invalid_input, auth, cancelled, policy, unknown',
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
    service LowCardinality(String) DEFAULT '' COMMENT 'Service that process belongs to',
    generation Nullable(UInt64) COMMENT 'Generation of the circuit that let the call through; null where no guard asked',
    lease_id String DEFAULT '' COMMENT 'Probe lease the call was made under',
    probe_requested Bool DEFAULT false COMMENT 'The refused caller asked for a probe lease',
    traceparent String DEFAULT '' COMMENT 'W3C trace context',
    metadata String DEFAULT '' CODEC(ZSTD(3)) COMMENT 'Anything else, as JSON text',
    unknown_fields String DEFAULT '' CODEC(ZSTD(3)) COMMENT 'Fields that this version does not know, as JSON text',
    recorded_at DateTime64(6, 'UTC') DEFAULT kafka_timestamp CODEC(Delta(8), ZSTD(1)) COMMENT 'When the call ended, by the clock of the caller',
    kafka_partition UInt32 DEFAULT 0 CODEC(T64, ZSTD(1)) COMMENT 'Partition of the executions topic',
    kafka_offset UInt64 DEFAULT 0 CODEC(Delta(8), ZSTD(1)) COMMENT 'Offset in that partition',
    kafka_timestamp DateTime64(3, 'UTC') DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'When the broker appended the event',
    retention_days UInt16 MATERIALIZED {retention_days} COMMENT 'How long this row is kept after it arrived',
    INDEX metric_id_bloom metric_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX recorded_at_minmax recorded_at TYPE minmax GRANULARITY 4,
    INDEX execution_time_minmax execution_time_ms TYPE minmax GRANULARITY 1,
    CONSTRAINT tool_name_is_not_empty CHECK tool_name != '',
    CONSTRAINT status_is_known CHECK status IN ('success', 'error', 'timeout', 'rejected'),
    CONSTRAINT recorded_at_is_plausible CHECK toYear(recorded_at) BETWEEN 2000 AND 2099
)
ENGINE = {merge_tree}
PARTITION BY toYYYYMM(kafka_timestamp)
ORDER BY (tenant, tool_name, recorded_at)
TTL toDateTime(kafka_timestamp) + toIntervalDay(retention_days)
SETTINGS {deduplication}
COMMENT 'One row a tool call, as it was emitted. Rows are never changed.';
