"""The body of `POST /v1/responses`: keys, limits, defaults. Every error is a 400 that names the parameter. Pure.

Above: `api.py` and `socket.py`. Below: `input.py` and `tools.py`. Unknown keys are ignored, since OpenAI's clients
send more than Open Responses defines; those that would change the response are refused.
"""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct

from jackfield.errors import BadRequest
from jackfield.model.response_request import CreateResponse, EventNames, ReasoningOptions, TextOptions
from jackfield.protocol.json_bodies import bad_value
from jackfield.responses.input import read_input
from jackfield.responses.tools import read_choice, read_tools

MAX_METADATA = 16
EVENT_NAMES: tuple[EventNames, ...] = get_args(EventNames)
EVENTS_HEADER = b"jackfield-events"
_NOT_HERE = {
    "conversation": "Conversations are not kept. Continue one with 'previous_response_id'.",
    "prompt": "Prompts are not kept here. Send 'instructions' and 'input'.",
}
_FORMATS = ("text", "json_object", "json_schema")
_Short = Annotated[str, Meta(max_length=64)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]
_Positive = Annotated[int, Meta(ge=1)]


class ReasoningBody(Struct, frozen=True, kw_only=True):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: Literal["concise", "detailed", "auto"] | None = None


class TextBody(Struct, frozen=True, kw_only=True):
    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ResponseBody(Struct, frozen=True, kw_only=True):
    """A request for a response, as Open Responses 2026-04-24 spells it, with what seed 001 adds."""

    model: Annotated[str, Meta(min_length=1, max_length=200)]
    input: str | list[Any] | None = None
    """What is said now: text, or items."""
    instructions: str | None = None
    previous_response_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    allowed_tools: list[str] | None = None
    parallel_tool_calls: bool | None = None
    max_tool_calls: _Positive | None = None
    max_output_tokens: _Positive | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    reasoning: ReasoningBody | None = None
    text: TextBody | None = None
    truncation: Literal["auto", "disabled"] | None = None
    include: list[str] | None = None
    metadata: dict[_Short, Annotated[str, Meta(max_length=512)]] | None = None
    safety_identifier: _Short | None = None
    prompt_cache_key: _Short | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = None
    user: str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    background: bool | None = None


def read_event_names(header: str | None) -> EventNames | None:
    """What the header `Jackfield-Events` asks for; raises `BadRequest`."""
    for names in EVENT_NAMES:
        if header == names:
            return names
    if header is not None:
        raise BadRequest(f"The header Jackfield-Events is {header[:60]!r}. Use {' or '.join(EVENT_NAMES)}.")
    return None


def read_request(body: dict[str, Any], *, event_names: EventNames | None = None) -> CreateResponse:
    """What a body asks for; raises `BadRequest`."""
    for key, cure in _NOT_HERE.items():
        if body.get(key) is not None:
            raise BadRequest(f"'{key}' is not supported. {cure}", param=key)
    given = {key: value for key, value in body.items() if value is not None}
    try:
        asked = msgspec.convert(given, ResponseBody)
    except msgspec.ValidationError as fault:
        raise bad_value(fault, what="The body", into=ResponseBody) from None
    _check_together(asked)
    return CreateResponse(
        model=asked.model,
        input=() if asked.input is None else read_input(asked.input),
        instructions=asked.instructions,
        previous_response_id=asked.previous_response_id,
        tools=read_tools(asked.tools or []),
        tool_choice=read_choice(asked.tool_choice, allowed=tuple(asked.allowed_tools or ())),
        parallel_tool_calls=asked.parallel_tool_calls is not False,
        max_tool_calls=asked.max_tool_calls,
        max_output_tokens=asked.max_output_tokens,
        temperature=asked.temperature,
        top_p=asked.top_p,
        presence_penalty=asked.presence_penalty,
        frequency_penalty=asked.frequency_penalty,
        top_logprobs=asked.top_logprobs,
        reasoning=_reasoning(asked.reasoning),
        text=_text(asked.text),
        truncation=asked.truncation or "disabled",
        include=tuple(asked.include or ()),
        metadata=asked.metadata or {},
        safety_identifier=asked.safety_identifier,
        prompt_cache_key=asked.prompt_cache_key,
        service_tier="default" if asked.service_tier in (None, "auto") else asked.service_tier,
        user=asked.user,
        store=asked.store is not False,
        stream=asked.stream is True,
        background=asked.background is True,
        event_names=event_names,
    )


def _check_together(asked: ResponseBody) -> None:
    if not asked.input and asked.input != "" and asked.previous_response_id is None:
        raise BadRequest("The body needs the key 'input': a text, or items. Add it.", param="input")
    if asked.background and asked.store is False:
        raise BadRequest("A background response must be kept. Leave out 'store', or 'background'.", param="store")
    if len(asked.metadata or ()) > MAX_METADATA:
        raise BadRequest(f"'metadata' has more than {MAX_METADATA} keys. Send fewer.", param="metadata")


def _reasoning(given: ReasoningBody | None) -> ReasoningOptions | None:
    return None if given is None else ReasoningOptions(effort=given.effort, summary=given.summary)


def _text(given: TextBody | None) -> TextOptions:
    wanted = (given.format if given is not None else None) or {"type": "text"}
    kind = wanted.get("type")
    if kind not in _FORMATS:
        raise BadRequest(
            f"'text.format.type' is {str(kind)[:60]!r}. Known: {', '.join(_FORMATS)}.", param="text.format.type"
        )
    if kind == "json_schema":
        if not isinstance(wanted.get("name"), str) or not isinstance(wanted.get("schema"), dict):
            raise BadRequest("'text.format' of type json_schema needs a 'name' and a 'schema'.", param="text.format")
        wanted = {"description": None, **wanted, "strict": wanted.get("strict") is True}
    verbosity = given.verbosity if given is not None and given.verbosity is not None else UNSET
    return TextOptions(format=wanted, verbosity=verbosity)
