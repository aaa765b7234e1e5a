"""The gateway: Switchgear over HTTP, for clients that don't use Kafka, and from OpenTelemetry traces."""
