"""Kafka on this machine without containers. The broker comes from Maven jars, the Java runtime from a wheel."""
