"""One request to a service and its whole answer, on a connection that is kept for the next one.

Above: `calling.py`. Below: `outgoing`. What cannot be reached, broke off or took too long raises its `OutgoingError`;
only `OutgoingNotSent` says that the service has seen nothing of the request.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing

import httpx2

from jackfield.sources.outgoing import Answer, Outgoing, OutgoingBadAnswer, OutgoingTimedOut, StreamedAnswer
from jackfield.sources.outgoing.urls import parse_url, with_params


async def exchange(
    outgoing: Outgoing,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    params: tuple[tuple[str, str], ...] = (),
    content: bytes | None = None,
    seconds: float,
    max_bytes: int,
    named_by: str,
) -> Answer:
    """Send one request and read its answer to the end, within `seconds` and `max_bytes`."""
    target = str(with_params(parse_url(url), params)) if params else url
    try:
        async with asyncio.timeout(seconds):
            answer = await outgoing.send(method, target, headers=headers, content=content, named_by=named_by)
            body = await _body(answer, max_bytes)
    except TimeoutError:
        raise OutgoingTimedOut(f"It did not answer within {seconds:g} s.") from None
    return Answer(status=answer.status_code, headers=httpx2.Headers(answer.headers), content=body, url=target)


async def _body(answer: StreamedAnswer, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async with aclosing(answer.aiter_bytes()) as incoming:
            async for part in incoming:
                size += len(part)
                if size > max_bytes:
                    raise OutgoingBadAnswer(f"It answered with more than the {max_bytes:,} bytes allowed.")
                parts.append(part)
    finally:
        await answer.aclose()
    return b"".join(parts)
