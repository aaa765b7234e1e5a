"""Remove secrets from texts before they leave the process."""
