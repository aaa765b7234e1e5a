-- Every record of the circuits topic: the history behind the state, for people and for the health reports.

CREATE TABLE IF NOT EXISTS circuit_transitions {on_cluster}
(
    circuit_id String COMMENT 'The circuit: its tool, with the user or session where the scope says so',
    tool_name LowCardinality(String) COMMENT 'Name of the tool',
    scope LowCardinality(String) DEFAULT 'tool' COMMENT 'What the circuit is kept for: tool, user or session',
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
    attempt UInt32 DEFAULT 0 COMMENT 'Opens in a row without a close between them',
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
SETTINGS {deduplication}
COMMENT 'Every record of every circuit. A version may appear twice (published again after a crash), with the same content.';
