"""`client.tools`: the catalog, calling tools, the key's preferences, and serving functions as tools."""

import hashlib
import json
import logging
import os
import re
import secrets
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

from jackfield.protocol.functions import Servables, tool_functions
from jackfield.protocol.records import ToolsChanged
from jackfield.sdk.connection import ApiRequest, GatewayConnection, get, given, read_events, segment, send_json
from jackfield.sdk.errors import GatewayFault, outcome_of
from jackfield.sdk.serving import ServedFunction, ServeOptions, ToolServer
from jackfield.sdk.sources import DefinitionDiff
from jackfield.sdk.types import CallAnswer, CallEvent, EffectiveTool, Refreshed, ScenarioState, ToolInfo

if sys.platform != "win32":
    import fcntl

MOST_SLOTS = 1_000
_ID = re.compile(r"sdk-[0-9a-f]{16}")
_log = logging.getLogger("jackfield.sdk")


@contextmanager
def server_id(url: str, tools: Iterable[str], *, source: str | None) -> Iterator[str]:
    """The id of a server of these tools at that gateway, locked for the duration of the block."""
    identity = json.dumps([url, sorted(tools), source])
    name = hashlib.sha256(identity.encode()).hexdigest()[:16]
    locked = _take_slot(state_folder(), name)
    try:
        yield _new_id() if locked is None else _read_id(locked)
    finally:
        if locked is not None:
            os.close(locked)


def state_folder() -> Path:
    """`$XDG_STATE_HOME/jackfield/servers`, by default in `~/.local/state`."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - never raises
    return Path(base) / "jackfield" / "servers"


def _take_slot(folder: Path, name: str) -> int | None:
    """The first file that no other process has locked, open and locked. None: no file can be written."""
    if sys.platform == "win32":
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for slot in range(MOST_SLOTS):
            locked = os.open(folder / f"{name}.{slot}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(locked)
            except OSError:
                os.close(locked)
                raise
            else:
                return locked
    except OSError as fault:
        _log.info("The id of this tool server cannot be stored, so it changes with every restart: %s", fault)
    return None


def _read_id(locked: int) -> str:
    kept = os.pread(locked, 64, 0).decode(errors="replace").strip()
    if _ID.fullmatch(kept):
        return kept
    fresh = _new_id()
    os.ftruncate(locked, 0)
    os.pwrite(locked, f"{fresh}\n".encode(), 0)
    return fresh


def _new_id() -> str:
    return f"sdk-{secrets.token_hex(8)}"


ApprovalOverride = Literal["", "require", "skip"]
"""Whether calls need approval: as the tool's metadata says, always, never."""
OnEvent = Callable[[CallEvent], None]
"""Receives every event of a running call. Must not block."""
NOT_MODIFIED = 304
ANSWER = "call.result"
"""The last event of a streamed execute; its data is the response of a plain one."""


class Tools:
    """The catalog as this key sees it."""

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection
        self._etag = ""
        self._known: tuple[ToolInfo, ...] = ()

    async def list(self, *, group: str | None = None) -> tuple[ToolInfo, ...]:
        """Every tool, by name, or those of one group. The whole list is not transferred again while it is unchanged."""
        if group is not None:
            return await self._connection.fetch(get("/api/v1/tools", {"group": group}), tuple[ToolInfo, ...], "tools")
        headers = {"If-None-Match": self._etag} if self._etag else {}
        response = await self._connection.send(
            ApiRequest(method="GET", path="/api/v1/tools", headers=headers, repeatable=True, accepted=(NOT_MODIFIED,))
        )
        if response.is_success:
            self._known = self._connection.decode(response.content, tuple[ToolInfo, ...], "tools")
            self._etag = response.headers.get("ETag", "")
        return self._known

    async def get(self, name: str) -> ToolInfo:
        """One tool. Raises `ToolNotFound`."""
        return await self._connection.fetch(get(tool_path(name)), ToolInfo)

    async def search(self, query: str, *, limit: int | None = None, group: str | None = None) -> tuple[ToolInfo, ...]:
        """The tools, or those of one group, that match best, best first."""
        request = get("/api/v1/tools/search", {"q": query, "limit": limit, "group": group})
        return await self._connection.fetch(request, tuple[ToolInfo, ...], "tools")

    async def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        chat_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        on_event: OnEvent | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a tool and return its plain result.

        Arguments are a mapping, keywords, or both. A tool that fails raises `ToolFailed`; a call that needs approval
        or is answered elsewhere raises `CallPending`; a call that was refused raises the gateway's `Refused`.
        `timeout` (seconds) ends the waiting, not the call. A result that is too large to inline is replaced by a
        notice with its `call_id`, which `client.calls.result(call_id)` reads. `on_event` receives the call's events;
        with the blocking client, on another thread.
        """
        answer = await self.start(
            name,
            arguments,
            timeout=timeout,
            agent=agent,
            space_id=space_id,
            chat_id=chat_id,
            run_id=run_id,
            idempotency_key=idempotency_key,
            on_event=on_event,
            **kwargs,
        )
        return outcome_of(name, answer)

    async def start(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        agent: str | None = None,
        space_id: str | None = None,
        chat_id: str | None = None,
        run_id: str | None = None,
        idempotency_key: str | None = None,
        on_event: OnEvent | None = None,
        **kwargs: Any,
    ) -> CallAnswer:
        """Call a tool and return the gateway's whole response, whether the call completed, failed or is pending."""
        body = {
            "arguments": merge_arguments(arguments, kwargs),
            "agent": agent,
            "space_id": space_id,
            "chat_id": chat_id,
            "run_id": run_id,
        }
        request = send_json(
            "POST",
            f"{tool_path(name)}/execute",
            given(body),
            headers={"Idempotency-Key": idempotency_key} if idempotency_key else {},
            repeatable=idempotency_key is not None,
        )
        if on_event is not None:
            return await self._start_streaming(request, on_event, timeout)
        response = await self._connection.send_long(request, timeout=timeout)
        return self._connection.decode(response.content, CallAnswer)

    async def _start_streaming(self, request: ApiRequest, on_event: OnEvent, timeout: float | None) -> CallAnswer:
        """Execute as an event stream: the call's events, then the response as the last one."""
        async with (
            self._connection.deadline(timeout, request),
            self._connection.stream(request) as response,
            aclosing(read_events(response)) as events,
        ):
            async for event in events:
                if event.type == ANSWER:
                    return self._connection.decode(event.data, CallAnswer)
                on_event(self._connection.decode(event.data, CallEvent))
        raise GatewayFault(f"{self._connection.url} ended the call's stream without its answer. See the gateway's log.")

    async def follow(self) -> AsyncGenerator[ToolsChanged, None]:
        """Every change of the catalog from now on, across reconnects, until the iteration is left."""
        async with aclosing(self._connection.follow(get("/api/v1/tools/changes"))) as events:
            async for event in events:
                if event.type == "tools.changed":
                    yield self._connection.decode(event.data, ToolsChanged)

    async def diff(self, name: str) -> DefinitionDiff:
        """What changed in a foreign tool since its definition was pinned. Needs an administrator's key."""
        return await self._connection.fetch(get(f"{tool_path(name)}/diff"), DefinitionDiff)

    async def accept(self, name: str, digest: str | None = None) -> ToolInfo:
        """Accept a tool's changed definition; with the `digest` of a diff, that one and no later."""
        request = send_json("POST", f"{tool_path(name)}/accept", given({"digest": digest}))
        return await self._connection.fetch(request, ToolInfo, "tool")

    async def refuse(self, name: str, digest: str | None = None) -> None:
        """Refuse a tool's changed definition; it stays quarantined. With the `digest` of a diff, that one only."""
        await self._connection.send(send_json("POST", f"{tool_path(name)}/refuse", given({"digest": digest})))

    async def effective(self, chat_id: str | None = None) -> tuple[EffectiveTool, ...]:
        """Every tool with this key's preferences applied, everywhere or in one chat."""
        request = get("/api/v1/tools/set", {"chat_id": chat_id})
        return await self._connection.fetch(request, tuple[EffectiveTool, ...], "tools")

    async def scenarios(self) -> tuple[ScenarioState, ...]:
        """The state of every source of tools."""
        return await self._connection.fetch(get("/api/v1/tools/scenarios"), tuple[ScenarioState, ...])

    async def refresh(self) -> Refreshed:
        """Make every source read its tools again, bypassing caches."""
        return await self._connection.fetch(ApiRequest(method="POST", path="/api/v1/tools/refresh"), Refreshed)

    async def set_enabled(self, name: str, enabled: bool, *, chat_id: str | None = None) -> EffectiveTool:  # noqa: FBT001 - the second word of the sentence
        """Switch a tool on or off for this key. Its approval preference is kept."""
        return await self._set_preference("/api/v1/tools/config", name, {"enabled": enabled, "chat_id": chat_id})

    async def set_approval(self, name: str, override: ApprovalOverride, *, chat_id: str | None = None) -> EffectiveTool:
        """Require approval for every call of a tool, or skip it. Whether it is enabled is kept."""
        preference = {"approval_override": override, "chat_id": chat_id}
        return await self._set_preference("/api/v1/tools/config/approval", name, preference)

    async def reset_preferences(self, name: str, *, chat_id: str | None = None) -> EffectiveTool:
        """Remove this key's preferences for a tool, everywhere or in that chat."""
        tool = await self.get(name)
        params: dict[str, str | int] = {"scenario": tool.source, "tool_name": tool.name, "chat_id": chat_id or ""}
        request = ApiRequest(method="DELETE", path="/api/v1/tools/config", params=params)
        return await self._connection.fetch(request, EffectiveTool, "tool")

    async def _set_preference(self, path: str, name: str, preference: Mapping[str, Any]) -> EffectiveTool:
        tool = await self.get(name)
        body = {"scenario": tool.source, "tool_name": tool.name, **preference}
        return await self._connection.fetch(send_json("POST", path, body), EffectiveTool, "tool")

    async def serve(
        self,
        functions: Servables,
        *,
        client_id: str | None = None,
        concurrency: int = 10,
        declare: str | None = None,
        grace: float = 10.0,
        on_connected: Callable[[], None] | None = None,
    ) -> None:
        """Answer calls of `external` tools with these functions until cancelled (blocking client: until Ctrl-C).

        Functions are `async`, or plain ones, which run in threads; they get their arguments as keywords, and an
        exception becomes the caller's error. At most `concurrency` run at once. An unreachable gateway is waited for,
        one that refuses raises. Every call is started once. The gateway recognizes this server after a restart by an
        id in the user's state folder, one for each process that runs side by side; `client_id` sets another, which two
        servers must not share.

        With `declare` the tools need not be in the gateway's config: they are declared as all tools of the source of
        that name, with schemas from the type hints. A `ServedTool` says more than a function can.

        When cancelled, running calls have `grace` seconds to finish; the others are answered as interrupted.
        """
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        served = tool_functions(functions)
        url = self._connection.url
        with nullcontext(client_id) if client_id else server_id(url, served, source=declare) as known_by:
            options = ServeOptions(
                client_id=known_by, concurrency=concurrency, declare=declare, grace=grace, on_connected=on_connected
            )
            async with self._connection.dedicated() as connection:
                tools = {name: ServedFunction(function) for name, function in served.items()}
                await ToolServer(connection, tools, options).run()


def tool_path(tool: str) -> str:
    """The tool's path; the name may be a foreign spelling with any character in it."""
    return f"/api/v1/tools/{segment(tool)}"


def merge_arguments(arguments: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    both = sorted((arguments or {}).keys() & keywords.keys())
    if both:
        raise TypeError(f"the argument '{both[0]}' is given twice: in the mapping and as a keyword")
    return {**(arguments or {}), **keywords}
