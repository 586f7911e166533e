"""Every response this gateway knows, running or stored, and who may see it.

Above: `api.py` and `socket.py`. Below: `run.py` and `transactions.py`. A background response whose gateway died goes on
at another one, or at the next; any other is failed as `interrupted` by its next reader.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.pipeline import Pipeline
from jackfield.errors import BadRequest, Conflict, Forbidden, PreviousResponseNotFound, Refused, ResponseNotFound
from jackfield.http.sse import EventMessage
from jackfield.http.streams import Streams
from jackfield.model.ids import new_id
from jackfield.model.items import Item, ToolSearchOutput, decode_items
from jackfield.model.principal import Principal, Scope
from jackfield.model.response_request import CreateResponse, EventNames, RequestTool
from jackfield.responses import transactions as response_tx
from jackfield.responses.background import BackgroundResponses, TakenUp, now, reopened
from jackfield.responses.input import check_answers, opened, resolve_references, unknown_references
from jackfield.responses.journal import (
    JournalWriter,
    kept_request,
    may_be_kept,
    read_kept,
    resumption,
    rights_of,
)
from jackfield.responses.position import position_after
from jackfield.responses.request import read_request
from jackfield.responses.resource import ResponseResource, decode_resource, new_resource
from jackfield.responses.run import Responder, RunningResponse, is_whole
from jackfield.responses.storage import (
    Owner,
    ResponseRow,
    RowWriter,
    UnstoredWriter,
    chunk_of,
    end_orphan,
    events_after,
)
from jackfield.responses.tools import loaded_tools
from jackfield.responses.transactions import StoredResponse, stop_topic
from jackfield.responses.wire import TERMINAL
from jackfield.responses.writer import EventWriter
from jackfield.runs import transactions as run_tx
from jackfield.settings import ResponsesSettings
from jackfield.store import Store

_ADMIN = Principal(name="admin", scopes=frozenset({Scope.ADMIN.value}))

IN_PROGRESS = "response.in_progress"
STOPS_WITHIN = 5.0
"""Seconds that a cancel waits for the response to have ended."""
MOST_LOOKED_FOR = 200
"""Responses that one request's references are looked for in."""
LOOK_AGAIN = 5.0
"""Seconds after which a reader looks whether the gateway it reads from is still there."""


class VisibleResponse(Struct, frozen=True, kw_only=True):
    """A response that the key may see."""

    resource: ResponseResource
    input: tuple[Item, ...]
    is_background: bool
    is_kept: bool
    is_finished: bool


class ResponseService:
    """Starts, finds, continues, cancels and deletes responses."""

    def __init__(
        self,
        *,
        store: Store,
        engine: Responder,
        gateway_id: str,
        streams: Streams,
        settings: ResponsesSettings,
        find_principal: Callable[[str], Awaitable[Principal | None]],
        pipeline: Pipeline,
        sources_listed: asyncio.Event,
    ) -> None:
        self._store = store
        self._engine = engine
        self._gateway_id = gateway_id
        self._streams = streams
        self._find_principal = find_principal
        self._pipeline = pipeline
        self._live: dict[str, RunningResponse] = {}
        self.background = BackgroundResponses(
            store=store,
            gateway_id=gateway_id,
            keep=streams.keep,
            go_on=self._go_on,
            cancel_calls=self._cancel_calls,
            is_closing=lambda: streams.is_closing,
            sources_listed=sources_listed,
            most=settings.max_background,
        )
        self.apply(settings)
        store.bus.on_foreign(self._hear)

    def apply(self, settings: ResponsesSettings) -> None:
        """Responses that begin from now on follow these settings."""
        self._event_names: EventNames = settings.event_names
        self._longest = settings.timeout
        self.background.most = settings.max_background

    async def begin(
        self,
        request: CreateResponse,
        *,
        principal: Principal,
        earlier: "Sequence[Item] | None" = None,
        body: Mapping[str, Any] | None = None,
    ) -> RunningResponse:
        """Start a response. `earlier` is the conversation so far, if the caller has it; else it is read from the store.

        With `body`, the request as it came, another gateway can go on with it if this one dies.
        Raises for what is wrong with the conversation; for the rest see `RunningResponse.begun`.
        """
        request, history = await self._with_history(request, principal, earlier)
        resource, request = await self._prepared(request, principal)
        await self._end_parked(request, principal, history)
        storage = self._storage_for(request, principal, body)
        request = msgspec.structs.replace(request, tools=_with_found_tools(request, history))
        return self._start(RunningResponse(request, resource, principal=principal, history=history, storage=storage))

    async def begin_in_background(
        self, request: CreateResponse, *, principal: Principal, body: Mapping[str, Any]
    ) -> RunningResponse | ResponseResource:
        """The same for one that nobody waits for. Where as many are at work here as may be, it waits for its turn.

        One that brings credentials is not kept until then: it starts at once.
        """
        if self.background.takes_new or not may_be_kept(request):
            with self.background.place():
                run = await self.begin(request, principal=principal, body=body)
                self.background.hold(run)
            return run
        request, history = await self._with_history(request, principal, None)
        resource, request = await self._prepared(request, principal)
        await self._engine.check(request, principal=principal, history=opened(history))
        await self._end_parked(request, principal, history)
        writer = EventWriter(resource, now=now)
        chunk = chunk_of(writer.queued())
        assert chunk is not None
        kept = kept_request(body, request, principal)
        row = self._row(request, principal).stored(resource)
        await self._store.write(partial(response_tx.queue_response, row, request=kept, chunk=chunk))
        return resource

    async def _prepared(self, request: CreateResponse, principal: Principal) -> tuple[ResponseResource, CreateResponse]:
        """The response as it is before it begins, and its request with all that was left open."""
        response_id = new_id("resp")
        request = await self._engine.with_resources(request, response_id=response_id, principal=principal)
        status = "queued" if request.background else "in_progress"
        resource = new_resource(request, id=response_id, created_at=now(), status=status)
        names = request.event_names or self._event_names
        return resource, msgspec.structs.replace(request, event_names=names)

    def _start(self, run: RunningResponse) -> RunningResponse:
        self._live[run.id] = run
        run.start(self._engine, self._streams.keep)
        run.task.add_done_callback(lambda _: self._let_go(run))
        return run

    def _let_go(self, run: RunningResponse) -> None:
        self._live.pop(run.id, None)
        if (unwritten := run.unwritten) is not None:
            self.background.write_later(run.id, unwritten)

    async def sweep(self) -> None:
        """Go on with what nobody has in hand."""
        await self.background.sweep()

    async def _go_on(self, taken: TakenUp) -> RunningResponse:
        """Start a response again from its journal. Raises where it must not go on."""
        run, stored = taken.response.run, taken.response.stored
        assert run.request is not None
        kept = read_kept(run.request)
        principal = await self._find_principal(stored.principal)
        if principal is None or rights_of(principal) != kept.rights:
            raise Forbidden("Its key has other rights now, so the response did not go on.")
        request = read_request({**kept.body, "input": ""}, event_names=kept.event_names)
        request = msgspec.structs.replace(request, input=decode_items(stored.input), background=True)
        history = await self._history(request, principal)
        row = self._row(request, principal)
        return self._start(
            RunningResponse(
                msgspec.structs.replace(request, tools=_with_found_tools(request, history)),
                decode_resource(stored.resource),
                principal=principal,
                history=history,
                storage=JournalWriter(self._store, row, run=run, next_event=len(taken.frames)),
                resumption=resumption(taken.response.steps, taken.frames),
            )
        )

    async def resume(self, response_id: str, principal: Principal) -> ResponseResource:
        """Go on with a response that failed, in the background. Raises `Conflict` if it did not fail."""
        stored = await self._stored(response_id, principal)
        script = partial(response_tx.resume, response_id, reopened=reopened)
        if await self._store.write(script) is None:
            what = f"has the status '{stored.status}'"
            if stored.status == "failed":
                what = "was not kept step by step: its request brought credentials, or it was made before an upgrade"
            raise Conflict(f"Response '{response_id}' {what}. Only a response that failed can be resumed.")
        return (await self.find(response_id, principal)).resource

    async def measure(self, request: CreateResponse, *, principal: Principal) -> int:
        """About how many tokens the model would be given to read. Raises whatever making the response would."""
        request, history = await self._with_history(request, principal, None)
        request = await self._engine.with_resources(request, response_id=new_id("resp"), principal=principal)
        tools = _with_found_tools(request, history)
        asked = msgspec.structs.replace(request, input=opened(request.input), tools=tools)
        return await self._engine.measure(asked, principal=principal, history=opened(history))

    async def _with_history(
        self, request: CreateResponse, principal: Principal, earlier: "Sequence[Item] | None"
    ) -> tuple[CreateResponse, tuple[Item, ...]]:
        """Resolve references and load the history; raise for items that do not fit."""
        history = tuple(earlier) if earlier is not None else await self._history(request, principal)
        stored = await self._stored_items(unknown_references(history, request.input), principal)
        request = msgspec.structs.replace(request, input=resolve_references(history, request.input, kept=stored))
        check_answers(history, request.input)
        return request, history

    async def find(self, response_id: str, principal: Principal) -> VisibleResponse:
        """The response as it is now; raises `ResponseNotFound`."""
        run = self._live.get(response_id)
        if run is not None and run.begun.done() and _may_see(principal, run.principal.name):
            request = run.request
            return VisibleResponse(
                resource=run.resource,
                input=request.input,
                is_background=request.background,
                is_kept=request.store,
                is_finished=run.has_ended,
            )
        stored = await self._stored(response_id, principal)
        resource = decode_resource(stored.resource)
        output = decode_items(stored.output)
        if not stored.is_finished:
            frames = [frame async for frame in events_after(self._store, response_id, -1)]
            output = position_after(frames).output
            if any(frame.type == IN_PROGRESS for frame in frames):
                resource = msgspec.structs.replace(resource, status="in_progress")
        return VisibleResponse(
            resource=msgspec.structs.replace(resource, output=output),
            input=decode_items(stored.input),
            is_background=stored.is_background,
            is_kept=True,
            is_finished=stored.is_finished,
        )

    async def cancel(self, response_id: str, principal: Principal) -> ResponseResource:
        """Cancel a response, here or at another gateway, and return it. A finished one is returned as it is."""
        found = await self.find(response_id, principal)
        run = self._live.get(response_id)
        if run is not None:
            run.cancel()
            await asyncio.wait((run.task,), timeout=STOPS_WITHIN)
        if run is None or not run.has_ended:
            if not found.is_finished:
                await self._stop_elsewhere(response_id)
            resource = (await self.find(response_id, principal)).resource
        else:
            resource = run.resource
        if resource.status == "cancelled" and not found.is_finished:
            await self._cancel_calls(response_id)
        return resource

    async def _cancel_calls(self, response_id: str) -> None:
        """Those of a response that is cancelled."""
        for call_id in await self._store.read(partial(run_tx.open_calls, response_id)):
            with suppress(Refused):
                await self._pipeline.cancel(call_id, principal=_ADMIN)

    async def delete(self, response_id: str, principal: Principal) -> None:
        """Delete a response; a running one is cancelled first."""
        found = await self.find(response_id, principal)
        if not found.is_finished:
            await self.cancel(response_id, principal)
        await self._store.write(partial(response_tx.delete_response, response_id))

    async def replay(self, response_id: str, principal: Principal, *, after: int) -> AsyncGenerator[EventMessage]:
        """Replay the stored stream of a background response after event `after`, to its end."""
        stored = await self._stored(response_id, principal)
        if not stored.is_background:
            raise BadRequest(
                f"Response '{response_id}' was not made in the background, so its stream was not kept. Leave out "
                "'stream', or make it with 'background': true.",
                param="stream",
            )
        return self._replayed(response_id, after)

    async def _replayed(self, response_id: str, after: int) -> AsyncGenerator[EventMessage]:
        with self._store.bus.listen(response_id) as written:
            while True:
                written.clear()
                stored = await self._read(response_id)
                async for event in events_after(self._store, response_id, after):
                    yield EventMessage(event=event.type, data=Raw(event.data))
                    after = event.sequence_number
                    if event.type in TERMINAL:
                        yield EventMessage(data=Raw(b"[DONE]"))
                        return
                if stored is None or stored.is_finished:
                    return
                await _within(written, LOOK_AGAIN)

    def _storage_for(
        self, request: CreateResponse, principal: Principal, body: Mapping[str, Any] | None
    ) -> UnstoredWriter | RowWriter | JournalWriter:
        if not request.store:
            return UnstoredWriter(now)
        row = self._row(request, principal)
        if body is not None and may_be_kept(request):
            return JournalWriter(self._store, row, request=kept_request(body, request, principal))
        return RowWriter(self._store, row)

    def _row(self, request: CreateResponse, principal: Principal) -> ResponseRow:
        return ResponseRow(request, owner=Owner(principal=principal.name, gateway=self._gateway_id), now=now)

    async def _history(self, request: CreateResponse, principal: Principal) -> tuple[Item, ...]:
        """The conversation so far, from its first turn."""
        previous = request.previous_response_id
        if previous is None:
            return ()
        stored = await self._read(previous)
        if stored is None or not _may_see(principal, stored.principal):
            raise _no_previous(previous)
        if not stored.is_finished and not stored.is_parked:
            raise _still_made(previous)
        turns = await self._store.read(partial(response_tx.conversation, previous))
        if not turns or turns[0].previous_id is not None:
            raise _no_previous(turns[0].previous_id or previous if turns else previous)
        items: list[Item] = []
        for turn in turns:
            items += decode_items(turn.input)
            items += filter(is_whole, decode_items(turn.output))
        if not stored.is_finished:
            frames = [frame async for frame in events_after(self._store, previous, -1)]
            items += filter(is_whole, position_after(frames).output)
        return tuple(items)

    async def _end_parked(self, request: CreateResponse, principal: Principal, history: Sequence[Item]) -> None:
        """A parked response that a new one continues has ended with that: the new one goes on from where it stands."""
        previous = request.previous_response_id
        stored = None if previous is None else await self._read(previous)
        if previous is None or stored is None or stored.is_finished:
            return
        await self._engine.check(request, principal=principal, history=opened(history))
        if not await self.background.end_waiting(previous, "completed"):
            raise _still_made(previous)

    async def _stored_items(self, wanted: Sequence[str], principal: Principal) -> dict[str, Item]:
        """Items of earlier responses of this key, by their ids; with each come the others of its response."""
        found: dict[str, Item] = {}
        looked = 0
        for item_id in wanted:
            if item_id in found or looked == MOST_LOOKED_FOR:
                continue
            looked += 1
            turn = await self._store.read(
                partial(
                    response_tx.response_with_item,
                    item_id,
                    principal=principal.name,
                    within_ms=int(self._longest * 1000),
                )
            )
            if turn is not None:
                found |= {item.id: item for item in (*decode_items(turn.input), *decode_items(turn.output))}
        return found

    async def _stored(self, response_id: str, principal: Principal) -> StoredResponse:
        stored = await self._read(response_id)
        if stored is None or not _may_see(principal, stored.principal):
            raise ResponseNotFound(
                f"There is no response '{response_id}' for this key. It may have been deleted, or was made with "
                "'store': false.",
                param="response_id",
            )
        return stored

    async def _read(self, response_id: str) -> StoredResponse | None:
        """The row; an orphan of a dead gateway is failed first."""
        if "\x00" in response_id:
            return None
        stored = await self._store.read(partial(response_tx.get_response, response_id))
        if stored is None or not stored.is_orphan:
            return stored
        if not await self.background.end_orphan(response_id):
            await end_orphan(self._store, stored, now=now)
        return await self._store.read(partial(response_tx.get_response, response_id))

    async def _stop_elsewhere(self, response_id: str) -> None:
        with self._store.bus.listen(response_id) as written:
            if await self._store.write(partial(response_tx.want_stopped, response_id)):
                if await self.background.end_waiting(response_id, "cancelled"):
                    return
                deadline = time.monotonic() + STOPS_WITHIN
                while (left := deadline - time.monotonic()) > 0:
                    stored = await self._read(response_id)
                    if stored is None or stored.is_finished:
                        return
                    written.clear()
                    await _within(written, left)

    def _hear(self, topics: Sequence[str] | None) -> None:
        """Cancel requests that arrived at another gateway."""
        for run in tuple(self._live.values()):
            if topics is not None and stop_topic(run.id) in topics:
                run.cancel()


def _with_found_tools(request: CreateResponse, history: tuple[Item, ...]) -> tuple[RequestTool, ...]:
    """The request's tools, with those that searches in this conversation have found."""
    found = [item for item in (*history, *request.input) if isinstance(item, ToolSearchOutput)]
    return loaded_tools(found, request.tools) if found else request.tools


def _still_made(response_id: str) -> Conflict:
    return Conflict(
        f"Response '{response_id}' is still being made. Wait for its end, or cancel it.", param="previous_response_id"
    )


def _no_previous(response_id: str) -> PreviousResponseNotFound:
    return PreviousResponseNotFound(
        f"There is no response '{response_id}' to continue. It may have been deleted, or was made with 'store': false "
        "or another key. Send the whole conversation as 'input'.",
        param="previous_response_id",
    )


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _may_see(principal: Principal, owner: str) -> bool:
    return principal.is_admin or principal.name == owner
