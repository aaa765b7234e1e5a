-- The credential with which an event came through a gateway.

ALTER TABLE tool_metrics {on_cluster}
    ADD COLUMN IF NOT EXISTS reporter LowCardinality(String) DEFAULT ''
        COMMENT 'Credential that counts as the reporter of the event; empty if the process does' AFTER emitter_id;

ALTER TABLE tool_errors {on_cluster}
    ADD COLUMN IF NOT EXISTS reporter LowCardinality(String) DEFAULT ''
        COMMENT 'Credential that counts as the reporter of the event; empty if the process does' AFTER emitter_id;

ALTER TABLE tool_slow_calls {on_cluster}
    ADD COLUMN IF NOT EXISTS reporter LowCardinality(String) DEFAULT ''
        COMMENT 'Credential that counts as the reporter of the event; empty if the process does' AFTER emitter_id;

ALTER TABLE tool_errors_mv {on_cluster} MODIFY QUERY
SELECT
    metric_id, tenant, tool_name, target, user_id, session_id, request_id, credential, status, execution_time_ms, overdue_ms,
    error_type, error_message, error_class, evidence, retry_after_s, parameters_hash, input_size, output_size,
    input_tokens, output_tokens, cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, reporter, service,
    generation, lease_id, family_generation, family_lease_id, probe_requested, traceparent, metadata, unknown_fields,
    recorded_at, kafka_partition, kafka_offset, kafka_timestamp, retention_days
FROM tool_metrics
WHERE status IN ('error', 'timeout') AND error_class != 'cancelled';

ALTER TABLE tool_slow_calls_mv {on_cluster} MODIFY QUERY
SELECT
    metric_id, tenant, tool_name, target, user_id, session_id, request_id, credential, status, execution_time_ms, overdue_ms,
    error_type, error_message, error_class, evidence, retry_after_s, parameters_hash, input_size, output_size,
    input_tokens, output_tokens, cache_creation_tokens, cost_usd, served_by, fallback_tool, emitter_id, reporter, service,
    generation, lease_id, family_generation, family_lease_id, probe_requested, traceparent, metadata, unknown_fields,
    recorded_at, kafka_partition, kafka_offset, kafka_timestamp, retention_days
FROM tool_metrics
WHERE status != 'rejected' AND execution_time_ms > 5000;
