"""ClickHouse, opened once a process: a server over HTTP(S), or the engine itself in this process (chDB)."""

from switchgear_sinks.store.client_pool import ClientPool
from switchgear_sinks.store.location import StoreLocation
from switchgear_sinks.store.store import Store, open_store

__all__ = ["ClientPool", "Store", "StoreLocation", "open_store"]
