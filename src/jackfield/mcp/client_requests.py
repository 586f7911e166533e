"""What is asked of a client while its call runs: elicitation, sampling, roots.

Above: whatever makes calls for MCP clients (`tools_call.py` and its likes). Below: the exchange, over which they are
asked. A client of the handshake era is asked by requests on the stream of its own request. One of 2026-07-28 gets a
result that asks for input, and comes back with the answers; its call waits here meanwhile.
"""

import asyncio
import secrets
from collections.abc import MutableMapping
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.reading import server_error
from jackfield.http.response import encode
from jackfield.mcp.exchange import McpExchange
from jackfield.mcp.request_meta import log_level, passed_on
from jackfield.mcp.results import stamped
from jackfield.mcp.sessions import Caller, McpSession
from jackfield.model.call import Call
from jackfield.model.ids import secret_of
from jackfield.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ErrorObject,
    RequestId,
    RpcError,
    RpcRequest,
    notification,
    request,
)
from jackfield.protocol.jsonrpc import RpcResponse as Response
from jackfield.protocol.mcp import ELICIT, ELICITED, MODERN, ROOTS, SAMPLE, WITH_ELICITATION_MODES
from jackfield.protocol.mcp import MISSING_CAPABILITY as MISSING_CAPABILITY_NUMBER
from jackfield.protocol.mcp import URL_REQUIRED as URL_REQUIRED_NUMBER
from jackfield.sources.client import (
    CANCELLED,
    MISSING_CAPABILITY,
    URL_REQUIRED,
    CallerClient,
    ClientAnswer,
    ClientRequest,
    ElicitAnswer,
    ElicitRequest,
    RootsRequest,
)

_OF_THE_ROUND = ("_meta", "inputResponses", "requestState")
"""Parameters in which a request that brings answers differs from the first one."""


class _Elicited(Struct, frozen=True):
    """What a client sends back for a question."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class ClientRequests:
    """Asks the clients of one gateway, and knows the calls whose clients of 2026-07-28 have to come back."""

    def __init__(self, gateway_id: str) -> None:
        self._gateway_id = gateway_id
        self._waiting: dict[str, InputRounds] = {}

    def client_of(self, caller: Caller, exchange: McpExchange) -> CallerClient | None:
        """The client behind a request, as calls are given it; None: it can do nothing for a call."""
        meta, level = passed_on(exchange.request), log_level(exchange.request, caller)
        can_be_asked = bool(caller.capabilities) and (caller.is_modern or _has_stream(caller))
        if not can_be_asked:
            return CallerClient(meta=meta, log_level=level) if meta or level else None
        by_result = InputRounds(caller, exchange, self._waiting, gateway_id=self._gateway_id).ask
        ask = by_result if caller.is_modern else partial(_ask_on_stream, caller, exchange)
        opened = partial(_tell_opened, exchange) if takes_urls(caller) and not caller.is_modern else None
        return CallerClient(capabilities=caller.capabilities, ask=ask, meta=meta, log_level=level, opened=opened)

    def returned(self, asked: RpcRequest, caller: Caller) -> "InputRounds | None":
        """The call that a request brings answers to; None for a request that begins one."""
        state = asked.params.get("requestState") if caller.is_modern else None
        if state is None:
            return None
        rounds = self._waiting.get(state) if isinstance(state, str) else None
        if rounds is None or not rounds.is_of(asked, caller):
            raise RpcError(
                INVALID_PARAMS,
                "'params.requestState' names no call that waits here: it is over, was made at another gateway, or is "
                "another call's. Call the tool again without it.",
            )
        return rounds


class _Open(Struct, frozen=True, kw_only=True, eq=False):
    """A request that the client has not answered yet."""

    request: ClientRequest
    answer: "asyncio.Future[ClientAnswer]"


class InputRounds:
    """What one call asks of its client of 2026-07-28.

    A result that asks for input ends the client's request, and has everything that is open at that moment. What comes
    up while the client is away is asked in the next round.
    """

    def __init__(
        self, caller: Caller, exchange: McpExchange, waiting: MutableMapping[str, "InputRounds"], *, gateway_id: str
    ) -> None:
        self._gateway_id = gateway_id
        self._caller = caller
        self._exchange = exchange
        self._waiting = waiting
        self._open: dict[str, _Open] = {}
        self._state: str | None = None
        """Of the round that is with the client."""
        self._result = b""
        self._used: set[str] = set()
        """Keys of answers that came before they were asked for."""

    def is_of(self, asked: RpcRequest, caller: Caller) -> bool:
        """Whether this is the request that was answered with a round: the same key, method and parameters."""
        first = self._exchange.request
        is_same_caller = self._caller.principal.name == caller.principal.name
        return is_same_caller and first.method == asked.method and _kept(first.params) == _kept(asked.params)

    async def ask(self, requests: tuple[ClientRequest, ...]) -> tuple[ClientAnswer, ...]:
        """Ask the client, and wait until it is back with all answers."""
        asked: dict[str, _Open] = {}
        for one in requests:
            answer: asyncio.Future[ClientAnswer] = asyncio.get_running_loop().create_future()
            asked[self._free_key(one.key, asked)] = _Open(request=one, answer=answer)
            if isinstance(one, ElicitRequest) and not _takes_mode(one, self._caller):
                answer.set_result(CANCELLED)
            elif (early := self._answered_early(one)) is not None:
                answer.set_result(early)
        self._open |= {key: one for key, one in asked.items() if not one.answer.done()}
        if self._open and self._state is None:
            self._begin_round()
        try:
            return tuple([await one.answer for one in asked.values()])
        finally:
            for key in asked:
                self._open.pop(key, None)
            if not self._open:
                self._end_round()

    async def resume(self, exchange: McpExchange) -> bytes:
        """The client is back: go on with its call, whose result is this request's."""
        responses = exchange.request.params.get("inputResponses")
        given = {
            key: _response(key, one.request, responses)
            for key, one in self._open.items()
            if isinstance(responses, dict) and key in responses
        }
        if not given:
            return self._result
        self._end_round()
        self._exchange.hand_over(exchange)
        for key, answer in given.items():
            self._open.pop(key).answer.set_result(answer)
        if self._open:
            self._begin_round()
        work = self._exchange.work
        assert work is not None
        settled = await asyncio.shield(work)
        if isinstance(settled, RpcError):
            raise settled
        return settled

    def _answered_early(self, asked: ClientRequest) -> ClientAnswer:
        """A client may send an answer with its first request, before it is asked. One that is none is ignored."""
        responses = self._exchange.request.params.get("inputResponses")
        if not isinstance(responses, dict) or asked.key not in responses or asked.key in self._used:
            return None
        self._used.add(asked.key)
        try:
            return _response(asked.key, asked, responses)
        except RpcError:
            return None

    def _begin_round(self) -> None:
        self._state = secret_of(self._gateway_id)
        self._waiting[self._state] = self
        asked = {key: _described(one.request, MODERN) for key, one in self._open.items()}
        members = encode({"inputRequests": asked, "requestState": self._state})[1:-1]
        self._result = stamped(members, revision=MODERN, kind="input_required")
        self._exchange.give_interim(self._result)

    def _end_round(self) -> None:
        if self._state is not None:
            del self._waiting[self._state]
            self._state = None

    def _free_key(self, key: str, asked: dict[str, _Open]) -> str:
        number = 1
        chosen = key
        while chosen in self._open or chosen in asked:
            number += 1
            chosen = f"{key}-{number}"
        return chosen


def raise_missing_capability(call: Call) -> None:
    """Pass on a server's -32021: the client can declare more, and call again."""
    if call.error is None or call.error.code != MISSING_CAPABILITY:
        return
    error = server_error(call.result) or ErrorObject()
    raise RpcError(MISSING_CAPABILITY_NUMBER, call.error.message, error.data)


def raise_url_required(call: Call, caller: Caller) -> None:
    """Pass on a server's -32042: the client shows the url to a person, and calls again."""
    if call.error is None or call.error.code != URL_REQUIRED or not takes_urls(caller):
        return
    error = server_error(call.result) or ErrorObject()
    raise RpcError(URL_REQUIRED_NUMBER, error.message or call.error.message, error.data)


def takes_urls(caller: Caller) -> bool:
    """Whether the client declares that it shows people urls to open."""
    able = caller.capabilities.get("elicitation")
    return isinstance(able, dict) and "url" in able


def _tell_opened(exchange: McpExchange, opened: str) -> None:
    if exchange.has_room:
        exchange.send(notification(ELICITED, {"elicitationId": opened}))


def _kept(params: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key not in _OF_THE_ROUND}


def _response(key: str, request: ClientRequest, responses: dict[str, Any]) -> ClientAnswer:
    """The answer under this key. Raises `RpcError` where it is none."""
    given = responses[key]
    if not isinstance(given, dict):
        raise RpcError(INVALID_PARAMS, f"'params.inputResponses.{key}' is invalid: it must be an object.")
    if not isinstance(request, ElicitRequest):
        return Raw(encode(given))
    try:
        said = msgspec.convert(given, _Elicited)
    except msgspec.ValidationError as fault:
        raise RpcError(INVALID_PARAMS, f"'params.inputResponses.{key}' is invalid: {fault}.") from None
    return ElicitAnswer(action=said.action, content=said.content)


def _has_stream(caller: Caller) -> bool:
    return caller.session is not None and caller.takes_events


async def _ask_on_stream(
    caller: Caller, exchange: McpExchange, requests: tuple[ClientRequest, ...]
) -> tuple[ClientAnswer, ...]:
    return tuple(await asyncio.gather(*(_ask_one(caller, exchange, one) for one in requests)))


async def _ask_one(caller: Caller, exchange: McpExchange, asked: ClientRequest) -> ClientAnswer:
    assert caller.session is not None
    if isinstance(asked, ElicitRequest) and not _takes_mode(asked, caller):
        return CANCELLED
    described = _described(asked, caller.revision)
    return _read(asked, await request_client(caller.session, exchange, described["method"], described["params"]))


async def request_client(session: McpSession, exchange: McpExchange, method: str, params: Any) -> Response | None:
    """Send the client of a session a request on the stream of its own; None: it is gone."""
    request_id: RequestId = f"jackfield-{secrets.token_hex(8)}"
    said: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()
    session.asked[request_id] = said
    exchange.ask(request(request_id, method, params), said)
    try:
        return await said
    finally:
        session.asked.pop(request_id, None)


def _read(asked: ClientRequest, response: Response | None) -> ClientAnswer:
    """A client that answers a question with an error, or with something else, has not answered it."""
    is_question = isinstance(asked, ElicitRequest)
    if response is None:
        return CANCELLED if is_question else RpcError(INTERNAL_ERROR, "The client behind this call is gone.")
    try:
        result = response.unwrap()
        if not is_question:
            return result
        said = msgspec.json.decode(result, type=_Elicited)
    except RpcError as error:
        return CANCELLED if is_question else error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return CANCELLED
    return ElicitAnswer(action=said.action, content=said.content)


def _takes_mode(question: ElicitRequest, caller: Caller) -> bool:
    """Forms are the default; URLs need the declared capability."""
    able = caller.capabilities["elicitation"]
    return "url" in able if question.url is not None else "form" in able or "url" not in able


def _described(asked: ClientRequest, revision: str) -> dict[str, Any]:
    """The request as its method and parameters."""
    if isinstance(asked, ElicitRequest):
        return {"method": ELICIT, "params": _elicitation(asked, revision)}
    if isinstance(asked, RootsRequest):
        return {"method": ROOTS, "params": {}}
    return {"method": SAMPLE, "params": asked.params}


def _elicitation(question: ElicitRequest, revision: str) -> dict[str, Any]:
    if question.url is not None:
        params: dict[str, Any] = {"mode": "url", "message": question.message, "url": question.url}
        return params if revision == MODERN else {**params, "elicitationId": question.id or secrets.token_hex(8)}
    schema = question.schema or {"type": "object", "properties": {}}
    params = {"message": question.message, "requestedSchema": schema}
    return {"mode": "form", **params} if revision in WITH_ELICITATION_MODES else params
