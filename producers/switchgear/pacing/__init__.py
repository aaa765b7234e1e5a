"""Fleet pacing: learn the rate that a tool takes, divide it among the processes, and keep the share. No Kafka, no clock, no I/O."""
