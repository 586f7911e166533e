"""Reading resources and getting prompts: the call that is made, and what came of it. For `/mcp` and the HTTP API alike.

Above: `mcp/reading.py` and `reading_api.py`. Below: the pipeline.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest
from jackfield.catalog.catalog import Entry
from jackfield.http.response import encode
from jackfield.model.call import Call
from jackfield.model.principal import Principal, Scope
from jackfield.protocol.jsonrpc import ErrorObject


class _Failure(Struct, frozen=True):
    error: ErrorObject


def reading_request(entry: Entry, arguments: dict[str, Any], *, principal: Principal) -> CallRequest:
    """The call that reads this resource, or gets this prompt with these arguments."""
    return CallRequest(
        tool=entry.name, arguments=arguments, principal=principal, over_http=True, entry=entry, needs=Scope.READ
    )


async def what_was_read(pipeline: Pipeline, call: Call, entry: Entry, *, asked: str | None = None) -> Raw:
    """The whole result of a completed call. `asked`: the URI that was asked for, which the contents carry then."""
    result = await pipeline.whole_result(call)
    assert result is not None
    own_uri = entry.tool.name
    return result if asked in (None, own_uri) else _renamed(result, own_uri, asked)


def _renamed(result: Raw, own_uri: str, asked: str | None) -> Raw:
    read = msgspec.json.decode(result)
    for part in read.get("contents", ()):
        if isinstance(part, dict) and part.get("uri") == own_uri:
            part["uri"] = asked
    return Raw(encode(read))


def server_error(result: Raw | None) -> ErrorObject | None:
    """The error of the server itself, in the result of a failed call that keeps it whole."""
    if result is None:
        return None
    try:
        return msgspec.json.decode(result, type=_Failure).error
    except msgspec.DecodeError:
        return None
