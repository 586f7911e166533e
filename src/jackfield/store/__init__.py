"""Databases: run a script in one transaction, on SQLite or PostgreSQL; migrations; the bus.

`base.py` is the interface; `scripts.py` says what a script is: a generator of named statements that knows no database.
`sqlite.py` runs scripts on a file, `postgres.py` on a server that several gateways share, `memory.py` in memory.
May import: model, errors. Never: anything that decides what should happen.
"""

from jackfield.store.base import Store
from jackfield.store.opening import naming, open_store

__all__ = ["Store", "naming", "open_store"]
