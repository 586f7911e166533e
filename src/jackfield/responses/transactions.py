"""Transactions of responses: one row each, conversations by their links, event chunks of background responses.

A response is settled once. Its id is the topic of every change to it.
"""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from jackfield.model.call import Call
from jackfield.runs import model_steps
from jackfield.runs import transactions as run_tx
from jackfield.runs.transactions import Fenced, Run, RunStep, Tokens
from jackfield.store.scripts import Row, Script, json_list, one, wake

SLACK_MS = 60_000
"""How much later, or earlier, than an item its response may have its id from."""
_LATEST = (1 << 48) - 1
_MADE_ID = re.compile(r"[a-z_]{1,16}_(?P<ms>[0-9a-f]{12})[0-9a-f]{16}")
EVENTS_AT_ONCE = 50
"""Rows of events that are read at a time."""


class StoredResponse(Struct, frozen=True, kw_only=True):
    """A response's row. `resource`, `input` and `output` are JSON; the resource's own output is left empty."""

    id: str
    principal: str
    status: str
    previous_id: str | None
    resource: str
    input: str
    output: str = "[]"
    owner: str
    is_background: bool = False
    stop_wanted: bool = False
    is_finished: bool = False
    is_orphan: bool = False
    """Not finished, the gateway that was making it is dead, and no other goes on with it by itself."""
    is_parked: bool = False
    """It waits for somebody's answer, and no gateway has it in hand."""


class ConversationTurn(Struct, frozen=True):
    """What one response of a conversation added to it, as JSON."""

    id: str
    previous_id: str | None
    input: str
    output: str


class EventChunk(Struct, frozen=True):
    """Events `first` to `last` of a stream, one JSON object a line."""

    first: int
    last: int
    events: str


class TakenResponse(Struct, frozen=True, kw_only=True):
    """A response that this gateway has just taken in hand, with all that is on record of it."""

    run: Run
    stored: StoredResponse
    chunks: tuple[EventChunk, ...]
    steps: tuple[RunStep, ...]


class Ending(Struct, frozen=True, kw_only=True):
    """What is written of a response that has ended."""

    status: str
    resource: str
    output: str
    chunks: tuple[EventChunk, ...] = ()
    """The rest of its stream. Of one that failed, the last chunk is what a resumption takes back."""
    forgets_events: bool = False
    """Its stream was for one reader, who has it."""
    tokens: Tokens | None = None


def stop_topic(response_id: str) -> str:
    """Published when a response is cancelled."""
    return f"{response_id}:stop"


def add_response(response: StoredResponse) -> Script[None]:
    """A response begins."""
    values = {
        "id": response.id,
        "principal": response.principal,
        "status": response.status,
        "previous_id": response.previous_id,
        "resource": response.resource,
        "input": response.input,
        "owner": response.owner,
        "is_background": int(response.is_background),
    }
    yield "insert_response", values


def settle_response(
    response_id: str, *, status: str, resource: str, output: str, last_events: EventChunk | None = None
) -> Script[bool]:
    """How it ended, with the end of its stream. False: it had ended before, or is gone."""
    values = {"id": response_id, "status": status, "resource": resource, "output": output}
    rows = yield "settle_response", values
    if rows and last_events is not None:
        yield from append_events(response_id, last_events)
    yield wake(response_id)
    return bool(rows)


def begin_journaled(response: StoredResponse, *, request: str) -> Script[Run]:
    """A response begins that any gateway can go on with."""
    yield from add_response(response)
    run = yield from run_tx.begin_run(
        response.id, kind="response", principal=response.principal, request=request, owner=response.owner
    )
    assert run is not None
    return run


def queue_response(response: StoredResponse, *, request: str, chunk: EventChunk) -> Script[Run]:
    """A response waits for its turn, at any gateway."""
    yield from add_response(response)
    yield from append_events(response.id, chunk)
    return (yield from run_tx.queue_run(response.id, kind="response", principal=response.principal, request=request))


def append_journaled(run: Run, chunk: EventChunk) -> Script[bool]:
    """More of its stream, by who has it in hand. False: another has."""
    if not (yield from run_tx.hold(run)):
        return False
    yield from append_events(run.id, chunk)
    return True


def record_step(
    run: Run, *, n: int, message: str, calls: Mapping[int, Call], chunk: EventChunk | None, tokens: Tokens
) -> Script[dict[int, Call] | None]:
    """T1: a step with its calls, by their places, and its stream up to there. None: fenced."""
    if (yield from run_tx.take_step(run, n=n, message=message, tokens=tokens)) is None:
        return None
    written: dict[int, Call] = {}
    for place, call in calls.items():
        added = yield from run_tx.add_call(run, call, n=n, idx=place)
        assert added is not None
        written[place] = added
    if chunk is not None:
        yield from append_events(run.id, chunk)
    return written


def settle_journaled(run: Run, ending: Ending, *, reason: str | None = None) -> Script[bool]:
    """The end of a response, by who has it in hand. False: another has, or it is over."""
    is_failed = ending.status == "failed"
    ended = yield from run_tx.end(run, status="failed" if is_failed else "done", reason=reason, tokens=ending.tokens)
    if ended is None:
        return False
    for chunk in ending.chunks:
        yield from append_events(run.id, chunk)
    if ending.forgets_events:
        yield "delete_response_events", {"ids": json_list([run.id])}
    yield from settle_response(run.id, status=ending.status, resource=ending.resource, output=ending.output)
    return True


def park_response(run: Run, chunk: EventChunk | None) -> Script[bool]:
    """Let go of a response until the calls that it waits for are answered. False: it is to be stopped.

    Raises `Fenced`.
    """
    # T13
    if not (yield from run_tx.hold(run)):
        raise Fenced
    if chunk is not None:
        yield from append_events(run.id, chunk)
    stored, now = (yield from get_response(run.id)), (yield from run_tx.get_run(run.id))
    if (stored is not None and stored.stop_wanted) or (now is not None and now.stop_wanted):
        return False
    yield from run_tx.park(run)
    return True


def claim(run_id: str, *, owner: str) -> Script[TakenResponse | None]:
    """Go on with a response that nobody has in hand. None: somebody else does."""
    return (yield from _taken((yield from run_tx.claim(run_id, owner=owner)), owner))


def take_over(run: Run, *, owner: str) -> Script[TakenResponse | None]:
    """Go on with a response whose gateway is dead. None: somebody else does."""
    # T7
    return (yield from _taken((yield from run_tx.take_over(run, owner=owner)), owner))


def seize(run_id: str, *, owner: str) -> Script[TakenResponse | None]:
    """Take a response that nobody has in hand, whatever it waits for, to end it. None: somebody has it."""
    return (yield from _taken((yield from run_tx.seize(run_id, owner=owner)), owner))


def _taken(run: Run | None, owner: str) -> Script[TakenResponse | None]:
    if run is None:
        return None
    yield "own_response", {"run": run.id, "owner": owner}
    stored = yield from get_response(run.id)
    if stored is None:
        yield from run_tx.end(run, status="done")
        return None
    journal = yield from run_tx.read_journal(run.id)
    chunks: list[EventChunk] = []
    while found := (yield from events_after(run.id, chunks[-1].last if chunks else -1)):
        chunks += found
    return TakenResponse(run=run, stored=stored, chunks=tuple(chunks), steps=() if journal is None else journal.steps)


def resume(
    run_id: str, *, reopened: Callable[[StoredResponse, EventChunk], tuple[str, EventChunk]]
) -> Script[Run | None]:
    """A response that failed goes on from its journal, at any gateway. None: it did not fail, or has no journal.

    `reopened` gives what its resource is then, and what stands in its stream in place of its end.
    """
    failed, stored = (yield from run_tx.get_run(run_id)), (yield from get_response(run_id))
    last = yield from one("last_response_events", id=run_id)
    if failed is None or stored is None or last is None or failed.kind != "response" or failed.request is None:
        return None
    run = yield from run_tx.resume(run_id)
    if run is None:
        return None
    resource, chunk = reopened(stored, EventChunk(last["first"], last["last"], last["events"]))
    yield "rewrite_response_events", {"id": run_id, "first": chunk.first, "events": chunk.events}
    yield "reopen_response", {"run": run_id, "resource": resource}
    yield wake(run_id)
    return run


def get_response(response_id: str) -> Script[StoredResponse | None]:
    row = yield from one("get_response", id=response_id)
    return None if row is None else _kept(row)


def conversation(response_id: str) -> Script[list[ConversationTurn]]:
    """The response and all before it, the first first; the first has a link if what it continued is gone."""
    rows = yield "response_chain", {"id": response_id}
    return [ConversationTurn(row["id"], row["previous_id"], row["input"], row["output"]) for row in rows]


def response_with_item(item_id: str, *, principal: str, within_ms: int) -> Script[ConversationTurn | None]:
    """The response of this key that has an item by an id which `new_id` made; it took `within_ms` at most."""
    made = _MADE_ID.fullmatch(item_id)
    if made is None:
        return None
    made_at = int(made["ms"], 16)
    # An approved call has the id of when it was asked for, and may have run any time later.
    until = _LATEST if item_id.startswith("mcp_") else made_at + SLACK_MS
    values = {
        "principal": principal,
        "item": f'%"id":"{item_id}"%',
        "first": f"resp_{max(0, made_at - within_ms - SLACK_MS):012x}",
        "last": f"resp_{until:012x}g",
    }
    row = yield from one("response_with_item", **values)
    return None if row is None else ConversationTurn(row["id"], row["previous_id"], row["input"], row["output"])


def want_stopped(response_id: str) -> Script[bool]:
    """Ask its gateway to stop it. False: it has ended."""
    row = yield from one("want_response_stopped", id=response_id)
    yield wake(stop_topic(response_id))
    return row is not None


def delete_response(response_id: str) -> Script[bool]:
    """Forget a response and its stream. What continued it can no longer be continued."""
    rows = yield "delete_response", {"id": response_id}
    yield "delete_response_events", {"ids": json_list([response_id])}
    yield from run_tx.delete(response_id)
    yield from model_steps.forget([response_id])
    yield wake(response_id)
    return bool(rows)


def append_events(response_id: str, chunk: EventChunk) -> Script[None]:
    """More of a background response's stream."""
    values = {"id": response_id, "first": chunk.first, "last": chunk.last, "events": chunk.events}
    yield "append_response_events", values
    yield wake(response_id)


def events_after(response_id: str, after: int) -> Script[list[EventChunk]]:
    """The next of the stream's chunks that hold an event later than `after`."""
    rows = yield "response_events_after", {"id": response_id, "after": after, "limit": EVENTS_AT_ONCE}
    return [EventChunk(row["first"], row["last"], row["events"]) for row in rows]


def prune(*, before_id: str, limit: int) -> Script[int]:
    """Forget old responses and their streams; how many."""
    gone = yield "prune_responses", {"before_id": before_id, "limit": limit}
    if gone:
        ids = [row["id"] for row in gone]
        yield "delete_response_events", {"ids": json_list(ids)}
        yield from model_steps.forget(ids)
    return len(gone)


def _kept(row: Row) -> StoredResponse:
    return StoredResponse(
        id=row["id"],
        principal=row["principal"],
        status=row["status"],
        previous_id=row["previous_id"],
        resource=row["resource"],
        input=row["input"],
        output=row["output"],
        owner=row["owner"],
        is_background=bool(row["is_background"]),
        stop_wanted=bool(row["stop_wanted"]),
        is_finished=row["finished_at"] is not None,
        is_orphan=bool(row["is_orphan"]),
        is_parked=row["run_status"] == "parked",
    )
