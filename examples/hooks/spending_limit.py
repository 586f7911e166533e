"""Denies calls of a principal that has spent its points of the day (UTC).

What was spent is in a SQLite file, so it survives restarts. The file belongs to one machine: gateways on several
machines count separately. A call counts when it is allowed, also if it fails later.

[[hooks]]
on = "before_call"
python = "spending_limit.py:limit"
env = { SPENDING_FILE = "/var/lib/jackfield/spending.db" }
options = { points = 100, costs = { "image_*" = 25, "*" = 1 } }
"""

import datetime as dt
import fnmatch
import os
import sqlite3

FILE = os.environ.get("SPENDING_FILE", "spending.db")
WAIT = float(os.environ.get("SPENDING_WAIT", "1.5"))
"""Seconds that a call waits for others that write to the file; less than the hook's timeout."""


def limit(event):
    options, call = event.get("options", {}), event["call"]
    allowed, cost = options.get("points", 100), cost_of(call["tool"], options.get("costs", {"*": 1}))
    today = dt.datetime.now(dt.UTC).date().isoformat()
    with database() as db:
        db.execute("BEGIN IMMEDIATE")
        row = db.execute("SELECT points FROM spent WHERE day = ? AND who = ?", (today, call["principal"])).fetchone()
        spent = row[0] if row else 0
        if spent + cost > allowed:
            return {"decision": "deny", "reason": f"{call['principal']} has spent {spent} of {allowed} points today"}
        db.execute("DELETE FROM spent WHERE day < ?", (today,))
        db.execute("INSERT OR REPLACE INTO spent VALUES (?, ?, ?)", (today, call["principal"], spent + cost))
    return {"decision": "allow"}


def cost_of(tool, costs):
    """The first glob that fits the tool says what it costs."""
    return next((points for glob, points in costs.items() if fnmatch.fnmatchcase(tool, glob)), 1)


def database():
    db = sqlite3.connect(FILE, timeout=WAIT)
    db.execute("CREATE TABLE IF NOT EXISTS spent (day TEXT, who TEXT, points INTEGER, PRIMARY KEY (day, who))")
    return db
