"""Send recorded calls to Kafka for ``switchgear emit``."""
