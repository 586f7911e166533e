"""Questions that come up while a tool runs, put to the person behind the client that made the call.

Above: `calling.py`. Below: the exchange. In the handshake era the question is a request of ours on the stream of the
answer. From 2026-07-28 on the answer itself is the question (`input_required`), and the client comes back with what the
person said and a token that names the waiting call. The token means something in this gateway's memory only.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from jackfield.http.response import encode
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.results import stamped
from jackfield.mcp.sessions import Caller
from jackfield.protocol.jsonrpc import INVALID_PARAMS, RequestId, RpcError, RpcRequest, request
from jackfield.protocol.mcp import MODERN, WITH_ELICITATION_MODES
from jackfield.sources.base import Elicit, ElicitAnswer, ElicitRequest

CREATE = "elicitation/create"
_CANCELLED = ElicitAnswer(action="cancel")


class _Said(Struct, frozen=True):
    """What a client sends back."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class Waiting(Struct, frozen=True, kw_only=True):
    """A call that waits for its client to come back."""

    exchange: McpExchange
    caller: str
    """The key that made it; no other may go on with it."""
    key: str
    """Under which the question stands; the answer stands under the same."""
    result: bytes
    """The question, as it was put."""
    answer: "asyncio.Future[ElicitAnswer]"


class Questions:
    """Puts questions to clients, and keeps those of 2026-07-28 until the client comes back."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}

    def asker(self, caller: Caller, exchange: McpExchange) -> Elicit | None:
        """How this client is asked; None when it cannot be."""
        able = caller.capabilities.get("elicitation")
        if not isinstance(able, dict):
            return None
        ask: Callable[[McpExchange, Caller, ElicitRequest], Any] = self._ask_by_result
        if not caller.is_modern:
            if caller.session is None or not caller.takes_events:
                return None
            ask = _ask_on_stream

        async def elicit(question: ElicitRequest) -> ElicitAnswer:
            if not _can_be_put(question, able):
                return _CANCELLED
            answer: ElicitAnswer = await ask(exchange, caller, question)
            return answer

        return elicit

    def returned(self, asked: RpcRequest, caller: Caller) -> Waiting | None:
        """The call that a request goes on with; None for a request that begins one."""
        state = asked.params.get("requestState")
        if state is None:
            return None
        waiting = self._waiting.get(state) if isinstance(state, str) else None
        if waiting is None or waiting.caller != caller.principal.name or not _same(waiting.exchange.request, asked):
            raise RpcError(
                INVALID_PARAMS,
                "'params.requestState' names no call that waits here: it is over, was made at another gateway, or is "
                "another call's. Call the tool again without it.",
            )
        return waiting

    async def _ask_by_result(self, exchange: McpExchange, caller: Caller, question: ElicitRequest) -> ElicitAnswer:
        state, params = secrets.token_urlsafe(24), _params(question, MODERN)
        members = {"inputRequests": {question.key: {"method": CREATE, "params": params}}, "requestState": state}
        result = stamped(encode(members)[1:-1], revision=MODERN, kind="input_required")
        answer: asyncio.Future[ElicitAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[state] = Waiting(
            exchange=exchange, caller=caller.principal.name, key=question.key, result=result, answer=answer
        )
        exchange.give_interim(result)
        try:
            return await answer
        finally:
            del self._waiting[state]


def answer_in(asked: RpcRequest, key: str) -> ElicitAnswer | None:
    """What the person said to the question of this key, if the client brings it."""
    responses = asked.params.get("inputResponses")
    if not isinstance(responses, dict) or key not in responses:
        return None
    try:
        said = msgspec.convert(responses[key], _Said)
    except msgspec.ValidationError as fault:
        raise RpcError(INVALID_PARAMS, f"'params.inputResponses.{key}' is no answer: {fault}.") from None
    return ElicitAnswer(action=said.action, content=said.content)


async def _ask_on_stream(exchange: McpExchange, caller: Caller, question: ElicitRequest) -> ElicitAnswer:
    session = caller.session
    assert session is not None
    request_id: RequestId = f"jackfield-{secrets.token_hex(8)}"
    said: asyncio.Future[Raw | None] = asyncio.get_running_loop().create_future()
    session.asked[request_id] = said
    exchange.ask(request(request_id, CREATE, _params(question, caller.revision)), said)
    try:
        return _read(await said)
    finally:
        session.asked.pop(request_id, None)


def _read(result: Raw | None) -> ElicitAnswer:
    """A client that answers with an error, or with something else, has not answered."""
    if result is None:
        return _CANCELLED
    try:
        said = msgspec.json.decode(result, type=_Said)
    except msgspec.DecodeError:
        return _CANCELLED
    return ElicitAnswer(action=said.action, content=said.content)


def _can_be_put(question: ElicitRequest, able: dict[str, Any]) -> bool:
    """Forms are taken by whoever names no kind; a page to open only by those who say so."""
    return "url" in able if question.url is not None else "form" in able or "url" not in able


def _params(question: ElicitRequest, revision: str) -> dict[str, Any]:
    if question.url is not None:
        params: dict[str, Any] = {"mode": "url", "message": question.message, "url": question.url}
        return params if revision == MODERN else {**params, "elicitationId": secrets.token_hex(8)}
    schema = question.schema or {"type": "object", "properties": {}}
    params = {"message": question.message, "requestedSchema": schema}
    return {"mode": "form", **params} if revision in WITH_ELICITATION_MODES else params


def _same(first: RpcRequest, again: RpcRequest) -> bool:
    """Whether a request is the one that was asked back to: the same tool, the same arguments."""
    return all(first.params.get(key) == again.params.get(key) for key in ("name", "arguments"))
