"""The gateway: Switchgear over HTTP and OpenTelemetry, for programs that can't be Kafka clients."""
