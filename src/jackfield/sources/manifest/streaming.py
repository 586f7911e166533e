"""A call at another gateway as a stream of its events: progress and log messages on the way, then the answer.

Above: `client.py`, for calls that somebody follows here. Below: the outgoing client.
"""

from contextlib import aclosing

import msgspec
from msgspec import Struct

from jackfield.model.redaction import cut
from jackfield.outgoing import OutgoingBadAnswer, OutgoingResponse, OutgoingUnreachable, StreamedResponse
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.sse import EventParser, ServerEvent
from jackfield.sources.base import Invocation, LogNote, Progress
from jackfield.sources.foreign import cleaned

MEDIA = "text/event-stream"
ACCEPT = f"{MEDIA}, application/json"
RESULT = "call.result"
MAX_TEXT = 2_000


class _CallEvent(Struct):
    progress: Progress | None = None
    log: LogNote | None = None


async def read_answer(response: StreamedResponse, invocation: Invocation, *, max_bytes: int) -> OutgoingResponse:
    """The answer to a call; what comes before it is told. Raises `OutgoingError` where it does not come."""
    try:
        content = await _answer(response, invocation, max_bytes)
    finally:
        await response.aclose()
    return OutgoingResponse(status=response.status, headers=response.headers, content=content, url=response.target.url)


async def _answer(response: StreamedResponse, invocation: Invocation, max_bytes: int) -> bytes:
    if not response.headers.get("content-type", "").startswith(MEDIA):
        return await response.read(max_bytes)
    parser, size = EventParser(), 0
    async with aclosing(response.aiter_bytes()) as parts:
        async for part in parts:
            events = parser.feed(part)
            size = 0 if events else size + len(part)
            if size > max_bytes:
                raise OutgoingBadAnswer(f"The answer has more than the {max_bytes:,} bytes allowed.")
            for event in events:
                if event.type == RESULT:
                    return event.data.encode()
                _tell(event, invocation)
    raise OutgoingUnreachable("The stream of the call ended before its result.")


def _tell(event: ServerEvent, invocation: Invocation) -> None:
    try:
        said = msgspec.json.decode(event.data, type=_CallEvent)
    except UNREADABLE:
        return
    if said.progress is not None:
        message = None if said.progress.message is None else cut(cleaned(said.progress.message), MAX_TEXT)
        invocation.report(msgspec.structs.replace(said.progress, message=message))
    if said.log is not None:
        invocation.note(msgspec.structs.replace(said.log, message=cut(cleaned(said.log.message), MAX_TEXT)))
