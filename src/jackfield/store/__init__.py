"""Memory: the only room with SQL.

`base.py` is what the rest of the house sees: one method per move of a call, each one transaction, as
`pending-protocol.md` writes them. `moves.py` holds the moves themselves as scripts of named statements that know no
database; `sql/` holds the statements. A store only runs scripts: `sqlite.py` on a file, `postgres.py`
on a server that several gateways share, `memory.py` on nothing.
May import: model, errors. Never: anything that decides what should happen.
"""

from jackfield.store.base import CallFilter, Login, Moved, Page, Report, Started, Store
from jackfield.store.opening import naming, open_store

__all__ = ["CallFilter", "Login", "Moved", "Page", "Report", "Started", "Store", "naming", "open_store"]
