/** Queries that the SQL page offers: title and text. A test runs each of them. @type {[string, string][]} */
export const EXAMPLES = [
  [
    "Slowest tools",
    `SELECT tool_name, count() AS calls, quantile(0.95)(execution_time_ms) AS p95_ms
FROM tool_metrics
WHERE status != 'rejected' AND recorded_at > now() - INTERVAL 1 HOUR
GROUP BY tool_name
ORDER BY p95_ms DESC
LIMIT 20`,
  ],
  [
    "Errors by class",
    `SELECT error_class, count() AS errors
FROM tool_metrics
WHERE status IN ('error', 'timeout') AND recorded_at > now() - INTERVAL 1 DAY
GROUP BY error_class
ORDER BY errors DESC`,
  ],
  ["Tables", "SHOW TABLES"],
];
