"""Messages that their authors edit, and messages that agents are told of once more, as scripts.

Above: `edits_api.py`. Below: the transactions of spaces. An edited message keeps its number and its place; what it said
before stays on record. Whoever follows the space is told of it as of a visible call that changes: by the whole message
again. An agent that has not read it yet will read the new text; one that has is not woken.
"""

from typing import Any

import msgspec

from jackfield.errors import Conflict, Forbidden
from jackfield.model.ids import new_id
from jackfield.model.space import SpaceMessage, message_fields
from jackfield.spaces.rows import json_text, message_from
from jackfield.spaces.transactions import get_space, insert_event, take_seq, tell_agents
from jackfield.store.scripts import Row, Script, one

MOST_EARLIER = 20
"""Earlier texts that are kept of one message: the first, and the newest."""


def edit_message(space_id: str, message_id: str, *, author: str, content: str) -> Script[SpaceMessage | None]:
    """The message says something else. None: there is no such message in this space."""
    space = yield from take_seq(space_id)
    row = None if space is None else (yield from one("message_to_edit", message_id=message_id))
    if space is None or row is None or row["space_id"] != space_id:
        if space is not None:
            yield "give_seq_back", {"space_id": space_id}
        return None
    _check_may_edit(row, author)
    if row["content"] == content:
        yield "give_seq_back", {"space_id": space_id}
        return message_from(row)
    earlier = _with_text(row, until=row["now"])
    ids = {"message_id": message_id, "space_id": space_id}
    [changed] = yield "edit_space_message", ids | {"content": content, "earlier": json_text(earlier)}
    message = message_from(changed)
    yield from insert_event(space_id, space["last_seq"], "space.message", {"message": message_fields(message)})
    for unread in (yield "unread_of_message", {"message_id": message_id}):
        data = msgspec.json.decode(unread["data"]) | {"content": content}
        change = {"agent": unread["agent"], "message_id": message_id, "data": json_text(data)}
        yield "change_unread", change
    return message


def earlier_texts(message_id: str) -> Script[list[dict[str, Any]]]:
    """What the message said before, the oldest first: `content`, and `until` in milliseconds."""
    row = yield from one("get_space_message", message_id=message_id)
    return [] if row is None else _earlier(row)


def tell_again(message: SpaceMessage) -> Script[list[str]]:
    """The space's agents find the message in their inboxes once more; which those are."""
    space = yield from get_space(message.space_id)
    if space is None:
        return []
    return (yield from tell_agents(message, space_name=space.name, hops=0, event_id=f"again:{new_id('msg')}"))


def _check_may_edit(row: Row, author: str) -> None:
    if msgspec.json.decode(row["metadata"]).get("type") == "tool_call":
        raise Conflict("This message shows a tool's call, which cannot be edited. Call the tool again instead.")
    if row["entity_id"] != author:
        raise Forbidden(f"'{row['entity_id']}' said this, and nobody else edits it. Say something of your own instead.")


def _with_text(row: Row, *, until: int) -> list[dict[str, Any]]:
    known = [*_earlier(row), {"content": row["content"], "until": until}]
    return known if len(known) <= MOST_EARLIER else [known[0], *known[-MOST_EARLIER + 1 :]]


def _earlier(row: Row) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.json.decode(row["earlier"] or "[]")
    return found
