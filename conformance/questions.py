"""The suite's tools that ask their caller something before they answer: what they ask, in which rounds.

Above: `fixture.py`. In the newer era the answer to a call is the question, and the rounds so far travel as its state;
in the older one each question is a request of its own.
"""

import json
from collections.abc import Mapping
from typing import Any

import mcp.types as t
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from msgspec import Struct

from conformance.samples import strings

Ctx = ServerRequestContext[Any, Any]
Question = t.ElicitRequest | t.CreateMessageRequest | t.ListRootsRequest
Round = Mapping[str, Question]
MODERN = "2026-07-28"
_RESULTS: dict[str, type[t.Result]] = {
    "elicitation/create": t.ElicitResult,
    "sampling/createMessage": t.CreateMessageResult,
    "roots/list": t.ListRootsResult,
}


class Asking(Struct, frozen=True, kw_only=True):
    """One tool that asks."""

    rounds: tuple[Round, ...]
    words: str = "Answered"
    """What its text begins with."""
    arguments: tuple[str, ...] = ()


def form(message: str, schema: dict[str, Any]) -> t.ElicitRequest:
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str, *, tokens: int = 100) -> t.CreateMessageRequest:
    message = t.SamplingMessage(role="user", content=t.TextContent(text=prompt))
    return t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=[message], max_tokens=tokens))


async def answers_to(
    rounds: tuple[Round, ...], ctx: Ctx, params: t.CallToolRequestParams
) -> dict[str, Any] | t.InputRequiredResult:
    """What was answered to all of it, or the next question."""
    if ctx.protocol_version < MODERN:
        return {key: await _ask(ctx, question) for asked in rounds for key, question in asked.items()}
    known: dict[str, Any] = json.loads(params.request_state or "{}")
    given = {key: _plain(answer) for key, answer in (params.input_responses or {}).items()}
    for asked in rounds:
        if all(key in known for key in asked):
            continue
        if not all(key in given for key in asked):
            return t.InputRequiredResult(input_requests=dict(asked), request_state=json.dumps(known))
        known |= {key: given[key] for key in asked}
    return known


async def _ask(ctx: Ctx, question: Question) -> Any:
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    return _plain(await ctx.session.send_request(question, _RESULTS[question.method], metadata=related))


def _plain(answer: t.Result) -> Any:
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)


_DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}
_OPTIONS = ["option1", "option2", "option3"]
_ENUMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": [{"const": f"value{n}", "title": f"{word} Option"} for n, word in ((1, "First"), (2, "Second"))],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}]},
        },
    },
    "required": [],
}
_NAME = form("What is your name?", strings("name"))
_CONFIRM = form("Please confirm", {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
_RESULT = "test_input_required_result"

ASKING: Mapping[str, Asking] = {
    "test_elicitation": Asking(
        rounds=({"user": form("Who are you?", strings("username", "email"))},),
        words="User response",
        arguments=("message",),
    ),
    "test_elicitation_sep1034_defaults": Asking(rounds=({"user": form("Please check", _DEFAULTS)},)),
    "test_elicitation_sep1330_enums": Asking(rounds=({"user": form("Please choose", _ENUMS)},)),
    "test_streaming_elicitation": Asking(rounds=({"user": _NAME},)),
    "test_sampling": Asking(
        rounds=({"reply": sampling("Say something")},), words="LLM response", arguments=("prompt",)
    ),
    f"{_RESULT}_elicitation": Asking(rounds=({"user_name": _NAME},), words="Hello"),
    f"{_RESULT}_sampling": Asking(rounds=({"capital_question": sampling("What is the capital of France?")},)),
    f"{_RESULT}_list_roots": Asking(rounds=({"client_roots": t.ListRootsRequest()},)),
    f"{_RESULT}_request_state": Asking(rounds=({"confirm": _CONFIRM},), words="state-ok"),
    f"{_RESULT}_tampered_state": Asking(rounds=({"confirm": _CONFIRM},)),
    f"{_RESULT}_multi_round": Asking(
        rounds=(
            {"step1": form("Step 1: What is your name?", strings("name"))},
            {"step2": form("Step 2: What is your favorite color?", strings("color"))},
        )
    ),
    f"{_RESULT}_multiple_inputs": Asking(
        rounds=(
            {
                "user_name": _NAME,
                "greeting": sampling("Generate a greeting", tokens=50),
                "client_roots": t.ListRootsRequest(),
            },
        )
    ),
    f"{_RESULT}_capabilities": Asking(rounds=({"capital_question": sampling("What is the capital of France?")},)),
}
