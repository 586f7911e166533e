"""The doors of `/v1`, as the table of all doors has them. Above: `web/routes.py`. Below: the doors themselves."""

from typing import Any

from jackfield.model.principal import Scope
from jackfield.web.door import Body, Door, SocketDoor
from jackfield.web.responses import compacting, door
from jackfield.web.responses.request import ResponseBody
from jackfield.web.responses.socket import socket_responses

_RESPONSE = Body(says="The response: all 31 keys of Open Responses 2026-04-24", type=dict[str, Any], streams=True)

RESPONSE_DOORS: tuple[Door, ...] = (
    Door(
        method="POST",
        path="/v1/responses",
        handler=door.create_response,
        needs=Scope.CALL,
        group="Responses",
        summary="Ask a model, which may use tools; as JSON, as a stream (`stream`), or later (`background`)",
        body=ResponseBody,
        answers={200: _RESPONSE},
        refusals=(404, 409, 429),
    ),
    Door(
        method="POST",
        path="/v1/responses/compact",
        handler=compacting.compact_response,
        needs=Scope.CALL,
        group="Responses",
        summary="Sum a conversation up as one item that stands for it",
        body=compacting.CompactBody,
        answers={200: Body(says="What to send instead of the conversation", type=dict[str, Any])},
        refusals=(404, 409, 429),
    ),
    Door(
        method="POST",
        path="/v1/responses/input_tokens",
        handler=door.count_input_tokens,
        needs=Scope.CALL,
        group="Responses",
        summary="About how many tokens a request would have its model read; an estimate by one rule for all models",
        body=ResponseBody,
        answers={200: Body(says="The count", type=door.CountedTokens)},
        refusals=(404, 409, 429),
    ),
    Door(
        method="GET",
        path="/v1/responses/{id}",
        handler=door.show_response,
        group="Responses",
        summary="A response as it is now, or the stream of one made in the background from any event on",
        query=door.ResponseQuery,
        answers={200: _RESPONSE},
        refusals=(404,),
    ),
    Door(
        method="DELETE",
        path="/v1/responses/{id}",
        handler=door.delete_response,
        needs=Scope.CALL,
        group="Responses",
        summary="Forget a response",
        answers={200: Body(says="It is gone", type=door.Deleted)},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/v1/responses/{id}/input_items",
        handler=door.list_input_items,
        group="Responses",
        summary="What the request of a response added to the conversation",
        query=door.InputQuery,
        answers={200: Body(says="A page of items", type=dict[str, Any])},
        refusals=(404,),
    ),
    Door(
        method="POST",
        path="/v1/responses/{id}/cancel",
        handler=door.cancel_response,
        needs=Scope.CALL,
        group="Responses",
        summary="Stop a response that is being made",
        answers={200: Body(says="The response as it ended", type=dict[str, Any])},
        refusals=(404,),
    ),
    Door(
        method="GET",
        path="/v1/models",
        handler=door.list_models,
        group="Responses",
        summary="The models that a response can be asked of",
        answers={200: Body(says="Their names", type=door.ModelList)},
    ),
    Door(
        method="GET",
        path="/v1/models/{name}",
        handler=door.show_model,
        group="Responses",
        summary="One of the models",
        answers={200: Body(says="It is there", type=door.ModelEntry)},
        refusals=(404,),
    ),
)

RESPONSE_SOCKETS = (SocketDoor(path="/v1/responses", handler=socket_responses, needs=Scope.CALL),)
