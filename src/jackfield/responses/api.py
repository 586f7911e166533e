"""`/v1/responses`: create, read, resume the stream, cancel, delete. And `/v1/models`.

Above: the URL map. Below: `service.py`. Errors before the first event are ordinary error responses; later ones are
events of the stream.
"""

import asyncio
import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from jackfield.errors import BadRequest, Unavailable
from jackfield.http.bodies import ClientGone, read_object
from jackfield.http.request import Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ResponseSpec, Route, SocketRoute
from jackfield.http.sse import EventStream
from jackfield.llm.models import Models
from jackfield.model.ids import new_id
from jackfield.model.items import ID_PREFIX, InputText, Item, Message, Usage, text_of
from jackfield.model.principal import Scope
from jackfield.model.response_request import CreateResponse
from jackfield.responses.input import sealed
from jackfield.responses.request import EVENTS_HEADER, ResponseBody, read_event_names, read_request
from jackfield.responses.resource import ResponseResource
from jackfield.responses.run import FrameQueue, ResponseStream, RunningResponse
from jackfield.responses.service import ResponseService
from jackfield.responses.socket import ResponseSocket

ASK = (
    "Sum up this conversation for a colleague who goes on with it and cannot read it: what was asked, what was found "
    "out and decided, names, numbers and open ends. Write only the summary."
)


class CompactBody(Struct, frozen=True, kw_only=True):
    """The conversation to sum up: items, or a response that ends it, or both."""

    model: str
    input: str | list[Any] | None = None
    previous_response_id: str | None = None
    instructions: str | None = None
    prompt_cache_key: str | None = None


class Compacted(Struct, frozen=True, kw_only=True):
    """Send its output as the first of the next `input`, instead of the conversation."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: tuple[Item, ...]
    usage: Usage


_RESPONSE = ResponseSpec(
    description="The response: all 31 keys of Open Responses 2026-04-24", type=dict[str, Any], streams=True
)


class ResponseApi:
    """Handlers of `/v1/responses` and `/v1/models`."""

    def __init__(self, responses: ResponseService, models: Models) -> None:
        self._responses = responses
        self._models = models

    async def compact_response(self, request: Request) -> Response:
        """Sum a conversation up."""
        body = await read_object(request)
        wanted = {key: body[key] for key in CompactBody.__struct_fields__ if key in body}
        asked = read_request({**wanted, "store": False})
        question = Message(id=new_id(ID_PREFIX[Message]), role="user", content=(InputText(text=ASK),))
        asked = msgspec.structs.replace(asked, input=(*asked.input, question))
        run = await self._responses.begin(asked, principal=request.principal)
        resource = await until_ended(run, request)
        compacted = Compacted(
            id=new_id("resp"),
            created_at=int(time.time()),
            output=(sealed(_summary(resource)),),
            usage=resource.usage or Usage(),
        )
        return json_response(compacted)

    async def create_response(self, request: Request) -> Response:
        """Make a response, as JSON or as a stream, now or in the background."""
        names = read_event_names(request.header(EVENTS_HEADER))
        body = await read_object(request)
        asked = read_request(body, event_names=names)
        if asked.background:
            return await self._in_background(asked, body, request)
        run = await self._responses.begin(asked, principal=request.principal, body=body)
        if asked.stream:
            return await _streamed(run, request)
        return json_response(await until_ended(run, request))

    async def _in_background(self, asked: CreateResponse, body: dict[str, Any], request: Request) -> Response:
        begun = await self._responses.begin_in_background(asked, principal=request.principal, body=body)
        resource = await _queued(begun, request) if isinstance(begun, RunningResponse) else begun
        if not asked.stream:
            return json_response(resource)
        messages = await self._responses.replay(resource.id, request.principal, after=-1)
        return EventStream(messages, streams=request.streams)

    async def count_input_tokens(self, request: Request) -> Response:
        """About how many tokens the model would read for this request; nothing is made or kept."""
        asked = read_request(await read_object(request))
        counted = await self._responses.measure(asked, principal=request.principal)
        return json_response(CountedTokens(input_tokens=counted))

    async def show_response(self, request: Request) -> Response:
        """The response as it is now, or its stream from a given event on."""
        query = request.query(ResponseQuery)
        response_id = request.part("id")
        if query.stream:
            after = -1 if query.starting_after is None else query.starting_after
            messages = await self._responses.replay(response_id, request.principal, after=after)
            return EventStream(messages, streams=request.streams)
        if query.starting_after is not None:
            raise BadRequest("'starting_after' is for streams. Add 'stream=true'.", param="starting_after")
        return json_response((await self._responses.find(response_id, request.principal)).resource)

    async def list_input_items(self, request: Request) -> Response:
        """What the request of a response added to the conversation."""
        query = request.query(InputQuery)
        found = await self._responses.find(request.part("id"), request.principal)
        return json_response(input_page(found.input, query))

    async def cancel_response(self, request: Request) -> Response:
        """Stop a response that is being made; one that has ended is given as it is."""
        return json_response(await self._responses.cancel(request.part("id"), request.principal))

    async def delete_response(self, request: Request) -> Response:
        """Forget a response."""
        response_id = request.part("id")
        await self._responses.delete(response_id, request.principal)
        return json_response(Deleted(id=response_id))

    async def list_models(self, _request: Request) -> Response:
        """The models that a request may name."""
        return json_response(ModelList(data=tuple(ModelEntry(id=name) for name in self._models.names)))

    async def show_model(self, request: Request) -> Response:
        """Whether a request may name this model."""
        model = await self._models.get(request.part("name"))
        return json_response(ModelEntry(id=model.name))


def _summary(resource: ResponseResource) -> str:
    said = "\n".join(text_of(item) for item in resource.output if isinstance(item, Message))
    if resource.status == "completed" and said:
        return said
    why = resource.error.message if resource.error is not None else "The model did not sum it up."
    raise Unavailable(f"The conversation was not compacted. {why} Try again, or with another model.")


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


async def until_ended(run: RunningResponse, request: Request) -> ResponseResource:
    """The response as it ended. A client that hangs up ends it; a server that stops lets it come to its end."""
    gone = request.streams.watch(request.receive)
    try:
        await asyncio.wait((run.task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not run.task.done() and not gone.cancelled():
            raise ClientGone
        await asyncio.shield(run.task)
    finally:
        run.cancel()
        await request.streams.release(gone)
    return run.resource


async def _queued(run: RunningResponse, request: Request) -> ResponseResource:
    """The response as it was before it began, as soon as it is certain that it will be found again."""
    gone = request.streams.watch(request.receive)
    try:
        await _begun(run, gone)
        return await run.queued()
    except BaseException:
        run.cancel()
        raise
    finally:
        await request.streams.release(gone)


async def _streamed(run: RunningResponse, request: Request) -> Response:
    """The response's events, once it is certain that there will be some."""
    reader = FrameQueue()
    run.listen(reader)
    streams = request.streams
    gone = streams.watch(request.receive)
    try:
        await _begun(run, gone)
    except BaseException:
        run.cancel()
        await streams.release(gone)
        raise
    return ResponseStream(run, reader, gone=gone, streams=streams)


async def _begun(run: RunningResponse, gone: "asyncio.Task[None]") -> None:
    """Comes back when there is a response; raises what it was refused with."""
    await asyncio.wait((run.begun, run.task, gone), return_when=asyncio.FIRST_COMPLETED)
    if not run.begun.done() and gone.done() and not gone.cancelled():
        raise ClientGone
    await asyncio.wait((run.begun, run.task), return_when=asyncio.FIRST_COMPLETED)
    if not run.begun.done():
        run.task.result()


def routes(responses: ResponseService, models: Models) -> list[Route]:
    """Every route of responses and models."""
    api = ResponseApi(responses, models)
    return [
        Route(
            method="POST",
            path="/v1/responses",
            handler=api.create_response,
            scope=Scope.CALL,
            tag="Responses",
            summary="Ask a model, which may use tools; as JSON, as a stream (`stream`), or later (`background`)",
            body=ResponseBody,
            responses={200: _RESPONSE},
            errors=(404, 409, 429),
        ),
        Route(
            method="POST",
            path="/v1/responses/compact",
            handler=api.compact_response,
            scope=Scope.CALL,
            tag="Responses",
            summary="Sum a conversation up as one item that stands for it",
            body=CompactBody,
            responses={200: ResponseSpec(description="What to send instead of the conversation", type=dict[str, Any])},
            errors=(404, 409, 429),
        ),
        Route(
            method="POST",
            path="/v1/responses/input_tokens",
            handler=api.count_input_tokens,
            scope=Scope.CALL,
            tag="Responses",
            summary="About how many tokens a request would have its model read; an estimate by one rule for all models",
            body=ResponseBody,
            responses={200: ResponseSpec(description="The count", type=CountedTokens)},
            errors=(404, 409, 429),
        ),
        Route(
            method="GET",
            path="/v1/responses/{id}",
            handler=api.show_response,
            tag="Responses",
            summary="A response as it is now, or the stream of one made in the background from any event on",
            query=ResponseQuery,
            responses={200: _RESPONSE},
            errors=(404,),
        ),
        Route(
            method="DELETE",
            path="/v1/responses/{id}",
            handler=api.delete_response,
            scope=Scope.CALL,
            tag="Responses",
            summary="Forget a response",
            responses={200: ResponseSpec(description="It is gone", type=Deleted)},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/v1/responses/{id}/input_items",
            handler=api.list_input_items,
            tag="Responses",
            summary="What the request of a response added to the conversation",
            query=InputQuery,
            responses={200: ResponseSpec(description="A page of items", type=dict[str, Any])},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/v1/responses/{id}/cancel",
            handler=api.cancel_response,
            scope=Scope.CALL,
            tag="Responses",
            summary="Stop a response that is being made",
            responses={200: ResponseSpec(description="The response as it ended", type=dict[str, Any])},
            errors=(404,),
        ),
        Route(
            method="GET",
            path="/v1/models",
            handler=api.list_models,
            tag="Responses",
            summary="The models that a response can be asked of",
            responses={200: ResponseSpec(description="Their names", type=ModelList)},
        ),
        Route(
            method="GET",
            path="/v1/models/{name}",
            handler=api.show_model,
            tag="Responses",
            summary="One of the models",
            responses={200: ResponseSpec(description="It is there", type=ModelEntry)},
            errors=(404,),
        ),
    ]


def sockets(responses: ResponseService) -> list[SocketRoute]:
    """`/v1/responses` as WebSocket."""
    return [SocketRoute(path="/v1/responses", handler=ResponseSocket(responses).socket_responses, scope=Scope.CALL)]
