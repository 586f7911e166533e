"""Everything that happens in a space, as scripts: messages, visible calls, who is there, the line of numbered events.

Scripts as in `scripts.py`, so that a built-in tool's effect is written with the step that asked for it or not at all.
Whoever writes into a space takes its next number before anything else in it. That holds the space's row until the
commit: numbers become visible in their order. A script that may come to several takes them all first, by their ids
(`hold_spaces`), so that no two wait for each other in a circle.
Above: services of spaces, the transactions of calls and agents. Below: `rows.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from jackfield.errors import BadRequest, Conflict
from jackfield.model.agent_state import Cycle
from jackfield.model.call import Call, CallStatus
from jackfield.model.ids import new_id
from jackfield.model.space import (
    LIVE_TOPIC,
    ROLES,
    SPACE_TOPIC,
    EntityKind,
    LatestOfSpace,
    LiveStream,
    Member,
    Presence,
    Sender,
    Space,
    SpaceEvent,
    SpaceMessage,
    SpaceRead,
    message_fields,
)
from jackfield.spaces.rows import (
    ShownCall,
    event_from,
    json_text,
    latest_from,
    live_from,
    member_from,
    message_from,
    presence_from,
    read_from,
    shown_call,
    shown_outcome,
    space_from,
)
from jackfield.store.scripts import INBOX_TOPIC, Row, Script, json_list, one, wake

OWN_IDS = "msg_"
NO_SEQ = 2**62
"""A number that no event reaches."""
BEGAN_AGAIN = "The agent began again."


def hold_spaces(cycle_id: str, besides: Iterable[str] = ()) -> Script[None]:
    """Take the rows of all spaces that a move of this cycle may write into, in the order of their ids."""
    yield "hold_spaces", {"cycle_id": cycle_id, "ids": json_text([*besides])}


def create_space(
    space_id: str | None = None, *, name: str, description: str = "", metadata: Mapping[str, Any] | None = None
) -> Script[Space]:
    """A new space, under an id of its own or the one that is asked for; `Conflict` if that is taken."""
    values = {"space_id": space_id or new_id("space"), "name": name, "description": description}
    row = yield from one("insert_space", **values, metadata=json_text(metadata or {}))
    if row is None:
        raise Conflict(f"There is a space '{space_id}' already. Choose another id, or change that one.", param="id")
    return space_from(row)


def ensure_space(space_id: str, *, name: str) -> Script[None]:
    """There is a space with this id; one that was there stays as it is."""
    yield "insert_space", {"space_id": space_id, "name": name, "description": "", "metadata": "{}"}


def get_space(space_id: str) -> Script[Space | None]:
    row = yield from one("get_space", space_id=space_id)
    return None if row is None else space_from(row)


def get_member(space_id: str, entity_id: str) -> Script[Member | None]:
    row = yield from one("get_member", space_id=space_id, entity_id=entity_id)
    return None if row is None else member_from(row)


def list_spaces(*, member: str | None = None) -> Script[list[Space]]:
    """All spaces, or those that somebody is in, by id."""
    if member is not None:
        return (yield from spaces_of(member))
    rows = yield "all_spaces", {}
    return [space_from(row) for row in rows]


def latest_of_spaces(space_ids: Sequence[str]) -> Script[dict[str, LatestOfSpace]]:
    """By the space's id: how many are in it, and what was said last."""
    rows = yield "latest_of_spaces", {"ids": json_list(space_ids)}
    return {row["space_id"]: latest_from(row) for row in rows}


def kind_of(entity_id: str) -> Script[EntityKind]:
    """What somebody is who joins."""
    return "person" if (yield from one("get_agent", agent=entity_id)) is None else "agent"


def spaces_of(entity_id: str) -> Script[list[Space]]:
    """The spaces that somebody is a member of."""
    rows = yield "spaces_of", {"entity_id": entity_id}
    return [space_from(row) for row in rows]


def members_of(space_id: str) -> Script[list[Member]]:
    """Who is in a space, in the order they came."""
    rows = yield "members_of", {"space_id": space_id}
    return [member_from(row) for row in rows]


def members_around(space_ids: Iterable[str], *, besides: str, most: int) -> Script[dict[str, list[Member]]]:
    """The first members of each of these spaces, but for one, by space."""
    around: dict[str, list[Member]] = {}
    for row in (yield "members_around", {"ids": json_list(space_ids), "besides": besides, "most": most}):
        around.setdefault(row["space_id"], []).append(member_from(row))
    return around


def add_event(space_id: str, type: str, data: Mapping[str, Any]) -> Script[int | None]:  # noqa: A002 - the field's name
    """One durable event, with the space's next number. None: no such space."""
    space = yield from take_seq(space_id)
    if space is None:
        return None
    yield from insert_event(space_id, space["last_seq"], type, data)
    return int(space["last_seq"])


def events_after(space_id: str, after: int, limit: int) -> Script[list[SpaceEvent]]:
    """The events that follow number `after`, in their order."""
    rows = yield "space_events_after", {"space_id": space_id, "after_seq": after, "limit": limit}
    return [event_from(row) for row in rows]


def last_seq(space_id: str) -> Script[int | None]:
    """The number of the space's newest event."""
    space = yield from get_space(space_id)
    return None if space is None else space.last_seq


def update_space(
    space_id: str,
    *,
    name: str | None = None,
    description: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Script[Space | None]:
    """Change what is given; the rest stays. None: no such space."""
    changes = {"name": name, "description": description}
    changes["metadata"] = None if metadata is None else json_text(metadata)
    row = yield from one("update_space", space_id=space_id, **changes)
    if row is None:
        return None
    data = {"name": row["name"], "description": row["description"], "metadata": Raw(row["metadata"].encode())}
    yield from insert_event(space_id, row["last_seq"], "space.updated", data)
    return space_from(row)


def delete_space(space_id: str) -> Script[bool]:
    """Forget a space with all that is in it. False: there was none."""
    gone = yield "delete_space", {"space_id": space_id}
    for table in ("members", "space_messages", "space_events", "presence", "live_streams", "space_reads"):
        yield f"delete_{table}", {"space_id": space_id}
    yield wake(SPACE_TOPIC + space_id)
    return bool(gone)


def put_member(space_id: str, *, entity_id: str, kind: Literal["person", "agent"], name: str) -> Script[Member | None]:
    """Somebody joins, or is known by another name from now on. None: no such space."""
    space = yield from take_seq(space_id)
    if space is None:
        return None
    who = {"space_id": space_id, "entity_id": entity_id}
    before = yield "get_member", who
    [row] = yield "put_member", who | {"kind": kind, "name": name}
    if before:
        yield "give_seq_back", {"space_id": space_id}
    else:
        data = {"entityId": entity_id, "kind": kind, "name": name}
        yield from insert_event(space_id, space["last_seq"], "member.joined", data)
    return member_from(row)


def remove_member(space_id: str, entity_id: str) -> Script[bool]:
    """Somebody leaves for good. False: was not there."""
    space = yield from take_seq(space_id)
    if space is None:
        return False
    gone = yield "delete_member", {"space_id": space_id, "entity_id": entity_id}
    if not gone:
        yield "give_seq_back", {"space_id": space_id}
        return False
    data = {"entityId": entity_id, "kind": gone[0]["kind"], "name": gone[0]["name"]}
    yield from insert_event(space_id, space["last_seq"], "member.left", data)
    yield "delete_space_read", {"space_id": space_id, "entity_id": entity_id}
    for row in (yield "presence_of_agent", {"space_id": space_id, "agent": entity_id}):
        yield from leave(space_id, run_id=row["run_id"])
    return True


def post_message(
    space_id: str, *, sender: Sender, content: str, message_id: str | None = None, **more: Any
) -> Script[SpaceMessage | None]:
    """Post for a client, who may give the message an id; `more` as in `post`."""
    if message_id is not None and message_id.startswith(OWN_IDS):  # an agent's message, still being written
        raise BadRequest(f"Message ids that begin with '{OWN_IDS}' are made here. Choose another.", param="id")
    return post(message_id or new_id("msg"), space_id=space_id, sender=sender, content=content, **more)


def post(
    message_id: str,
    *,
    space_id: str,
    sender: Sender,
    content: str,
    metadata: Mapping[str, Any] | None = None,
    run_id: str | None = None,
    stream_id: str | None = None,
    hops: int = 0,
    wakes_agents: bool = True,
) -> Script[SpaceMessage | None]:
    """Say something; every agent in the space but the sender finds it in its inbox. None: no such space.

    The same message id again is a retry: the first message stands and is returned, and nothing else happens.
    """
    if ":" in message_id:  # the ids of other inbox events have one, and a message must not take theirs
        raise BadRequest(f"A message's id has no colon, and '{message_id}' has one. Choose another.", param="id")
    space = yield from take_seq(space_id)
    if space is None:
        return None
    values = {
        "message_id": message_id,
        "space_id": space_id,
        "seq": space["last_seq"],
        "entity_id": sender.entity_id,
        "sender_name": sender.name,
        "sender_type": sender.kind,
        "role": ROLES[sender.kind],
        "content": content,
        "metadata": json_text(metadata or {}),
        "run_id": run_id,
        "begun_by": None,
    }
    rows = yield "insert_space_message", values
    if not rows:
        yield "give_seq_back", {"space_id": space_id}
        return (yield from _posted_before(message_id, space_id, sender))
    message = message_from(rows[0])
    data = {"message": message_fields(message)}
    yield from insert_event(space_id, message.seq, "space.message", _of_stream(stream_id) | data)
    if wakes_agents:
        yield from tell_agents(message, space_name=space["name"], hops=hops)
    return message


def _posted_before(message_id: str, space_id: str, sender: Sender) -> Script[SpaceMessage]:
    [row] = yield "get_space_message", {"message_id": message_id}
    if (row["space_id"], row["entity_id"]) != (space_id, sender.entity_id):
        raise Conflict(f"The message id '{message_id}' is another message's. Send another id.", param="id")
    return message_from(row)


def tell_agents(message: SpaceMessage, *, space_name: str, hops: int, event_id: str | None = None) -> Script[list[str]]:
    """Put the message into the inboxes of the space's agents, but for its sender's; which those are."""
    data = {
        "spaceId": message.space_id,
        "spaceName": space_name,
        "messageId": message.id,
        "senderEntityId": message.entity_id,
        "senderName": message.sender_name,
        "senderType": "human" if message.sender_type == "person" else message.sender_type,
        "content": message.content,
        "hops": hops,
    }
    where = {"space_id": message.space_id, "sender": message.entity_id}
    rows = yield "tell_agents", where | {"event_id": event_id or message.id, "data": json_text(data)}
    for row in rows:
        yield wake(INBOX_TOPIC + row["agent"])
    return [row["agent"] for row in rows]


def get_message(message_id: str) -> Script[SpaceMessage | None]:
    row = yield from one("get_space_message", message_id=message_id)
    return None if row is None else message_from(row)


def mark_read(space_id: str, entity_id: str, *, seq: int | None) -> Script[SpaceRead | None]:
    """Somebody has read all up to number `seq`, or all there is. None: no such space."""
    space = yield from one("lock_space", space_id=space_id)
    if space is None:
        return None
    upto = int(space["last_seq"]) if seq is None else min(seq, int(space["last_seq"]))
    newest = yield from messages(space_id, limit=1, before_seq=upto + 1)
    who = {"space_id": space_id, "entity_id": entity_id}
    yield "put_space_read", who | {"last_seq": upto, "last_message": newest[0].id if newest else None}
    row = yield from one("get_space_read", **who)
    return None if row is None else read_from(row)


def reads_in(space_id: str) -> Script[dict[str, SpaceRead]]:
    """How far everybody has read, who ever said so."""
    rows = yield "space_reads_of", {"space_id": space_id}
    return {row["entity_id"]: read_from(row) for row in rows}


def messages(
    space_id: str, *, limit: int = 50, after_seq: int | None = None, before_seq: int | None = None
) -> Script[list[SpaceMessage]]:
    """In their order: the first after `after_seq`, or else the newest, of those before `before_seq`."""
    before = NO_SEQ if before_seq is None else before_seq
    values = {"space_id": space_id, "before_seq": before, "limit": limit}
    if after_seq is None:
        rows = yield "messages_before", values | {"offset": 0}
        return [message_from(row) for row in reversed(rows)]
    rows = yield "messages_after", values | {"after_seq": after_seq}
    return [message_from(row) for row in rows]


def messages_at(space_id: str, *, offset: int, limit: int) -> Script[list[SpaceMessage]]:
    """In their order: `limit` messages, leaving out the newest `offset`."""
    values = {"space_id": space_id, "before_seq": NO_SEQ, "limit": limit, "offset": offset}
    rows = yield "messages_before", values
    return [message_from(row) for row in reversed(rows)]


def count_messages(space_id: str) -> Script[int]:
    [row] = yield "count_messages", {"space_id": space_id}
    return int(row["total"])


def begin_showing(cycle: Cycle, *, call_id: str, space_id: str, tool: str, agent_name: str) -> Script[bool]:
    """The cycle's model has begun to write a visible call. False: fenced, and nothing was written."""
    if not (yield "hold_cycle", {"cycle_id": cycle.id, "epoch": cycle.epoch}):
        return False
    shown = ShownCall(call_id=call_id, tool=tool, run_id=cycle.id, agent=cycle.agent, args=Raw(b"{}"), status="running")
    space = yield from take_seq(space_id)
    if space is None:
        return True
    sender = {"entity_id": cycle.agent, "sender_name": agent_name, "sender_type": "agent", "begun_by": cycle.id}
    if (yield "insert_space_message", _message_of(shown, space_id, space["last_seq"]) | sender):
        yield from insert_event(space_id, space["last_seq"], "tool.started", shown.event)
    else:
        yield "give_seq_back", {"space_id": space_id}
    return True


def show_call(call: Call, *, status: Literal["running", "requires_action"]) -> Script[None]:
    """A visible call with all its arguments, where it is now: its message is there, or is changed to that."""
    space = None if call.space_id is None else (yield from take_seq(call.space_id))
    if call.space_id is None or space is None:
        return
    space_id, shown = call.space_id, shown_call(call, status)
    sender_type = "person" if call.agent is None else "agent"
    sender = {"entity_id": call.agent or call.principal, "sender_name": None, "sender_type": sender_type}
    rows = yield "insert_space_message", _message_of(shown, space_id, space["last_seq"]) | sender | {"begun_by": None}
    if rows:
        yield from insert_event(space_id, space["last_seq"], "tool.started", shown.event)
        space = yield from take_seq(space_id)
        assert space is not None
    else:
        rows = yield "change_space_message", shown.values | {"space_id": space_id}
    if not rows:  # pruned
        yield "give_seq_back", {"space_id": space_id}
        return
    data = {"streamId": call.id, "message": message_fields(message_from(rows[0]))}
    yield from insert_event(space_id, space["last_seq"], "space.message", data)


def status_shown(call: Call) -> Literal["running", "requires_action"]:
    """What an open call's message says: whether somebody is asked to do something."""
    is_asked = call.status is CallStatus.WAITING and call.source == "space"
    return "requires_action" if is_asked or call.status in _ASKED else "running"


_ASKED = frozenset({CallStatus.PENDING, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN})


def show_outcome(call: Call) -> Script[None]:
    """How a visible call ended, in its message and as an event."""
    if call.space_id is None:
        return
    yield from _end_showing(shown_outcome(call), call.space_id)


def drop_unshown(cycle: Cycle) -> Script[None]:
    """Visible calls that the cycle's model had begun to write and that no step holds: nothing will come of them.

    Whoever runs this holds the cycle's row.
    """
    for row in (yield "begun_messages", {"cycle_id": cycle.id}):
        begun = msgspec.json.decode(row["metadata"])
        shown = ShownCall(
            call_id=begun["toolCallId"],
            tool=begun["toolName"],
            run_id=cycle.id,
            agent=cycle.agent,
            args=Raw(b"{}"),
            status="error",
            error=BEGAN_AGAIN,
        )
        yield from _end_showing(shown, row["space_id"])


def drop_unshown_of(cycle: Cycle) -> Script[bool]:
    """The model failed: nothing comes of the calls that it had begun to write. False: fenced."""
    if not (yield "hold_cycle", {"cycle_id": cycle.id, "epoch": cycle.epoch}):
        return False
    yield from drop_unshown(cycle)
    return True


def _end_showing(shown: ShownCall, space_id: str) -> Script[None]:
    space = yield from take_seq(space_id)
    if space is None:
        return
    yield "change_space_message", shown.values | {"space_id": space_id}
    if shown.error is None:
        end, said = "tool.done", {"result": shown.result}
    else:
        end, said = "tool.error", {"error": shown.error}
    yield from insert_event(space_id, space["last_seq"], end, shown.event | said)


def arrive(space_id: str, *, agent: str, run_id: str, agent_name: str | None = None) -> Script[None]:
    """An agent that is a member is at work in a space, from now on; once for each run."""
    space = yield from take_seq(space_id)
    if space is None:
        return
    values = {"space_id": space_id, "agent": agent, "run_id": run_id, "agent_name": agent_name}
    rows = yield "insert_presence", values
    if rows:
        data = {"agentEntityId": agent, "agentName": rows[0]["agent_name"], "runId": run_id}
        yield from insert_event(space_id, space["last_seq"], "agent.active", data)
    else:
        yield "give_seq_back", {"space_id": space_id}


def leave(space_id: str, *, run_id: str) -> Script[None]:
    """The agent that was there in this run is at work there no longer."""
    space = yield from take_seq(space_id)
    if space is None:
        return
    rows = yield "end_presence", {"space_id": space_id, "run_id": run_id}
    if rows:
        data = {"agentEntityId": rows[0]["agent"], "agentName": rows[0]["agent_name"], "runId": run_id}
        yield from insert_event(space_id, space["last_seq"], "agent.inactive", data)
    else:
        yield "give_seq_back", {"space_id": space_id}


def leave_all(run_id: str) -> Script[None]:
    """The run is over, in whichever spaces it was."""
    for row in (yield "presence_of_run", {"run_id": run_id}):
        yield from leave(row["space_id"], run_id=run_id)


def presence_in(space_id: str) -> Script[list[Presence]]:
    """The agents that are at work there, who came first first."""
    rows = yield "presence_in_space", {"space_id": space_id}
    return [presence_from(row) for row in rows]


def put_live(stream: LiveStream) -> Script[None]:
    """How far a stream has come, for the other gateways."""
    yield "put_live", {name: getattr(stream, name) for name in stream.__struct_fields__}
    yield wake(LIVE_TOPIC + stream.space_id)


def drop_live(stream_id: str) -> Script[None]:
    """Nobody has to know of the stream any more."""
    yield "drop_live", {"stream_id": stream_id}


def live_in(space_id: str) -> Script[list[LiveStream]]:
    """What is being said there at gateways that are alive."""
    rows = yield "live_in_space", {"space_id": space_id}
    return [live_from(row) for row in rows]


def take_seq(space_id: str) -> Script[Row | None]:
    """The space's next number, and with it the space's row until the commit. None: no such space."""
    return (yield from one("next_seq", space_id=space_id))


def insert_event(space_id: str, seq: int, type: str, data: Mapping[str, Any]) -> Script[None]:  # noqa: A002 - as above
    yield "insert_space_event", {"space_id": space_id, "seq": seq, "type": type, "data": json_text(data)}
    yield wake(SPACE_TOPIC + space_id)


def _message_of(shown: ShownCall, space_id: str, seq: int) -> dict[str, Any]:
    return shown.values | {"space_id": space_id, "seq": seq, "role": "assistant", "run_id": shown.run_id}


def _of_stream(stream_id: str | None) -> dict[str, str]:
    return {} if stream_id is None else {"streamId": stream_id}
