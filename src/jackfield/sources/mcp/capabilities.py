"""What a server is told about the client behind a call, and its word that it needs more of it."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from jackfield.model.call import Failed
from jackfield.model.trace_context import incoming_trace
from jackfield.protocol.jsonrpc import RpcError
from jackfield.protocol.mcp import TASKS
from jackfield.sources.client import MISSING_CAPABILITY, URL_REQUIRED, CallerClient
from jackfield.sources.foreign import cleaned
from jackfield.sources.mcp.reading import failed_read

MAX_URLS, MAX_URL = 5, 2_000
_ELICITATION: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
_NOTHING: Mapping[str, Any] = {}
_WITH_MODEL: dict[str, Any] = {**_ELICITATION, "sampling": {}}


def shown_capabilities(client: CallerClient | None, *, has_model: bool) -> dict[str, Any]:
    """What can be asked during one call: of its client, and of the gateway where the client cannot.

    A question always finds somebody. `has_model`: the operator lends this server a model.
    """
    own = _WITH_MODEL if has_model else _ELICITATION
    if client is None or not client.capabilities:
        return own
    declared = {key: value for key, value in client.capabilities.items() if key in ("sampling", "roots")}
    extensions = client.capabilities.get("extensions")
    if isinstance(extensions, dict):
        # Tasks are the gateway's own matter: it follows those of its servers itself.
        declared["extensions"] = {name: value for name, value in extensions.items() if name != TASKS}
    return {**own, **declared}


def with_tasks(capabilities: dict[str, Any]) -> dict[str, Any]:
    """These, and that a call may be answered with a task."""
    return {**capabilities, "extensions": {**capabilities.get("extensions", {}), TASKS: {}}}


def sent_meta(client: CallerClient | None) -> Mapping[str, Any]:
    """The `_meta` of a call: what its client sent, and the trace that the call belongs to."""
    given = _NOTHING if client is None else client.meta
    trace = incoming_trace.get()
    if trace is None:
        return given
    carried = {"traceparent": trace.parent, "tracestate": trace.state}
    return {**given, **{key: value for key, value in carried.items() if value is not None}}


def missing_capability(error: RpcError, tool: str) -> Failed:
    """A server's -32021. `/mcp` passes it on to clients that can act on it; others are told in words."""
    text = f"The server of '{tool}' needs a client that can do more: {error.message}"
    return Failed(MISSING_CAPABILITY, text, failed_read(error).result)


class _Opened(Struct):
    url: str = ""
    message: str = ""


class _Required(Struct):
    elicitations: list[_Opened] = []


def url_required(error: RpcError, tool: str) -> Failed:
    """A server's -32042. `/mcp` passes it on to clients that can show the url; others are told in words."""
    try:
        wanted = msgspec.convert(error.data, _Required).elicitations[:MAX_URLS]
    except msgspec.ValidationError:
        wanted = []
    urls = [cleaned(one.url)[:MAX_URL] for one in wanted if one.url.startswith(("https://", "http://"))]
    opened = " and ".join(urls) or "a page"
    text = f"The server of '{tool}' needs somebody to open {opened} first: {error.message} Then call it again."
    return Failed(URL_REQUIRED, text, failed_read(error).result)
