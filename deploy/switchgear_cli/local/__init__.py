"""One machine, no containers: Kafka from wheels and Maven coordinates, started and stopped by us."""
