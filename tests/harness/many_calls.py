"""Very many calls on record, written by one statement instead of being made."""

import time
from functools import partial

from jackfield.store import Store
from jackfield.store.scripts import Sql, run

DAY_MS = 24 * 60 * 60 * 1000
_IDS = {
    False: "printf('call_%012x%016x', made, n)",
    True: "'call_' || lpad(to_hex(made), 12, '0') || lpad(to_hex(n), 16, '0')",
}
"""As SQLite and as PostgreSQL spell it."""
_MANY = """
INSERT INTO calls (id, run_id, tool, source, tool_version, kind, arguments, principal, status, delivery, result,
    error_code, error_message, attempt, owner, timeout_ms, expires_in_ms, created_at, finished_at, duration_ms)
WITH RECURSIVE numbers(n) AS (
    SELECT CAST(0 AS BIGINT) UNION ALL SELECT n + 1 FROM numbers WHERE n < CAST(:count AS BIGINT) - 1
), made AS (
    SELECT n, CAST(:now AS BIGINT)
        - (CAST(:count AS BIGINT) - n) * CAST(:span AS BIGINT) / CAST(:count AS BIGINT) AS made
    FROM numbers
)
SELECT {id}, 'run_' || CAST(n / 3 AS TEXT),
    CASE WHEN n % 400 = 0 THEN 'rare_tool' ELSE 'tool_' || CAST(n % 23 AS TEXT) END,
    CASE WHEN n % 400 = 0 THEN 'rare' ELSE 'source_' || CAST(n % 5 AS TEXT) END,
    '1', 'tool', '{{"number":' || CAST(n AS TEXT) || '}}',
    CASE WHEN n % 11 < 8 THEN 'ada' WHEN n % 11 < 10 THEN 'bob' ELSE 'cleo' END,
    CASE WHEN n % 97 = 1 THEN 'failed' ELSE 'completed' END, 'inline',
    CASE WHEN n % 97 = 1 THEN NULL ELSE '{{"doubled":' || CAST(2 * n AS TEXT) || '}}' END,
    CASE WHEN n % 97 = 1 THEN 'tool_error' END,
    CASE WHEN n % 97 = 1 THEN 'It broke at ' || CAST(n AS TEXT) END,
    1, 'gw_past', 30000, 86400000, made, made + n % 400, n % 400
FROM made
"""


async def insert_calls(store: Store, count: int, *, span_ms: int = DAY_MS) -> None:
    """Settled calls of the last 24 hours, evenly, with ids and times as if they had been made then.

    Call number n is of `tool_{n % 23}` and `source_{n % 5}`; every 400th of `rare_tool` and `rare`; every 97th failed.
    """
    sql = Sql("insert_many_calls", _MANY.format(id=_IDS[store.is_shared]))
    values = {"count": count, "now": time.time_ns() // 1_000_000, "span": span_ms}
    await store.write(partial(run, sql, **values))
