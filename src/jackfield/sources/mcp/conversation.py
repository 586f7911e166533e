"""What a server says or asks while a call runs, in our words.

Above: `upstream.py`. Below: the invocation's own ways to report and to ask. A server that asks for what we cannot give
(a model's answer that its operator did not allow, the caller's folders) is told so.
"""

import logging
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from jackfield.model.redaction import cut
from jackfield.sources.base import Elicit, ElicitRequest, LogNote, Progress
from jackfield.sources.hidden import Unremovable, cleaned, cleaned_schema
from jackfield.sources.mcp.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from jackfield.sources.mcp.messages import encoded
from jackfield.sources.mcp.sampling import Sample

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
