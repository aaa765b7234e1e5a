"""ClickHouse, opened once per process: a server over HTTP(S), or the engine in this process (chDB)."""

from switchgear_sinks.store.client_pool import ClientPool
from switchgear_sinks.store.database import Connection, Database
from switchgear_sinks.store.location import StoreLocation
from switchgear_sinks.store.store import Store, open_store

__all__ = ["ClientPool", "Connection", "Database", "Store", "StoreLocation", "open_store"]
