"""`GET /api/v1/calls/{id}/result`: a result by pages, for those that are too large to travel with their call.

Above: `routes.py`. Below: the store, which keeps a large result apart. Who may see the call's record may read its
result; a small one is read by the same door.
"""

from typing import Annotated

from msgspec import Meta, Struct

from jackfield.errors import BadRequest, Conflict
from jackfield.model.large_result import SMALLEST_PAGE
from jackfield.web.answers import Answer, json_reply
from jackfield.web.calls import visible_call
from jackfield.web.visit import Visit

PAGE_BYTES = 100_000
LARGEST_PAGE = 1_000_000
MOST_BYTES = 1_000_000_000
"""No result is larger: no database takes more in one piece."""


class ResultQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which piece of the result's JSON text, in bytes of UTF-8. Pages begin and end between characters."""

    offset: Annotated[
        int, Meta(ge=0, le=MOST_BYTES, description="Where to begin: the `next_offset` of the page before")
    ] = 0
    limit: Annotated[int, Meta(ge=SMALLEST_PAGE, le=LARGEST_PAGE, description="How many bytes of the text at most")] = (
        PAGE_BYTES
    )


async def show_result(visit: Visit) -> Answer:
    """A page of the result of a settled call."""
    wanted = visit.query(ResultQuery)
    call = await visible_call(visit)
    if not call.status.is_final:
        raise Conflict(
            f"Call '{call.id}' is {call.status.value} and has no result yet. GET /api/v1/calls/{call.id}?wait=60 "
            "answers when it has."
        )
    page = await visit.gateway.store.large_results.page(call, offset=wanted.offset, limit=wanted.limit)
    if page.offset > page.size:
        raise BadRequest(
            f"The result of call '{call.id}' has {page.size} bytes; there is nothing at {page.offset}. "
            "Begin with 0 and go on with each page's 'next_offset'.",
            param="offset",
        )
    return json_reply(page)
