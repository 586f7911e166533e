"""`/v1/responses`: make one, read it, continue its stream, stop it, forget it. And `/v1/models`.

Above: `routes.py`. Below: the desk. What is wrong before the first event is an ordinary error answer; after it, the
response tells it itself.
"""

import asyncio
from typing import Annotated, Literal

from msgspec import Meta, Struct

from jackfield.errors import BadRequest
from jackfield.http.bodies import ClientGone, read_object
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.sse import EventStream
from jackfield.model.items import Item
from jackfield.responses.request import EVENTS_HEADER, read_event_names, read_request
from jackfield.responses.resource import Resource
from jackfield.responses.run import RunningResponse
from jackfield.responses.streaming import LiveStream, Reader


class ResponseQuery(Struct, frozen=True, kw_only=True):
    """How a response is given: as it is now, or as the stream it told."""

    stream: bool = False
    starting_after: Annotated[int, Meta(ge=-1)] | None = None


class InputQuery(Struct, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    """The last item of the page before."""


class InputPage(Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: tuple[Item, ...]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


class CountedTokens(Struct, frozen=True, kw_only=True):
    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


class ModelEntry(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "jackfield"


class ModelList(Struct, frozen=True, kw_only=True):
    object: Literal["list"] = "list"
    data: tuple[ModelEntry, ...]


async def create_response(visit: Request) -> Response:
    """Make a response, as JSON or as a stream, now or in the background."""
    names = read_event_names(visit.header(EVENTS_HEADER))
    request = read_request(await read_object(visit), event_names=names)
    making = await visit.reception.responses.begin(request, principal=visit.principal)
    if request.stream:
        return await _streamed(making, visit)
    return json_response(await (_queued if request.background else until_ended)(making, visit))


async def count_input_tokens(visit: Request) -> Response:
    """About how many tokens the model would read for this request; nothing is made or kept."""
    request = read_request(await read_object(visit))
    counted = await visit.reception.responses.measure(request, principal=visit.principal)
    return json_response(CountedTokens(input_tokens=counted))


async def show_response(visit: Request) -> Response:
    """The response as it is now, or its stream from a given event on."""
    query = visit.query(ResponseQuery)
    desk, response_id = visit.reception.responses, visit.part("id")
    if query.stream:
        after = -1 if query.starting_after is None else query.starting_after
        messages = await desk.again(response_id, visit.principal, after=after)
        return EventStream(messages, streams=visit.streams)
    if query.starting_after is not None:
        raise BadRequest("'starting_after' is for streams. Add 'stream=true'.", param="starting_after")
    return json_response((await desk.find(response_id, visit.principal)).resource)


async def list_input_items(visit: Request) -> Response:
    """What the request of a response added to the conversation."""
    query = visit.query(InputQuery)
    found = await visit.reception.responses.find(visit.part("id"), visit.principal)
    return json_response(input_page(found.input, query))


async def cancel_response(visit: Request) -> Response:
    """Stop a response that is being made; one that has ended is given as it is."""
    return json_response(await visit.reception.responses.cancel(visit.part("id"), visit.principal))


async def delete_response(visit: Request) -> Response:
    """Forget a response."""
    response_id = visit.part("id")
    await visit.reception.responses.delete(response_id, visit.principal)
    return json_response(Deleted(id=response_id))


async def list_models(visit: Request) -> Response:
    """The models that a request may name."""
    return json_response(ModelList(data=tuple(ModelEntry(id=name) for name in visit.gateway.models.names)))


async def show_model(visit: Request) -> Response:
    """Whether a request may name this model."""
    model = await visit.gateway.models.get(visit.part("name"))
    return json_response(ModelEntry(id=model.name))


def input_page(items: tuple[Item, ...], query: InputQuery) -> InputPage:
    """One page. Pure."""
    ordered = items if query.order == "asc" else items[::-1]
    if query.after is not None:
        places = [number for number, item in enumerate(ordered) if item.id == query.after]
        if not places:
            raise BadRequest(f"There is no item '{query.after}' in this response's input.", param="after")
        ordered = ordered[places[0] + 1 :]
    page = ordered[: query.limit]
    return InputPage(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=len(ordered) > len(page),
    )


async def until_ended(making: RunningResponse, visit: Request) -> Resource:
    """The response as it ended. A client that hangs up ends it; a server that stops lets it come to its end."""
    gone = visit.streams.watch(visit.receive)
    try:
        await asyncio.wait((making.task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not making.task.done() and not gone.cancelled():
            raise ClientGone
        await asyncio.shield(making.task)
    finally:
        making.cancel()
        await visit.streams.release(gone)
    return making.resource


async def _queued(making: RunningResponse, visit: Request) -> Resource:
    """The response as it was before it began, as soon as it is certain that it will be found again."""
    gone = visit.streams.watch(visit.receive)
    try:
        await _begun(making, gone)
        return await making.queued()
    except BaseException:
        making.cancel()
        raise
    finally:
        await visit.streams.release(gone)


async def _streamed(making: RunningResponse, visit: Request) -> Response:
    """The response's events, once it is certain that there will be some."""
    reader = Reader()
    making.listen(reader)
    streams = visit.streams
    gone = streams.watch(visit.receive)
    try:
        await _begun(making, gone)
        if making.request.background:
            await making.queued()
    except BaseException:
        making.cancel()
        await streams.release(gone)
        raise
    return LiveStream(making, reader, gone=gone, streams=streams, stops_it=not making.request.background)


async def _begun(making: RunningResponse, gone: "asyncio.Task[None]") -> None:
    """Comes back when there is a response; raises what it was refused with."""
    await asyncio.wait((making.begun, making.task, gone), return_when=asyncio.FIRST_COMPLETED)
    if not making.begun.done() and gone.done() and not gone.cancelled():
        raise ClientGone
    await asyncio.wait((making.begun, making.task), return_when=asyncio.FIRST_COMPLETED)
    if not making.begun.done():
        making.task.result()
