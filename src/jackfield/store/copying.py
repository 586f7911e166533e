"""A copy of a SQLite database while a gateway uses it."""

import sqlite3
from pathlib import Path

from jackfield.errors import ConfigError

BUSY_SECONDS = 30.0


def copy_database(source: Path, target: Path) -> int:
    """Copy the database as it is at one moment, into a file of its own; its schema's number.

    Everything that was committed before is in it. The copy is made in one reading transaction, beside which a gateway
    goes on writing.
    """
    try:
        reading = sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)
        writing = sqlite3.connect(target, isolation_level=None)
        try:
            reading.backup(writing, pages=-1)
            writing.execute("PRAGMA journal_mode = DELETE")  # all of it in one file
            faults = [row[0] for row in writing.execute("PRAGMA quick_check(1)")]
            number = int(writing.execute("PRAGMA user_version").fetchone()[0])
        finally:
            writing.close()
            reading.close()
    except sqlite3.Error as fault:
        raise ConfigError(f"The database {source} cannot be copied: {fault}. Check the file and its folder.") from None
    if faults != ["ok"]:
        raise ConfigError(f"The database {source} is damaged: {faults[0]}. Restore it from an earlier backup.")
    return number
