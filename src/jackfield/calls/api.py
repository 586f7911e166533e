"""The records of calls: one, a page, live; and how to stop one.

Below: the store for what was, the pipeline's events for what happens. Which calls a key sees is
said in `permissions.py`; another's is as if it did not exist.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from jackfield.calls import transactions as call_tx
from jackfield.calls.callbacks import SignedLinks
from jackfield.calls.events import PENDING, STARTED, CallEvent, event_of
from jackfield.calls.permissions import asked_for, may_allow, may_answer, may_see
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.questions import is_question
from jackfield.calls.records import (
    BRIEF,
    CallPage,
    CallRecord,
    OneCall,
    brief,
    call_record,
    event_record,
    shown_outcome,
)
from jackfield.calls.rows import MOST_IDS, CallFilter, call_page, call_window, result_page
from jackfield.calls.timeline import timeline_of
from jackfield.catalog.catalog import Catalog
from jackfield.catalog.resources import LONGEST_ON_RECORD
from jackfield.errors import BadRequest, CallNotFound, Conflict
from jackfield.http.bodies import ClientGone
from jackfield.http.json_lines import LINES_MEDIA, JsonLines
from jackfield.http.request import Name, Request, When, time_in
from jackfield.http.response import Response, encode, json_response
from jackfield.http.routing import SEES_CALLS, SSE_MEDIA, ResponseSpec, Route
from jackfield.http.sse import CONNECTED, Comment, EventMessage, EventStream
from jackfield.http.streams import stop
from jackfield.model.call import Call, CallStatus
from jackfield.model.principal import Principal, Scope
from jackfield.model.tool import CALLER, CallKind, JsonSchema
from jackfield.protocol.large_results import SMALLEST_PAGE, ResultPage
from jackfield.store import Store

_MEANINGS = {status.value: (status,) for status in CallStatus} | {
    "resolved": (CallStatus.COMPLETED, CallStatus.FAILED),  # seed 003's word
}
_STATUSES = tuple(_MEANINGS)
_OPEN = tuple(status for status in CallStatus if not status.is_final)
_ANSWERABLE = (CallStatus.WAITING, CallStatus.PENDING)
_WAITS = (*_ANSWERABLE, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN)
PAGE = 500
EXPORT_PAGE = 200
SEARCH_SECONDS = 1.0
"""How long a page is looked for, whatever is on record."""
LONGEST_ID = 64
_ID = f"[A-Za-z0-9_]{{1,{LONGEST_ID - 1}}}"
LONGEST_WAIT = 60
Statuses = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description=f"One status or several, separated by commas: {', '.join(_STATUSES)}",
        extra_json_schema={"pattern": f"^({'|'.join(_STATUSES)})(,({'|'.join(_STATUSES)}))*$"},
    ),
]


ToolOrUri = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_ON_RECORD,
        pattern="^[^\\u0000-\\u001f\\u007f]+(?![\\s\\S])",
        description="A tool's or prompt's name, or the URI of a resource",
    ),
]


Text = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        pattern="^[^\\u0000-\\u001f\\u007f]+(?![\\s\\S])",
        description="Only calls with this text in the tool's name, the arguments, the result or the error",
    ),
]


class ExportQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls to show."""

    status: Statuses | None = None
    tool: ToolOrUri | None = None
    kind: CallKind | None = None
    agent: Name | None = None
    run_id: Name | None = None
    principal: Annotated[Name, Meta(description="Who made the calls, as the records say it")] | None = None
    source: Name | None = None
    since: Annotated[When, Meta(description="Made then or later, ISO 8601")] | None = None
    until: Annotated[When, Meta(description="Made before then, ISO 8601")] | None = None
    q: Text | None = None
    id: (
        Annotated[
            str,
            Meta(
                max_length=MOST_IDS * LONGEST_ID,
                pattern=f"^{_ID}(,{_ID}){{0,{MOST_IDS - 1}}}(?![\\s\\S])",
                description=f"Only these calls: up to {MOST_IDS} ids, separated by commas",
            ),
        ]
        | None
    ) = None


class CallsQuery(ExportQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls to show, and how many."""

    limit: Annotated[int, Meta(ge=1, le=PAGE, description="How many calls at most")] = 50
    cursor: Annotated[Name, Meta(description="The `next_cursor` of the page before")] | None = None
    brief: Annotated[
        bool, Meta(description=f"Leave out arguments and results of more than {BRIEF} bytes; `left_out` names them")
    ] = False


class OneCallQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for its end."""

    wait: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT, description="Respond when the call is settled, or after this many seconds")
    ] = 0


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which calls to follow. With a status, those that are in it now come first; `pending` means all that wait."""

    status: Statuses | None = None
    tool: Name | None = None
    agent: Name | None = None
    source: Name | None = None
    principal: Annotated[Name, Meta(description="Who made the calls, as the records say it")] | None = None
    run_id: Name | None = None


class CallsApi:
    """Handlers of the records of calls."""

    def __init__(
        self, pipeline: Pipeline, *, store: Store, catalog: Catalog, links: SignedLinks, four_eyes: Callable[[], bool]
    ) -> None:
        self._pipeline = pipeline
        self._store = store
        self._catalog = catalog
        self._links = links
        self._four_eyes = four_eyes

    async def list_calls(self, request: Request) -> Response:
        """A page of records, newest first. A search over many calls ends after a while; the next page goes on."""
        wanted = request.query(CallsQuery)
        found = visible_to(request.principal, _filter(wanted))
        until = asyncio.get_running_loop().time() + SEARCH_SECONDS
        calls: list[Call] = []
        cursor = wanted.cursor
        while True:
            page = await self._store.read(partial(call_window, found, limit=wanted.limit - len(calls), cursor=cursor))
            calls += page.calls
            cursor = page.next_cursor
            if cursor is None or len(calls) >= wanted.limit or asyncio.get_running_loop().time() > until:
                break
        shown = [self.record_for(request, call) for call in calls if may_see(request.principal, call)]
        return json_response(
            CallPage(calls=[brief(record) for record in shown] if wanted.brief else shown, next_cursor=cursor)
        )

    async def export_calls(self, request: Request) -> Response:
        """Every record, newest first, a line each, without links that answer the call."""
        wanted = visible_to(request.principal, _filter(request.query(ExportQuery)))
        pieces = self._lines(request.principal, wanted)
        return JsonLines(pieces, streams=request.streams, filename="calls.jsonl")

    async def _lines(self, principal: Principal, wanted: CallFilter) -> AsyncGenerator[bytes]:
        cursor: str | None = None
        while True:
            page = await self._store.read(partial(call_window, wanted, limit=EXPORT_PAGE, cursor=cursor))
            if lines := [encode(call_record(call)) + b"\n" for call in page.calls if may_see(principal, call)]:
                yield b"".join(lines)
            cursor = page.next_cursor
            if cursor is None:
                return

    async def show_call(self, request: Request) -> Response:
        """One record, at once or when the call is settled."""
        seconds = request.query(OneCallQuery).wait
        call = await self.visible_call(request)
        if seconds and not call.status.is_final:
            call = await self._settled(request, call, seconds=seconds)
        if call.login is not None and asked_for(request.principal, call):
            await self._pipeline.collected(call)
        arrival = await self._store.read(partial(call_tx.arrival_of, call))
        record = msgspec.structs.replace(self.record_for(request, call), timeline=timeline_of(call, arrival))
        if request.principal.is_admin and call.status is CallStatus.FAILED:
            trace = await self._store.read(partial(call_tx.trace_of, call.id))
            record = msgspec.structs.replace(record, trace=trace)
            if call.is_withheld:
                withheld = await self._store.read(partial(call_tx.withheld_outcome, call.id))
                record = msgspec.structs.replace(record, result=None if withheld is None else shown_outcome(withheld))
        return json_response(OneCall(call=record))

    async def show_result(self, request: Request) -> Response:
        """A page of the result of a settled call."""
        wanted = request.query(ResultQuery)
        call = await self.visible_call(request)
        if not call.status.is_final:
            raise Conflict(
                f"Call '{call.id}' is {call.status.value} and has no result yet. GET /api/v1/calls/{call.id}?wait=60 "
                "answers when it has."
            )
        page = await result_page(self._store, call, offset=wanted.offset, limit=wanted.limit)
        if page.offset > page.size:
            raise BadRequest(
                f"The result of call '{call.id}' has {page.size} bytes; there is nothing at {page.offset}. "
                "Begin with 0 and go on with each page's 'next_offset'.",
                param="offset",
            )
        return json_response(page)

    async def visible_call(self, request: Request) -> Call:
        """The call that the path names, if this key may see it."""
        call_id = request.part("id")
        call = await self._store.read(partial(call_tx.get_call, call_id))
        if call is None or not may_see(request.principal, call):
            raise CallNotFound(f"There is no call '{call_id[:100]}' that you may see. GET /api/v1/calls lists yours.")
        return call

    async def cancel_call(self, request: Request) -> Response:
        """Stop a call that is not final. Whoever made it may also name it by the Idempotency-Key it came with."""
        principal, named = request.principal, request.part("id")
        try:
            call = await self._pipeline.cancel(named, principal=principal)
        except CallNotFound:
            call_id = await self._store.read(partial(call_tx.call_under_key, principal.name, named))
            if call_id is None:
                raise
            call = await self._pipeline.cancel(call_id, principal=principal)
        return self.one_call(request, call)

    async def follow_calls(self, request: Request) -> Response:
        """What waits or runs now, if a status is asked for, then what happens to calls."""
        wanted = request.query(StreamQuery)
        statuses = parse_statuses(wanted.status)
        if CallStatus.PENDING in statuses:
            statuses = tuple(dict.fromkeys((*statuses, *_WAITS)))
        return EventStream(self._messages(request, wanted, statuses), streams=request.streams)

    def one_call(self, request: Request, call: Call) -> Response:
        """A call in its envelope."""
        return json_response(OneCall(call=self.record_for(request, call)))

    def record_for(self, request: Request, call: Call) -> CallRecord:
        """The record as this key may see it: who may not answer the call is not shown the url that does."""
        if call.is_parked and not is_question(call):
            return msgspec.structs.replace(call_record(call), waits_for="question")
        if call.status in _ANSWERABLE and may_answer(request.principal, call):
            record = call_record(call, callback_url=self._links.url_for(call.id, purpose="callback"))
            return msgspec.structs.replace(record, answer_schema=answer_schema(self._catalog, call))
        if call.status is CallStatus.PENDING_LOGIN:
            login_url = self._pipeline.login_url(call, principal=request.principal)
            return msgspec.structs.replace(call_record(call), login_url=login_url)
        if call.status is CallStatus.PENDING_APPROVAL and may_allow(request.principal, call):
            record = call_record(call)
            if self._four_eyes() and asked_for(request.principal, call):
                return record
            return msgspec.structs.replace(record, approval_url=self._links.url_for(call.id, purpose="approval"))
        return call_record(call)

    async def _settled(self, request: Request, call: Call, *, seconds: float) -> Call:
        """The call when it is settled, or as it is after `seconds` or when the gateway stops."""
        waiting = asyncio.ensure_future(self._pipeline.wait(call.id, seconds=seconds))
        gone = request.streams.watch(request.receive)
        try:
            await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            if gone.cancelled():
                return call
            raise ClientGone
        finally:
            await stop(waiting)
            await request.streams.release(gone)

    async def _messages(
        self, request: Request, wanted: StreamQuery, statuses: tuple[CallStatus, ...]
    ) -> AsyncGenerator[EventMessage | Comment]:
        """Events of calls in the wanted statuses, and the one that says that such a call has left them.

        It ends when any may have been missed: a client that comes back is shown what is there now, with a status, or
        reads the records.
        """
        shown: dict[str, CallStatus] = {}
        async with self._pipeline.events.follow(None, unbroken=True) as events:
            yield CONNECTED
            async for event in self._there_now(request, wanted, statuses):
                shown[event.call_id] = event.status
                yield self._message(request, event)
            async for event in events:
                if not (may_see(request.principal, event) and _is_wanted(event, wanted)):
                    continue
                if event.type == PENDING and shown.get(event.call_id) is event.status:
                    continue  # it came with those that were there
                matches = not statuses or event.status in statuses
                if matches or event.call_id in shown:
                    yield self._message(request, event)
                if matches and not event.status.is_final:
                    shown[event.call_id] = event.status
                else:
                    shown.pop(event.call_id, None)

    def _message(self, request: Request, event: CallEvent) -> EventMessage:
        login_url = self._pipeline.login_url_in(event, principal=request.principal)
        return EventMessage(event=event.type, data=event_record(event, login_url=login_url))

    async def _there_now(
        self, request: Request, wanted: StreamQuery, statuses: tuple[CallStatus, ...]
    ) -> AsyncGenerator[CallEvent]:
        """The calls that are in the wanted statuses and may leave them, newest first."""
        now = tuple(status for status in statuses if status in _OPEN)
        cursor: str | None = None
        while now:
            found = visible_to(
                request.principal,
                CallFilter(
                    status=now,
                    tool=wanted.tool,
                    agent=wanted.agent,
                    source=wanted.source,
                    made_by=wanted.principal,
                    run_id=wanted.run_id,
                ),
            )
            page = await self._store.read(partial(call_page, found, limit=PAGE, cursor=cursor))
            for call in page.calls:
                if may_see(request.principal, call):
                    kind = STARTED if call.status is CallStatus.RUNNING else PENDING
                    yield event_of(kind, call, at=call.created_at)
            cursor = page.next_cursor
            if cursor is None:
                return


def answer_schema(catalog: Catalog, call: Call) -> JsonSchema | None:
    """What the tool promises its results to be. A caller's own tool promises nothing to us."""
    entry = None if call.source == CALLER else catalog.entry(call.tool, source=call.source)
    return None if entry is None else entry.tool.output_schema


def visible_to(principal: Principal, wanted: CallFilter) -> CallFilter:
    """`may_see` as far as a database can say it; what comes back is asked again."""
    if principal.is_admin:
        return wanted
    others = ("*",) if principal.may(Scope.ANSWER) else principal.named("worker")
    return msgspec.structs.replace(wanted, principal=principal.name, or_for_others_of=others)


def _filter(query: ExportQuery) -> CallFilter:
    return CallFilter(
        status=parse_statuses(query.status),
        tool=query.tool,
        agent=query.agent,
        run_id=query.run_id,
        kind=query.kind,
        made_by=query.principal,
        source=query.source,
        since=time_in(query.since, param="since"),
        until=time_in(query.until, param="until"),
        text=query.q,
        ids=() if query.id is None else tuple(query.id.split(",")),
    )


def parse_statuses(text: str | None) -> tuple[CallStatus, ...]:
    """`pending,running` as statuses; an unknown word is refused with the known ones."""
    words = [] if text is None else text.split(",")
    for word in words:
        if word not in _STATUSES:
            raise BadRequest(f"'{word[:50]}' is not a call status. Known: {', '.join(_STATUSES)}.", param="status")
    return tuple(dict.fromkeys(status for word in words for status in _MEANINGS[word]))


def _is_wanted(event: CallEvent, wanted: StreamQuery) -> bool:
    return (
        wanted.tool in (None, event.tool)
        and wanted.agent in (None, event.agent)
        and wanted.source in (None, event.source)
        and wanted.principal in (None, event.principal)
        and wanted.run_id in (None, event.run_id)
    )


PAGE_BYTES = 100_000
LARGEST_PAGE = 1_000_000
MOST_BYTES = 1_000_000_000
"""No result is larger: no database takes more in one piece."""


class ResultQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which piece of the result's JSON text, in bytes of UTF-8. Pages begin and end between characters."""

    offset: Annotated[
        int, Meta(ge=0, le=MOST_BYTES, description="Where to begin: the `next_offset` of the page before")
    ] = 0
    limit: Annotated[int, Meta(ge=SMALLEST_PAGE, le=LARGEST_PAGE, description="How many bytes of the text at most")] = (
        PAGE_BYTES
    )


def routes(api: CallsApi) -> list[Route]:
    """Every route of the records of calls."""
    return [
        Route(
            method="GET",
            path="/api/v1/calls",
            handler=api.list_calls,
            scope=SEES_CALLS,
            tag="Calls",
            summary="The records of calls, newest first",
            query=CallsQuery,
            responses={200: ResponseSpec(description="A page of records", type=CallPage)},
        ),
        Route(
            method="GET",
            path="/api/v1/calls/stream",
            handler=api.follow_calls,
            scope=SEES_CALLS,
            tag="Calls",
            summary="What happens to calls, live",
            query=StreamQuery,
            responses={200: ResponseSpec(description="One event per change of a call", media=SSE_MEDIA)},
        ),
        Route(
            method="GET",
            path="/api/v1/calls/export",
            handler=api.export_calls,
            scope=SEES_CALLS,
            tag="Calls",
            summary="The records of calls as JSON lines, newest first",
            query=ExportQuery,
            responses={200: ResponseSpec(description="A line per record", media=LINES_MEDIA)},
        ),
        Route(
            method="GET",
            path="/api/v1/calls/{id}",
            handler=api.show_call,
            scope=SEES_CALLS,
            tag="Calls",
            summary="The record of one call, at once or when it is settled",
            query=OneCallQuery,
            responses={200: ResponseSpec(description="The record", type=OneCall)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/api/v1/calls/{id}/result",
            handler=api.show_result,
            scope=SEES_CALLS,
            tag="Calls",
            summary="The result of a settled call as JSON text, page by page: for results too large for the record",
            query=ResultQuery,
            responses={
                200: ResponseSpec(
                    description="A page; joined, they are the text that the digest is of", type=ResultPage
                )
            },
            errors=(404, 409),
        ),
        Route(
            method="POST",
            path="/api/v1/calls/{id}/cancel",
            handler=api.cancel_call,
            scope=Scope.CALL,
            tag="Calls",
            summary="Stop a call",
            responses={200: ResponseSpec(description="The record of the stopped call", type=OneCall)},
            errors=(404, 409),
        ),
    ]
