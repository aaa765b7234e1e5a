-- The same rows in a second order, or summed up by the hour, kept by ClickHouse inside each part: written, merged, deduplicated and
-- expired with it. They cannot disagree with their table, and may be added while rows arrive: a part that has none yet is read as before.

-- Counts by the hour: a day of all tools is 1/60 of the rows. Used by whoever groups by toStartOfHour(minute) and the other keys.
ALTER TABLE tool_counts_1m {on_cluster} MODIFY SETTING deduplicate_merge_projection_mode = 'rebuild';

ALTER TABLE tool_counts_1m {on_cluster} ADD PROJECTION IF NOT EXISTS by_hour
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

ALTER TABLE tool_counts_1m {on_cluster} MATERIALIZE PROJECTION by_hour;

-- The minutes of all tools side by side: the last hour, and the ragged ends of a longer period, out of months.
ALTER TABLE tool_counts_1m {on_cluster} ADD PROJECTION IF NOT EXISTS by_minute (SELECT * ORDER BY minute, tenant, tool_name);

ALTER TABLE tool_counts_1m {on_cluster} MATERIALIZE PROJECTION by_minute;

-- Slow calls by duration: the slowest 20 are at one end, however many timeouts lie in between.
ALTER TABLE tool_slow_calls {on_cluster} ADD PROJECTION IF NOT EXISTS by_duration (SELECT * ORDER BY execution_time_ms);

ALTER TABLE tool_slow_calls {on_cluster} MATERIALIZE PROJECTION by_duration;

-- Errors by tool: what goes wrong with one tool, without reading the others'.
ALTER TABLE tool_errors {on_cluster} ADD PROJECTION IF NOT EXISTS by_tool
(
    SELECT tenant, tool_name, recorded_at, status, error_type, error_class, error_message, session_id, metric_id
    ORDER BY tool_name, tenant, recorded_at
);

ALTER TABLE tool_errors {on_cluster} MATERIALIZE PROJECTION by_tool;
