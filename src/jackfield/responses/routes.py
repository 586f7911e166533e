"""The doors of `/v1`, as the table of all doors has them. Above: `gateway/routes.py`. Below: the doors themselves."""

from typing import Any

from jackfield.http.routing import ResponseSpec, Route, SocketRoute
from jackfield.model.principal import Scope
from jackfield.responses.api import (
    CountedTokens,
    Deleted,
    InputQuery,
    ModelEntry,
    ModelList,
    ResponseQuery,
    cancel_response,
    count_input_tokens,
    create_response,
    delete_response,
    list_input_items,
    list_models,
    show_model,
    show_response,
)
from jackfield.responses.compaction_api import CompactBody, compact_response
from jackfield.responses.request import ResponseBody
from jackfield.responses.socket import socket_responses

_RESPONSE = ResponseSpec(
    says="The response: all 31 keys of Open Responses 2026-04-24", type=dict[str, Any], streams=True
)

RESPONSE_DOORS: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/responses",
        handler=create_response,
        needs=Scope.CALL,
        group="Responses",
        summary="Ask a model, which may use tools; as JSON, as a stream (`stream`), or later (`background`)",
        body=ResponseBody,
        answers={200: _RESPONSE},
        refusals=(404, 409, 429),
    ),
    Route(
        method="POST",
        path="/v1/responses/compact",
        handler=compact_response,
        needs=Scope.CALL,
        group="Responses",
        summary="Sum a conversation up as one item that stands for it",
        body=CompactBody,
        answers={200: ResponseSpec(says="What to send instead of the conversation", type=dict[str, Any])},
        refusals=(404, 409, 429),
    ),
    Route(
        method="POST",
        path="/v1/responses/input_tokens",
        handler=count_input_tokens,
        needs=Scope.CALL,
        group="Responses",
        summary="About how many tokens a request would have its model read; an estimate by one rule for all models",
        body=ResponseBody,
        answers={200: ResponseSpec(says="The count", type=CountedTokens)},
        refusals=(404, 409, 429),
    ),
    Route(
        method="GET",
        path="/v1/responses/{id}",
        handler=show_response,
        group="Responses",
        summary="A response as it is now, or the stream of one made in the background from any event on",
        query=ResponseQuery,
        answers={200: _RESPONSE},
        refusals=(404,),
    ),
    Route(
        method="DELETE",
        path="/v1/responses/{id}",
        handler=delete_response,
        needs=Scope.CALL,
        group="Responses",
        summary="Forget a response",
        answers={200: ResponseSpec(says="It is gone", type=Deleted)},
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="/v1/responses/{id}/input_items",
        handler=list_input_items,
        group="Responses",
        summary="What the request of a response added to the conversation",
        query=InputQuery,
        answers={200: ResponseSpec(says="A page of items", type=dict[str, Any])},
        refusals=(404,),
    ),
    Route(
        method="POST",
        path="/v1/responses/{id}/cancel",
        handler=cancel_response,
        needs=Scope.CALL,
        group="Responses",
        summary="Stop a response that is being made",
        answers={200: ResponseSpec(says="The response as it ended", type=dict[str, Any])},
        refusals=(404,),
    ),
    Route(
        method="GET",
        path="/v1/models",
        handler=list_models,
        group="Responses",
        summary="The models that a response can be asked of",
        answers={200: ResponseSpec(says="Their names", type=ModelList)},
    ),
    Route(
        method="GET",
        path="/v1/models/{name}",
        handler=show_model,
        group="Responses",
        summary="One of the models",
        answers={200: ResponseSpec(says="It is there", type=ModelEntry)},
        refusals=(404,),
    ),
)

RESPONSE_SOCKETS = (SocketRoute(path="/v1/responses", handler=socket_responses, needs=Scope.CALL),)
