"""The records of calls: one, a page, live; and how to stop one.

Above: `routes.py`. Below: the store for what was, the pipeline's events for what happens. A key without `admin` sees
its own calls only, and another's is as if it did not exist.
"""

from collections.abc import AsyncGenerator
from typing import Annotated

from msgspec import Meta, Struct

from jackfield.calls.events import CallEvent
from jackfield.errors import BadRequest, CallNotFound
from jackfield.model.call import Call, CallStatus
from jackfield.model.principal import Principal
from jackfield.store import CallFilter
from jackfield.web.answers import Answer, json_reply
from jackfield.web.records import CallPage, OneCall, call_record, event_record
from jackfield.web.sse import CONNECTED, Comment, EventStream, Message
from jackfield.web.visit import Name, Visit

_STATUSES = tuple(status.value for status in CallStatus)
Statuses = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description=f"One status or several, separated by commas: {', '.join(_STATUSES)}",
        extra_json_schema={"pattern": f"^({'|'.join(_STATUSES)})(,({'|'.join(_STATUSES)}))*$"},
    ),
]


class CallsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls to show."""

    status: Statuses | None = None
    tool: Name | None = None
    agent: Name | None = None
    run_id: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=500, description="How many calls at most")] = 50
    cursor: Annotated[Name, Meta(description="The `next_cursor` of the page before")] | None = None


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls to follow."""

    status: Statuses | None = None
    tool: Name | None = None
    agent: Name | None = None


async def list_calls(visit: Visit) -> Answer:
    """A page of records, newest first."""
    wanted = visit.query(CallsQuery)
    page = await visit.gateway.store.list_calls(
        CallFilter(
            status=parse_statuses(wanted.status),
            tool=wanted.tool,
            agent=wanted.agent,
            run_id=wanted.run_id,
            principal=None if visit.principal.is_admin else visit.principal.name,
        ),
        limit=wanted.limit,
        cursor=wanted.cursor,
    )
    return json_reply(CallPage(calls=[call_record(call) for call in page.calls], next_cursor=page.next_cursor))


async def show_call(visit: Visit) -> Answer:
    """One record."""
    call_id = visit.part("id")
    call = await visit.gateway.store.get_call(call_id)
    if call is None or not may_see(visit.principal, call.principal):
        raise CallNotFound(f"There is no call '{call_id[:100]}' that you may see. GET /api/v1/calls lists yours.")
    return json_reply(OneCall(call=call_record(call)))


async def cancel_call(visit: Visit) -> Answer:
    """Stop a call that is not final."""
    call: Call = await visit.gateway.pipeline.cancel(visit.part("id"), principal=visit.principal)
    return json_reply(OneCall(call=call_record(call)))


async def follow_calls(visit: Visit) -> Answer:
    """What happens to calls from now on."""
    wanted = visit.query(StreamQuery)
    messages = _messages(visit, wanted, parse_statuses(wanted.status))
    return EventStream(messages, streams=visit.reception.streams)


async def _messages(
    visit: Visit, wanted: StreamQuery, statuses: tuple[CallStatus, ...]
) -> AsyncGenerator[Message | Comment]:
    """Events of calls in the wanted statuses, and the one that says that such a call has left them."""
    shown: set[str] = set()
    async with visit.gateway.pipeline.events.follow(None) as events:
        yield CONNECTED
        async for event in events:
            if not (may_see(visit.principal, event.principal) and _is_wanted(event, wanted)):
                continue
            matches = not statuses or event.status in statuses
            if matches or event.call_id in shown:
                yield Message(event=event.type, data=event_record(event))
            if matches and not event.status.is_final:
                shown.add(event.call_id)
            else:
                shown.discard(event.call_id)


def parse_statuses(text: str | None) -> tuple[CallStatus, ...]:
    """`pending,running` as statuses; an unknown word is refused with the known ones."""
    words = [] if text is None else text.split(",")
    for word in words:
        if word not in _STATUSES:
            raise BadRequest(f"'{word[:50]}' is no status of a call. Known: {', '.join(_STATUSES)}.", param="status")
    return tuple(CallStatus(word) for word in dict.fromkeys(words))


def may_see(principal: Principal, owner: str) -> bool:
    return principal.is_admin or principal.name == owner


def _is_wanted(event: CallEvent, wanted: StreamQuery) -> bool:
    return wanted.tool in (None, event.tool) and wanted.agent in (None, event.agent)
