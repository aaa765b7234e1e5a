-- Errors by type and quarter of an hour: what a dashboard says of each tool's most frequent error, without reading every error.

CREATE TABLE IF NOT EXISTS tool_error_types_15m {on_cluster}
(
    tenant LowCardinality(String) COMMENT 'Whose calls; empty where there is one tenant',
    tool_name LowCardinality(String) COMMENT 'Name of the tool',
    error_type LowCardinality(String) COMMENT 'Type of the error; where it named none, timeout, its class, or unknown',
    period DateTime('UTC') CODEC(Delta(4), ZSTD(1)) COMMENT 'Start of the quarter of an hour, by the clock of the callers',
    errors SimpleAggregateFunction(sum, UInt64) COMMENT 'Calls that ended in error or timeout',
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

-- What was stored before this table was; then the view that keeps it up. Not a second time after a crash between the two.
INSERT INTO tool_error_types_15m
SELECT
    tenant,
    tool_name,
    multiIf(error_type != '', error_type, status = 'timeout', 'timeout', error_class != '', error_class, 'unknown') AS type,
    toStartOfFifteenMinutes(toDateTime(recorded_at, 'UTC')) AS period,
    count(),
    min(recorded_at),
    max(recorded_at),
    argMaxState(error_message, recorded_at),
    max(toDateTime(kafka_timestamp, 'UTC'))
FROM tool_errors
WHERE (SELECT count() FROM tool_error_types_15m) = 0
GROUP BY tenant, tool_name, type, period;

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
WHERE status IN ('error', 'timeout')
GROUP BY tenant, tool_name, error_type, period;
