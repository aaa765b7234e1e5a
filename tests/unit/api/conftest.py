from tests.support.engine_fixtures import engine, store

__all__ = ["engine", "store"]
