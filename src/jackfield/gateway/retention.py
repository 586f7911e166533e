"""Deletes what is older than the configured time, a small step at a time."""

from functools import partial

from jackfield.agents import cycle_transactions as cycle_tx
from jackfield.calls import transactions as call_tx
from jackfield.connections import transactions as connection_tx
from jackfield.identity.oauth import transactions as oauth_tx
from jackfield.overview import transactions as overview_tx
from jackfield.responses import transactions as response_tx
from jackfield.runs import transactions as run_tx
from jackfield.sessions import transactions as session_tx
from jackfield.store.base import Store
from jackfield.store.scripts import run

DAY_MS = 86_400_000
MESSAGES_KEPT = 200
"""A space's newest messages, which stay however old they are."""
MINUTES_KEPT_DAYS = 8
"""Rollups of minutes; those of hours are kept as long as calls."""


async def prune(store: Store, *, keep_days: float, limit: int = 500) -> int:
    """Delete one step of what is older than `keep_days`; how many rows went from the table that lost most."""
    before = max(await store.now_ms() - int(keep_days * DAY_MS), 0)
    old = {"before": before, "limit": limit}
    calls = await store.write(partial(call_tx.prune_calls, before_id=f"call_{before:012x}", limit=limit))
    responses = await store.write(partial(response_tx.prune, before_id=f"resp_{before:012x}", limit=limit))
    await store.write(partial(cycle_tx.prune, before=before, limit=limit))
    await store.write(partial(run_tx.prune, before=before, limit=limit))
    events = await store.write(partial(run, "prune_space_events", **old))
    messages = await store.write(partial(run, "prune_space_messages", **old, kept=MESSAGES_KEPT))
    await store.write(partial(session_tx.prune, before=before, limit=limit))
    await store.write(partial(connection_tx.prune_flows, limit=limit))
    inbox = await store.write(partial(run, "prune_inbox", **old))
    for name, values in (
        ("prune_live_streams", {"limit": limit}),
        ("prune_idempotency", {"limit": limit}),
        ("prune_logins", {"limit": limit}),
        ("prune_sign_ins", {"limit": limit}),
        ("prune_ways", old),
        ("prune_spending", {}),
        ("prune_gateways", {"before": before}),
        ("prune_outbox", old | {"before_id": f"msg_{before:012x}"}),
    ):
        await store.write(partial(run, name, **values))
    await store.write(partial(oauth_tx.prune, limit=limit))
    minutes_before = max(before, await store.now_ms() - MINUTES_KEPT_DAYS * DAY_MS)
    await store.write(partial(overview_tx.prune_rollups, minutes_before=minutes_before, hours_before=before))
    return max(calls, responses, len(events), len(messages), len(inbox))
