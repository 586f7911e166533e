"""Which revision a server speaks: the newer way to find out first, then the older one.

Above: `upstream.py`. Below: a wire. `server/discover` is asked for at 2026-07-28; whatever answer is not that of a
server of this era leads to `initialize`. A silent server costs a bounded time, whatever it is silent about.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.sources.hidden import cleaned
from jackfield.sources.mcp.messages import encoded
from jackfield.sources.mcp.routing import routing_headers
from jackfield.sources.mcp.transport import UNSUPPORTED_VERSION, ClientTransport, McpClientError, RpcError

HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_REVISIONS = ("2026-07-28",)
PROTOCOL = "io.modelcontextprotocol/protocolVersion"
CLIENT = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO = {"name": "jackfield", "version": version("jackfield")}
ELICITATION: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
SAMPLING: dict[str, Any] = {"sampling": {}}
LONGEST_INSTRUCTIONS = 4_000

Ask = Callable[[str, Raw, Mapping[str, str]], Awaitable[Raw]]
"""`ask(method, params, headers)`"""


class Agreement(Struct, frozen=True, kw_only=True):
    """What we and the server hold to, for as long as the connection lasts."""

    revision: str
    is_modern: bool
    tells_of_changes: bool
    """Whether the server says when its tools change."""
    instructions: str = ""
    """How the server's tools are used, in its words."""

    def meta(self, capabilities: dict[str, Any]) -> dict[str, Any]:
        """What every request of the newer era carries."""
        if not self.is_modern:
            return {}
        return {PROTOCOL: self.revision, CLIENT: CLIENT_INFO, CAPABILITIES: capabilities}


class _Tools(Struct):
    listChanged: bool | None = None  # noqa: N815 - the wire's spelling


class _Capabilities(Struct, frozen=True):
    tools: _Tools | None = None


class _Discovered(Struct):
    supportedVersions: list[str]  # noqa: N815 - the wire's spelling
    capabilities: _Capabilities = _Capabilities()
    instructions: Any = None


class _Initialized(Struct):
    protocolVersion: str  # noqa: N815 - the wire's spelling
    capabilities: _Capabilities = _Capabilities()
    instructions: Any = None


async def agree(
    wire: ClientTransport, ask: Ask, *, capabilities: dict[str, Any], probe_seconds: float, handshake_only: bool = False
) -> Agreement:
    """Find a common revision. Raises `McpClientError` when there is none, or no server. `capabilities` are ours."""
    initialize = partial(_initialize, wire, ask, capabilities)
    if handshake_only or wire.legacy_only:
        agreement = await initialize()
    else:
        agreement = await _either(_discover(ask, MODERN_REVISIONS[-1]), initialize, probe_seconds)
    wire.agreed(agreement.revision, is_modern=agreement.is_modern)
    if not agreement.is_modern:
        await wire.notify("notifications/initialized", Raw(b"{}"))
    return agreement


async def _either(
    discover: Coroutine[Any, Any, Agreement | None],
    initialize: Callable[[], Coroutine[Any, Any, Agreement]],
    probe_seconds: float,
) -> Agreement:
    """The newer way, and the older one as soon as the newer has failed or is late.

    A late server may be one of the older era, some of which say nothing to what they do not know, or one that is only
    slow to start. So both are waited for then, and the first good answer holds.
    """
    probe = asyncio.ensure_future(discover)
    tasks: list[asyncio.Future[Any]] = [probe]
    try:
        await asyncio.wait((probe,), timeout=probe_seconds)
        if probe.done():
            return probe.result() or await initialize()
        shaking = asyncio.ensure_future(initialize())
        tasks.append(shaking)
        while not (probe.done() and shaking.done()):
            await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)
            found = _good(probe) or _good(shaking)
            if found is not None:
                return found
        return shaking.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _good(task: "asyncio.Future[Any]") -> Agreement | None:
    if not task.done() or task.exception() is not None:
        return None
    found: Agreement | None = task.result()
    return found


async def _discover(ask: Ask, revision: str, *, again: bool = True) -> Agreement | None:
    """None: not a server of this era."""
    wanted = Agreement(revision=revision, is_modern=True, tells_of_changes=False)
    method, params = "server/discover", {"_meta": wanted.meta({})}
    try:
        raw = await ask(method, encoded(params), routing_headers(revision, method))
        found = msgspec.json.decode(raw, type=_Discovered)
    except msgspec.DecodeError:
        return None
    except RpcError as error:
        supported = _supported(error)
        common = _common(supported, MODERN_REVISIONS)
        if common is not None and again:
            return await _discover(ask, common, again=False)
        if supported and _common(supported, HANDSHAKE_REVISIONS) is None:
            raise McpClientError(
                f"The server speaks only revisions of MCP that we do not: {', '.join(supported)}."
            ) from None
        return None
    common = _common(found.supportedVersions, MODERN_REVISIONS)
    if common is None:
        return None
    return Agreement(
        revision=common,
        is_modern=True,
        tells_of_changes=_tells(found.capabilities),
        instructions=_instructions(found.instructions),
    )


async def _initialize(wire: ClientTransport, ask: Ask, capabilities: dict[str, Any]) -> Agreement:
    params = {"protocolVersion": HANDSHAKE_REVISIONS[-1], "capabilities": capabilities, "clientInfo": CLIENT_INFO}
    try:
        raw = await ask("initialize", encoded(params), {})
        found = msgspec.json.decode(raw, type=_Initialized)
    except RpcError as error:
        hint = _hint(wire, error)
        raise McpClientError(f"The server refused the handshake: {error.message}{hint}") from None
    except msgspec.DecodeError as fault:
        raise McpClientError(f"The server's handshake is not MCP's: {fault}.") from None
    if found.protocolVersion not in HANDSHAKE_REVISIONS:
        raise McpClientError(f"The server speaks revision '{found.protocolVersion}' of MCP, which we do not.")
    return Agreement(
        revision=found.protocolVersion,
        is_modern=False,
        tells_of_changes=_tells(found.capabilities),
        instructions=_instructions(found.instructions),
    )


def _hint(wire: ClientTransport, error: RpcError) -> str:
    status = error.data.get("status") if isinstance(error.data, dict) else None
    if status in (401, 403):
        return " Check the source's headers."
    if status in (404, 405) and not wire.legacy_only:
        return ' Check the url; for a server of 2024, set transport = "sse".'
    return ""


def _supported(error: RpcError) -> list[str]:
    said = error.data.get("supported") if isinstance(error.data, dict) else None
    if error.number != UNSUPPORTED_VERSION or not isinstance(said, list):
        return []
    return [revision for revision in said if isinstance(revision, str)]


def _common(theirs: list[str], ours: tuple[str, ...]) -> str | None:
    return next((revision for revision in reversed(ours) if revision in theirs), None)


def _instructions(said: Any) -> str:
    """Foreign text for a model: without hidden characters, and of a length that leaves room for others."""
    return cleaned(said).strip()[:LONGEST_INSTRUCTIONS] if isinstance(said, str) else ""


def _tells(capabilities: _Capabilities) -> bool:
    return capabilities.tools is not None and bool(capabilities.tools.listChanged)
