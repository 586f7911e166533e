"""A server asks for a model's answer (MCP's sampling): given where the operator's config allows that server to.

Above: `connection.py`. Below: the models that the gateway lends. The server chooses neither the model nor the tools:
what it asks for costs the operator's money.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from jackfield.errors import JackfieldError
from jackfield.model.items import InputImage, InputText, Message, OutputText, Part
from jackfield.model.redaction import cut
from jackfield.sources.base import Elicit, ElicitRequest, LogNote, Progress, Surroundings
from jackfield.sources.hidden import Unremovable, cleaned, cleaned_schema
from jackfield.sources.mcp.messages import encoded
from jackfield.sources.mcp.transport import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

Sample = Callable[[Raw], Awaitable[Raw]]
MOST_TOKENS = 16_384
MODEL_FAILED = -32603


class _Said(Struct):
    role: Literal["user", "assistant"]
    content: dict[str, Any] | list[dict[str, Any]]


class _Sampling(Struct):
    messages: list[_Said]
    system_prompt: str | None = msgspec.field(default=None, name="systemPrompt")
    max_tokens: int = msgspec.field(default=1024, name="maxTokens")


def sampler(surroundings: Surroundings, *, model: str | None) -> Sample:
    """How a source's server gets a model's answer."""

    async def sample(params: Raw) -> Raw:
        try:
            asked = msgspec.json.decode(params, type=_Sampling)
        except msgspec.DecodeError as fault:
            raise RpcError(f"The sampling request is not one: {fault}", number=INVALID_PARAMS) from None
        try:
            text = await surroundings.ask_model(
                tuple(_message(said) for said in asked.messages),
                instructions=asked.system_prompt,
                model=model,
                max_output_tokens=max(1, min(asked.max_tokens, MOST_TOKENS)),
            )
        except JackfieldError as fault:
            raise RpcError(fault.message, number=MODEL_FAILED) from None
        content = {"type": "text", "text": text}
        return encoded({"role": "assistant", "content": content, "model": model or "default", "stopReason": "endTurn"})

    return sample


def _message(said: _Said) -> Message:
    blocks = said.content if isinstance(said.content, list) else [said.content]
    return Message(role=said.role, content=tuple(_part(said.role, block) for block in blocks))


def _part(role: str, block: dict[str, Any]) -> Part:
    if block.get("type") == "image":
        return InputImage(image_url=f"data:{block.get('mimeType', 'image/png')};base64,{block.get('data', '')}")
    text = str(block.get("text", ""))
    return OutputText(text=text) if role == "assistant" else InputText(text=text)


ELICIT = "elicitation/create"
LONGEST_LOG = 2_000
LONGEST_KEY = 200
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


class _Log(Struct):
    level: str = "info"
    logger: str | None = None
    data: Any = None


class _Elicitation(Struct):
    message: str
    mode: str = "form"
    schema: dict[str, Any] | None = msgspec.field(default=None, name="requestedSchema")
    url: str | None = None


def as_progress(params: Raw) -> tuple[int | None, Progress | None]:
    """Which request it is about, and how far that is."""
    try:
        said = msgspec.json.decode(params, type=_Progress)
    except msgspec.DecodeError:
        return None, None
    number = said.token if isinstance(said.token, int) else None
    message = None if said.message is None else cut(cleaned(said.message), LONGEST_LOG)
    return number, Progress(progress=said.progress, total=said.total, message=message)


def log_note(params: Raw) -> tuple[int, LogNote]:
    """A log notification: how grave it is for our own log, and what it says."""
    try:
        said = msgspec.json.decode(params, type=_Log)
    except msgspec.DecodeError:
        return logging.DEBUG, LogNote(level="debug", message="a log notification that cannot be read")
    text = said.data if isinstance(said.data, str) else msgspec.json.encode(said.data).decode()
    level = said.level if said.level in _LEVELS else "info"
    logger = cut(cleaned(said.logger).replace("\n", " "), LONGEST_LOG) if said.logger else None
    note = LogNote(level=level, message=cut(cleaned(text).replace("\n", " "), LONGEST_LOG), logger=logger)
    return _LEVELS[level], note


async def answer_question(
    method: str, params: Raw, *, elicit: Elicit | None, sample: Sample | None = None, key: str | None = None
) -> Raw:
    """The answer to what a server asks. Raises `RpcError` for what we do not answer."""
    if method == "ping":
        return Raw(b"{}")
    if method == "sampling/createMessage" and sample is not None:
        return await sample(params)
    if method != ELICIT:
        raise RpcError(f"This gateway does not answer {method}.", number=METHOD_NOT_FOUND)
    request = _elicitation(params)
    if key is not None:
        request = replace(request, key=cleaned(key)[:LONGEST_KEY])
    if elicit is None:
        return encoded({"action": "decline"})
    answer = await elicit(request)
    if answer.action != "accept" or request.schema is None:
        return encoded({"action": answer.action})
    return encoded({"action": "accept", "content": answer.content or {}})


def _elicitation(params: Raw) -> ElicitRequest:
    try:
        said = msgspec.json.decode(params, type=_Elicitation)
        schema = None if said.schema is None else cleaned_schema(said.schema)
    except (msgspec.DecodeError, Unremovable, RecursionError):
        raise RpcError("The question is not one that can be asked.", number=INVALID_PARAMS) from None
    if said.mode == "url":
        if not (said.url or "").startswith(("https://", "http://")):
            raise RpcError("Only http and https urls are shown to people.", number=INVALID_PARAMS)
        return ElicitRequest(message=cleaned(said.message), url=said.url)
    return ElicitRequest(message=cleaned(said.message), schema=schema or {"type": "object", "properties": {}})
