-- Circuits of families: the tools of one server have a circuit together, besides one each. Circuits that recover by a ramp.

ALTER TABLE circuit_transitions {on_cluster}
    ADD COLUMN IF NOT EXISTS family LowCardinality(String) DEFAULT ''
        COMMENT 'Family of the tool, such as mcp:weather; empty without one' AFTER tool_name,
    ADD COLUMN IF NOT EXISTS admitted_share Float64 DEFAULT 1
        COMMENT 'Share of the calls that go while it is closed; below 1 while the tool recovers by a ramp' AFTER attempt;

ALTER TABLE circuit_transitions {on_cluster}
    COMMENT COLUMN tool_name 'Name of the tool; of the circuit of a family: the family',
    COMMENT COLUMN attempt 'Opens in a row without a close between them; a close by a ramp counts once the ramp is over',
    COMMENT COLUMN scope 'What the circuit is kept for: tool, user, session or family';

ALTER TABLE tool_metrics {on_cluster}
    ADD COLUMN IF NOT EXISTS family_generation Nullable(UInt64)
        COMMENT 'Generation of the circuit of the family at the call; null where no guard asked or knew it' AFTER lease_id,
    ADD COLUMN IF NOT EXISTS family_lease_id String DEFAULT ''
        COMMENT 'Probe lease of the circuit of the family that the call was made under' AFTER family_generation;

ALTER TABLE tool_errors {on_cluster}
    ADD COLUMN IF NOT EXISTS family_generation Nullable(UInt64)
        COMMENT 'Generation of the circuit of the family at the call; null where no guard asked or knew it' AFTER lease_id,
    ADD COLUMN IF NOT EXISTS family_lease_id String DEFAULT ''
        COMMENT 'Probe lease of the circuit of the family that the call was made under' AFTER family_generation;

ALTER TABLE tool_slow_calls {on_cluster}
    ADD COLUMN IF NOT EXISTS family_generation Nullable(UInt64)
        COMMENT 'Generation of the circuit of the family at the call; null where no guard asked or knew it' AFTER lease_id,
    ADD COLUMN IF NOT EXISTS family_lease_id String DEFAULT ''
        COMMENT 'Probe lease of the circuit of the family that the call was made under' AFTER family_generation;

ALTER TABLE tool_errors_mv {on_cluster} MODIFY QUERY
SELECT
    metric_id, tenant, tool_name, user_id, session_id, request_id, status, execution_time_ms, error_type, error_message,
    error_class, retry_after_s, parameters_hash, input_size, output_size, input_tokens, output_tokens,
    cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, service, generation, lease_id,
    family_generation, family_lease_id, probe_requested, traceparent, metadata, unknown_fields, recorded_at,
    kafka_partition, kafka_offset, kafka_timestamp, retention_days
FROM tool_metrics
WHERE status IN ('error', 'timeout') AND error_class != 'cancelled';

ALTER TABLE tool_slow_calls_mv {on_cluster} MODIFY QUERY
SELECT
    metric_id, tenant, tool_name, user_id, session_id, request_id, status, execution_time_ms, error_type, error_message,
    error_class, retry_after_s, parameters_hash, input_size, output_size, input_tokens, output_tokens,
    cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, service, generation, lease_id,
    family_generation, family_lease_id, probe_requested, traceparent, metadata, unknown_fields, recorded_at,
    kafka_partition, kafka_offset, kafka_timestamp, retention_days
FROM tool_metrics
WHERE status != 'rejected' AND execution_time_ms > 5000;
