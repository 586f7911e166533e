"""Results that are kept apart from their calls, because they are large: read whole or by pages.

They are written by `moves.py`, with the move that settles the call, and go with their call when it is pruned.
Above: the door that gives pages, and the pipeline for tools that call tools. Below: `model/large_result.py`.
"""

from functools import partial

from msgspec import Raw

from jackfield.model.call import NULL, Call
from jackfield.model.large_result import ResultPage, digest_of, may_be_notice, page_of, window
from jackfield.store.base import Store
from jackfield.store.scripts import one


async def result_page(store: Store, call: Call, *, offset: int, limit: int) -> ResultPage:
    """Up to `limit` bytes of a settled call's result, large or small; none where it does not reach to `offset`."""
    first, count = window(offset, limit)
    row = None
    if may_be_notice(call.result, call.id):
        values = {"call_id": call.id, "first": first + 1, "count": count}
        row = await store.read(partial(one, "part_of_large_result", **values))
    if row is None:
        body = bytes(NULL if call.result is None else call.result)
        size, digest, read = len(body), digest_of(body), body[first : first + count]
    else:
        size, digest, read = row["size"], row["digest"], row["part"]
    return page_of(read, call_id=call.id, digest=digest, size=size, offset=offset, limit=limit)


async def whole_result(store: Store, call: Call) -> Raw | None:
    """A settled call's result, large or small."""
    if not may_be_notice(call.result, call.id):
        return call.result
    row = await store.read(partial(one, "get_large_result", call_id=call.id))
    return call.result if row is None else Raw(row["body"])
