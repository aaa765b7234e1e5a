"""Tool executions from OpenTelemetry: spans and logs that applications export already."""
