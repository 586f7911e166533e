"""Results that are too large to travel with their call: how a notice of one is known, and how it is read by pages.

Above: `calls.py`, and `answers.py`, which knows its own answer again by the digest. Below: `connection.py`.
"""

import hashlib
from typing import Any

import msgspec

from jackfield.sdk.connection import Connection, get
from jackfield.sdk.failures import GatewayFault
from jackfield.sdk.types import LargeResult, ResultPage

PAGE_BYTES = 1_000_000
"""What one request asks for when all is read; the most that a gateway gives."""


def large_result(result: Any, *, call_id: str) -> LargeResult | None:
    """The notice that a call's result is in place of a large one; None for a result that is itself.

    A tool may give a result that looks like a notice; it cannot name a call that it is not.
    """
    if not isinstance(result, dict) or result.get("large_result") is not True or result.get("call_id") != call_id:
        return None
    try:
        return msgspec.convert(result, LargeResult)
    except msgspec.ValidationError:
        return None


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


async def read_page(connection: Connection, path: str, *, offset: int, limit: int | None) -> ResultPage:
    """One piece of the JSON text of a result; `path` is the call's own."""
    response = await connection.ask(get(f"{path}/result", {"offset": offset, "limit": limit}))
    return connection.decode(response.content, ResultPage)


async def read_whole(connection: Connection, path: str) -> Any:
    """All pages, joined, checked against the digest, and read."""
    page = await read_page(connection, path, offset=0, limit=PAGE_BYTES)
    texts = [page.text]
    while page.next_offset is not None:
        begin = page.next_offset
        page = await read_page(connection, path, offset=begin, limit=PAGE_BYTES)
        if page.next_offset is not None and page.next_offset <= begin:
            raise _not_whole(connection, path)
        texts.append(page.text)
    body = "".join(texts).encode()
    if digest_of(body) != page.digest:
        raise _not_whole(connection, path)
    return connection.decode(body, Any)


def _not_whole(connection: Connection, path: str) -> GatewayFault:
    return GatewayFault(
        f"The pages of {connection.url}{path}/result do not give the result that its digest is of. "
        "See whether something between you and the gateway changes answers."
    )
