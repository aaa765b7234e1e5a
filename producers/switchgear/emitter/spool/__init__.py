"""Events on disk while Kafka is down: bounded, and kept when the process is killed."""
