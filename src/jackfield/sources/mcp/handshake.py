"""The handshake: which revision of MCP a server speaks.

`server/discover` is asked for at 2026-07-28; any answer that is not of that era leads to `initialize`. A silent server
costs a bounded time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.protocol.jsonrpc import NO_PARAMS, RpcError
from jackfield.protocol.jsonrpc import encode as encode_json
from jackfield.protocol.mcp import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    DISCOVER,
    HANDSHAKE,
    INITIALIZE,
    LATEST_HANDSHAKE,
    MODERN,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    routing_headers,
)
from jackfield.sources.foreign import cleaned
from jackfield.sources.mcp.transport import ClientTransport, McpClientError

CLIENT_INFO = {"name": "jackfield", "version": version("jackfield")}
MAX_INSTRUCTIONS = 4_000
_MODERN_META: dict[str, Any] = {VERSION_KEY: MODERN, CLIENT_KEY: CLIENT_INFO}

Ask = Callable[[str, Raw, Mapping[str, str]], Awaitable[Raw]]
"""`ask(method, params, headers)`"""


class Agreement(Struct, frozen=True, kw_only=True):
    """What the handshake came to; it holds as long as the connection."""

    revision: str
    is_modern: bool
    capabilities: dict[str, Any] = {}
    """The server's, as it declares them."""
    meta: dict[str, Any]
    """The `_meta` of every request since 2026-07-28, without our capabilities."""
    instructions: str = ""
    """How the server's tools are used, in its own words."""

    def offers(self, feature: str) -> bool:
        """Whether the server declares `tools`, `resources`, `prompts`, …; one that declares nothing has tools."""
        return feature in self.capabilities or (feature == "tools" and not self.capabilities)

    def extension(self, name: str) -> dict[str, Any] | None:
        """The settings of an extension that the server declares."""
        declared = self.capabilities.get("extensions")
        settings = declared.get(name) if isinstance(declared, dict) else None
        return settings if isinstance(settings, dict) else None

    def tells_of(self, feature: str, what: str = "listChanged") -> bool:
        """Whether it notifies when that list changes, or with `subscribe` when a resource does."""
        declared = self.capabilities.get(feature)
        return isinstance(declared, dict) and bool(declared.get(what))


class _Discovered(Struct):
    supportedVersions: list[str]  # noqa: N815 - MCP's spelling
    capabilities: dict[str, Any] = {}
    instructions: Any = None


class _Initialized(Struct):
    protocolVersion: str  # noqa: N815 - MCP's spelling
    capabilities: dict[str, Any] = {}
    instructions: Any = None


async def agree(
    transport: ClientTransport,
    ask: Ask,
    *,
    capabilities: dict[str, Any],
    probe_seconds: float,
    handshake_only: bool = False,
) -> Agreement:
    """Find a common revision. Raises `McpClientError` when there is none, or no server. `capabilities` are ours."""
    initialize = partial(_initialize, transport, ask, capabilities)
    if handshake_only or transport.legacy_only:
        agreement = await initialize()
    else:
        agreement = await _either(_discover(ask), initialize, probe_seconds)
    transport.agreed(agreement.revision, is_modern=agreement.is_modern)
    if not agreement.is_modern:
        await transport.notify("notifications/initialized", NO_PARAMS)
    return agreement


async def _either(
    discover: Coroutine[Any, Any, Agreement | None],
    initialize: Callable[[], Coroutine[Any, Any, Agreement]],
    probe_seconds: float,
) -> Agreement:
    """`server/discover`, and `initialize` as soon as that has failed or is late.

    A late server may be one of the older era, some of which do not answer what they do not know, or one that is only
    slow to start. So both are waited for then, and the first good answer holds.
    """
    probe = asyncio.ensure_future(discover)
    tasks: list[asyncio.Future[Any]] = [probe]
    try:
        await asyncio.wait((probe,), timeout=probe_seconds)
        if probe.done():
            return probe.result() or await initialize()
        handshake = asyncio.ensure_future(initialize())
        tasks.append(handshake)
        while not (probe.done() and handshake.done()):
            await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)
            found = _result_of(probe) or _result_of(handshake)
            if found is not None:
                return found
        return handshake.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _result_of(task: "asyncio.Future[Any]") -> Agreement | None:
    if not task.done() or task.exception() is not None:
        return None
    found: Agreement | None = task.result()
    return found


async def _discover(ask: Ask) -> Agreement | None:
    """None: not a server of this era."""
    try:
        try:
            found = await _discovered(ask)
        except RpcError as error:
            if MODERN not in _supported(error):
                raise
            found = await _discovered(ask)  # it refused what it says it speaks, so it is asked once more
    except UNREADABLE:
        return None
    except RpcError as error:
        supported = _supported(error)
        if supported and MODERN not in supported and not set(supported) & set(HANDSHAKE):
            said = ", ".join(supported)
            raise McpClientError(f"The server speaks only revisions of MCP that we do not: {said}.") from None
        return None
    return _agreement(MODERN, found, is_modern=True) if MODERN in found.supportedVersions else None


async def _discovered(ask: Ask) -> _Discovered:
    params = Raw(encode_json({"_meta": {**_MODERN_META, CAPABILITIES_KEY: {}}}))
    return msgspec.json.decode(await ask(DISCOVER, params, routing_headers(MODERN, DISCOVER)), type=_Discovered)


async def _initialize(transport: ClientTransport, ask: Ask, capabilities: dict[str, Any]) -> Agreement:
    params = {"protocolVersion": LATEST_HANDSHAKE, "capabilities": capabilities, "clientInfo": CLIENT_INFO}
    try:
        raw = await ask(INITIALIZE, Raw(encode_json(params)), {})
        found = msgspec.json.decode(raw, type=_Initialized)
    except RpcError as error:
        hint = _hint(transport, error)
        raise McpClientError(f"The server refused the handshake: {error.message}{hint}") from None
    except UNREADABLE as fault:
        raise McpClientError(f"The server's handshake is not valid MCP: {fault}.") from None
    if found.protocolVersion not in HANDSHAKE:
        raise McpClientError(f"The server speaks revision '{found.protocolVersion}' of MCP, which we do not.")
    return _agreement(found.protocolVersion, found, is_modern=False)


def _agreement(revision: str, found: _Discovered | _Initialized, *, is_modern: bool) -> Agreement:
    # The instructions are foreign text for a model: without hidden characters, and bounded.
    said = found.instructions if isinstance(found.instructions, str) else ""
    return Agreement(
        revision=revision,
        is_modern=is_modern,
        capabilities=found.capabilities,
        meta=_MODERN_META if is_modern else {},
        instructions=cleaned(said).strip()[:MAX_INSTRUCTIONS],
    )


def _hint(transport: ClientTransport, error: RpcError) -> str:
    status = error.data.get("status") if isinstance(error.data, dict) else None
    if status in (401, 403):
        return " Check the source's headers."
    if status in (404, 405) and not transport.legacy_only:
        return ' Check the url; for a server of 2024, set transport = "sse".'
    return ""


def _supported(error: RpcError) -> list[str]:
    said = error.data.get("supported") if isinstance(error.data, dict) else None
    if error.number != UNSUPPORTED_VERSION or not isinstance(said, list):
        return []
    return [revision for revision in said if isinstance(revision, str)]
