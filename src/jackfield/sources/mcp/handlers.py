"""What a server sends while a call runs: progress, log messages, and requests of its own.

Elicitation, sampling and roots are put to the client behind the call, as far as it declares them. Where it has no
sampling, a model's answer is given if the operator's config allows it to that server, which then chooses neither the
model nor the tools, since the operator pays. Any other request is refused.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from jackfield.errors import JackfieldError
from jackfield.model.call import on_one_line
from jackfield.model.content import without_connection
from jackfield.model.items import InputImage, InputText, Message, OutputText, Part
from jackfield.model.redaction import cut
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, NO_PARAMS, RpcError
from jackfield.protocol.jsonrpc import encode as encode_json
from jackfield.protocol.mcp import ELICIT, RELATED_TASK, ROOTS, SAMPLE, SUBSCRIPTION_KEY
from jackfield.sources.base import LogNote, Progress, SourceContext
from jackfield.sources.client import (
    AskClient,
    ClientAnswer,
    ClientRequest,
    ElicitAnswer,
    ElicitRequest,
    RootsRequest,
    SampleRequest,
)
from jackfield.sources.foreign import MAX_URI, Unremovable, cleaned, cleaned_schema, is_plain

Sample = Callable[[Raw], Awaitable[Raw]]
MAX_TOKENS = 16_384
MAX_LOG = 2_000
MAX_LOG_DATA = 16 * 1024
"""Bytes of JSON in a log message, or beside progress."""
NO_DATA = Raw(b"null")
MAX_KEY = 200
MAX_SAMPLING = 4 * 1024 * 1024
"""Bytes of what a client's model may be asked."""
DECLINED = ElicitAnswer(action="decline")
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.ERROR,
    "alert": logging.ERROR,
    "emergency": logging.ERROR,
}


class _Progress(Struct):
    token: int | str = msgspec.field(name="progressToken")
    progress: float
    total: float | None = None
    message: str | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")


class _Log(Struct):
    level: str = "info"
    logger: str | None = None
    data: Raw = NO_DATA


class _Elicitation(Struct):
    message: str
    mode: str = "form"
    schema: dict[str, Any] | None = msgspec.field(default=None, name="requestedSchema")
    url: str | None = None
    id: str = msgspec.field(default="", name="elicitationId")


def as_progress(params: Raw) -> tuple[int | None, Progress | None]:
    """The number of the request that a progress notification belongs to, and the progress."""
    try:
        said = msgspec.json.decode(params, type=_Progress)
    except UNREADABLE:
        return None, None
    number = said.token if isinstance(said.token, int) else None
    message = None if said.message is None else cut(cleaned(said.message), MAX_LOG)
    meta = without_connection(said.meta) if said.meta else None
    told = UNSET if meta is None or memoryview(meta).nbytes > MAX_LOG_DATA else meta
    return number, Progress(progress=said.progress, total=said.total, message=message, meta=told)


class _Updated(Struct):
    uri: str


class _Acknowledged(Struct):
    meta: dict[str, Any] = msgspec.field(default={}, name="_meta")


def updated_uri(params: Raw) -> str | None:
    """The resource that changed; None for a notification that cannot be read, or names what cannot be a resource."""
    try:
        uri = msgspec.json.decode(params, type=_Updated).uri
    except UNREADABLE:
        return None
    return uri if len(uri) <= MAX_URI and is_plain(uri) else None


def subscription_number(params: Raw) -> int | None:
    """The number of the subscription that a notification belongs to."""
    try:
        said = msgspec.json.decode(params, type=_Acknowledged).meta.get(SUBSCRIPTION_KEY)
    except UNREADABLE:
        return None
    return said if isinstance(said, int) else int(said) if isinstance(said, str) and said.isdecimal() else None


class _OfTask(Struct):
    meta: dict[str, Any] = msgspec.field(default={}, name="_meta")


def related_task(params: Raw) -> str | None:
    """The task of 2025-11-25 that a server's request belongs to."""
    try:
        found = msgspec.json.decode(params, type=_OfTask).meta.get(RELATED_TASK)
    except UNREADABLE:
        return None
    task = found.get("taskId") if isinstance(found, dict) else None
    return task if isinstance(task, str) else None


class _Elicited(Struct):
    id: str = msgspec.field(name="elicitationId")


def opened_id(params: Raw) -> str | None:
    """Which url was opened, and what it is for is done."""
    try:
        return cleaned(msgspec.json.decode(params, type=_Elicited).id)[:MAX_KEY]
    except UNREADABLE:
        return None


def log_note(params: Raw) -> tuple[int, LogNote]:
    """A log notification: its level for our own log, and what it says."""
    try:
        said = msgspec.json.decode(params, type=_Log)
        data = msgspec.json.decode(said.data)
    except UNREADABLE:
        return logging.DEBUG, LogNote(level="debug", message="a log notification that cannot be read")
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    level = said.level if said.level in _LEVELS else "info"
    logger = cut(cleaned(said.logger).replace("\n", " "), MAX_LOG) if said.logger else None
    whole = cleaned(text)
    message = cut(whole.replace("\n", " "), MAX_LOG)
    is_more = (message != whole or not isinstance(data, str)) and len(bytes(said.data)) <= MAX_LOG_DATA
    passed_on = Raw(encode_json(whole)) if isinstance(data, str) else on_one_line(said.data)
    note = LogNote(level=level, message=message, logger=logger, data=passed_on if is_more else UNSET)
    return _LEVELS[level], note


class ServerRequest(Struct, frozen=True):
    """A request of a server's own, as it came."""

    method: str
    params: Raw = NO_PARAMS
    key: str | None = None
    """What the server calls it; the handshake era has no names for them."""


async def answer_requests(
    asked: Sequence[ServerRequest], *, ask: AskClient | None, sample: Sample | None = None
) -> tuple[Raw, ...]:
    """The results of a server's requests, which are put to the client together. Raises `RpcError` for a refused one."""
    requests = tuple(client_request(one) for one in asked)
    answers = (None,) * len(requests) if ask is None else await ask(requests)
    return tuple([await _result(request, answer, sample) for request, answer in zip(requests, answers, strict=True)])


def client_request(asked: ServerRequest) -> ClientRequest:
    """What is put to a client for a server's request. Raises `RpcError` for one that is refused."""
    named = {} if asked.key is None else {"key": cleaned(asked.key)[:MAX_KEY]}
    if asked.method == ELICIT:
        return replace(_elicitation(asked.params), is_retried=asked.key is not None, **named)
    if asked.method == SAMPLE:
        return SampleRequest(params=_sampling(asked.params), **named)
    if asked.method == ROOTS:
        return RootsRequest(**named)
    raise RpcError(METHOD_NOT_FOUND, f"This gateway does not answer {asked.method[:MAX_KEY]}.")


async def _result(request: ClientRequest, answer: ClientAnswer, sample: Sample | None) -> Raw:
    if isinstance(answer, RpcError):
        raise answer
    if isinstance(request, ElicitRequest):
        return _elicited(request, answer if isinstance(answer, ElicitAnswer) else DECLINED)
    if isinstance(answer, Raw):
        return answer
    if isinstance(request, RootsRequest):
        raise RpcError(METHOD_NOT_FOUND, f"{ROOTS} is refused: the client behind this call has no roots.")
    if sample is None:
        raise RpcError(METHOD_NOT_FOUND, f"{SAMPLE} is refused: the client behind this call offers no model.")
    return await sample(Raw(encode_json(request.params)))


def _elicited(request: ElicitRequest, answer: ElicitAnswer) -> Raw:
    if answer.action != "accept" or request.schema is None:
        return Raw(encode_json({"action": answer.action}))
    return Raw(encode_json({"action": "accept", "content": with_defaults(answer.content or {}, request.schema)}))


def with_defaults(content: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The answer to a form, with the form's own defaults where it leaves something out."""
    properties = schema.get("properties")
    fields = properties.items() if isinstance(properties, dict) else ()
    defaults = {name: field["default"] for name, field in fields if isinstance(field, dict) and "default" in field}
    return {**defaults, **content}


def _sampling(params: Raw) -> dict[str, Any]:
    """The request without what concerns only the connection that it came over."""
    try:
        if memoryview(params).nbytes > MAX_SAMPLING:
            raise RpcError(INVALID_PARAMS, f"The sampling request has more than the {MAX_SAMPLING:,} bytes allowed.")
        asked = msgspec.json.decode(params, type=dict[str, Any])
    except UNREADABLE as fault:
        raise RpcError(INVALID_PARAMS, f"The sampling request is not one: {fault}") from None
    return {key: value for key, value in asked.items() if key not in ("_meta", "task")}


def _elicitation(params: Raw) -> ElicitRequest:
    try:
        said = msgspec.json.decode(params, type=_Elicitation)
        schema = None if said.schema is None else cleaned_schema(said.schema)
    except (*UNREADABLE, Unremovable):
        raise RpcError(INVALID_PARAMS, "The elicitation request is invalid.") from None
    if said.mode == "url":
        if not (said.url or "").startswith(("https://", "http://")):
            raise RpcError(INVALID_PARAMS, "Only http and https urls are shown to people.")
        return ElicitRequest(message=cleaned(said.message), url=said.url, id=cleaned(said.id)[:MAX_KEY])
    return ElicitRequest(message=cleaned(said.message), schema=schema or {"type": "object", "properties": {}})


class _Said(Struct):
    role: Literal["user", "assistant"]
    content: dict[str, Any] | list[dict[str, Any]]


class _Sampling(Struct):
    messages: list[_Said]
    system_prompt: str | None = msgspec.field(default=None, name="systemPrompt")
    max_tokens: int = msgspec.field(default=1024, name="maxTokens")


def sampler(source_context: SourceContext, *, model: str | None) -> Sample:
    """Answers sampling requests with the model of this name, or with the default one."""

    async def sample(params: Raw) -> Raw:
        try:
            asked = msgspec.json.decode(params, type=_Sampling)
        except UNREADABLE as fault:
            raise RpcError(INVALID_PARAMS, f"The sampling request is invalid: {fault}") from None
        try:
            text = await source_context.ask_model(
                tuple(_message(said) for said in asked.messages),
                instructions=asked.system_prompt,
                model=model,
                max_output_tokens=max(1, min(asked.max_tokens, MAX_TOKENS)),
            )
        except JackfieldError as fault:
            raise RpcError(INTERNAL_ERROR, fault.message) from None
        result = {"role": "assistant", "content": {"type": "text", "text": text}, "model": model or "default"}
        return Raw(encode_json({**result, "stopReason": "endTurn"}))

    return sample


def _message(said: _Said) -> Message:
    blocks = said.content if isinstance(said.content, list) else [said.content]
    return Message(role=said.role, content=tuple(_part(said.role, block) for block in blocks))


def _part(role: str, block: dict[str, Any]) -> Part:
    if block.get("type") == "image":
        return InputImage(image_url=f"data:{block.get('mimeType', 'image/png')};base64,{block.get('data', '')}")
    text = str(block.get("text", ""))
    return OutputText(text=text) if role == "assistant" else InputText(text=text)
