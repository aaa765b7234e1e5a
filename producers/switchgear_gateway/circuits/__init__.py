"""The fleet's circuits over HTTP: a snapshot, and a stream of changes as server-sent events."""

from switchgear_gateway.circuits.routes import CircuitRoutes

__all__ = ["CircuitRoutes"]
