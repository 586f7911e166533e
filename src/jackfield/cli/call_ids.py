"""Calls by their id or its beginning, as people type it."""

from collections.abc import Awaitable, Callable, Sequence

from jackfield.cli.options import UsageError
from jackfield.errors import CallNotFound
from jackfield.sdk import CallRecord, Client

_PREFIX = "call_"
_SHORTEST_ID = 4
"""Characters of an id that must be given: a typo must not approve a call."""
_LISTED = 5


async def find_call(
    client: Client, text: str, *, among: Callable[[], Awaitable[Sequence[CallRecord]]], what: str, see: str
) -> CallRecord:
    """The call with this id, or the only one of `among` whose id begins so.

    `what`: such as 'pending call'. `see`: a sentence on where they are listed.
    """
    try:
        return await client.calls.get(text)
    except CallNotFound:
        prefix = _PREFIX + text.removeprefix(_PREFIX)
    if len(prefix) < len(_PREFIX) + _SHORTEST_ID:
        raise UsageError(f"'{text}' is too short for an id. Give more of it; {see}")
    found = [call for call in await among() if call.id.startswith(prefix)]
    if not found:
        raise CallNotFound(f"There is no call '{text}' and no {what} with that prefix. {see}", param="id")
    if len(found) > 1:
        listed = ", ".join(f"{call.id} ({call.tool})" for call in found[:_LISTED])
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        raise UsageError(f"'{text}' is ambiguous: {listed}{more}. Give more of the id.")
    return found[0]
