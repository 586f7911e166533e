"""A list of an MCP server, read page by page and within bounds."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.sources.mcp.transport import MAX_MESSAGE, McpClientError

MAX_PAGES = 1_000
MAX_LIST = 2 * MAX_MESSAGE
"""Bytes of all pages of a list together."""

_decode_page = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_definitions = msgspec.json.Decoder(list[Raw]).decode
_decode_cursor = msgspec.json.Decoder(str | None).decode


async def read_pages(
    ask: Callable[[dict[str, Any]], Awaitable[Raw]], method: str, member: str, *, most: int
) -> list[Raw]:
    """The raw definitions of a whole list; `member` is where a page has them. `ask` sends `method` with parameters."""
    found: list[Raw] = []
    params: dict[str, Any] = {}
    seen: set[str] = set()
    size = 0
    for _ in range(MAX_PAGES):
        answer = await ask(params)
        size += memoryview(answer).nbytes
        if size > MAX_LIST:
            raise McpClientError(f"The server's answers to {method} have more than the {MAX_LIST:,} bytes allowed.")
        try:
            page = _decode_page(answer)
            found += _decode_definitions(page.get(member, b"null"))
            following = _decode_cursor(page.get("nextCursor", b"null"))
        except UNREADABLE as fault:
            raise McpClientError(f"The server's answer to {method} is not valid MCP: {fault}.") from None
        if not following or following in seen or len(found) > most:
            break
        seen.add(following)
        params = {"cursor": following}
    return found
