"""The fixtures of `shared_postgres.py`, by the names the tests use."""

from tests.store.shared_postgres import other, outside, store

__all__ = ["other", "outside", "store"]
