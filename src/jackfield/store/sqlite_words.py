"""How SQLite spells the few words of our SQL that databases differ in."""

WORDS = {
    # julianday is good to 0.05 ms, needs no Python callback, and is one instant within a statement.
    "clock_ms()": "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)",
    " FOR UPDATE SKIP LOCKED": "",
    " FOR UPDATE": "",
    "each_of(:ids)": "SELECT value FROM json_each(:ids)",
    "serial_key": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "DOUBLE PRECISION": "REAL",
    "BYTEA": "BLOB",
}
