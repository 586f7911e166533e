"""Results of 2026-07-28 that ask for input before the call goes on.

Above: `connection.py`, which sends the call again with the answers, and `tasks.py`. Below: `handlers.py`.
"""

import asyncio
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.jsonrpc import NO_PARAMS, RpcError
from jackfield.sources.client import AskClient
from jackfield.sources.mcp.handlers import Sample, ServerRequest, answer_requests
from jackfield.sources.mcp.transport import McpClientError

ROUND_SECONDS = 0.1
"""Before a call is sent again that the server put off without a question."""


class InputRequest(Struct):
    """Something a server wants to know before it goes on."""

    method: str
    params: Raw = NO_PARAMS


class InputRequired(Struct):
    """A result of 2026-07-28 that asks for input."""

    result_type: str = msgspec.field(default="complete", name="resultType")
    requests: dict[str, InputRequest] | None = msgspec.field(default=None, name="inputRequests")
    state: str | None = msgspec.field(default=None, name="requestState")


_decode_input_required = msgspec.json.Decoder(InputRequired).decode


def input_required(answer: Raw) -> InputRequired | None:
    """What the server asks for, if the result is a question. Raises `McpClientError` for what is neither."""
    try:
        found = _decode_input_required(answer)
    except UNREADABLE as fault:
        raise McpClientError(f"The server's response is not valid MCP: {fault}.") from None
    return found if found.result_type == "input_required" else None


async def input_for(question: InputRequired, *, ask: AskClient | None, sample: Sample | None) -> dict[str, Any]:
    """The parameters that a call is sent again with."""
    wanted = question.requests or {}
    asked = [ServerRequest(one.method, one.params, key) for key, one in wanted.items()]
    try:
        answers = await answer_requests(asked, ask=ask, sample=sample)
    except RpcError as refusal:
        raise McpClientError(f"The server made a request that is not allowed. {refusal.message}") from None
    responses = dict(zip(wanted, answers, strict=True))
    if not responses:
        await asyncio.sleep(ROUND_SECONDS)
    more: dict[str, Any] = {"inputResponses": responses} if responses else {}
    return more if question.state is None else {**more, "requestState": question.state}
