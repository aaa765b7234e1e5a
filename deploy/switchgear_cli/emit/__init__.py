"""Sending recorded calls to Kafka: what ``switchgear emit`` does."""
