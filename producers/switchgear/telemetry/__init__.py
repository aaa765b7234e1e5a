"""Show what happens: hooks, logs, OpenTelemetry, Prometheus and the status of a client."""
