"""`client.tools`: what the gateway offers, calling it, what the key prefers, and serving tools of one's own.

Above: the client. Below: `connection.py`, `streams.py` and, for serving, `serving.py`.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, nullcontext
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from jackfield.protocol.sse import EventParser
from jackfield.sdk.calls import Calls
from jackfield.sdk.connection import Connection, Message, get
from jackfield.sdk.failures import GatewayFault, outcome_of
from jackfield.sdk.functions import Servable, callees_of
from jackfield.sdk.pins import DefinitionDiff, accept_tool, tool_diff
from jackfield.sdk.server_ids import server_id
from jackfield.sdk.serving import Terms, ToolServer
from jackfield.sdk.streams import follow, read
from jackfield.sdk.types import (
    CallAnswer,
    CallEvent,
    EffectiveTool,
    Refreshed,
    ScenarioState,
    ToolInfo,
    ToolsChanged,
)

ApprovalOverride = Literal["", "require", "skip"]
"""Whether a person is asked first: as the tool itself says, always, never."""
OnEvent = Callable[[CallEvent], None]
"""Told every event of one call while it runs. Must not block."""


NOT_MODIFIED = 304
ANSWER = "call.result"
"""The type of the last event of an execute that streams; its data is what the plain form answers."""


class _Tools(Struct, frozen=True):
    tools: tuple[ToolInfo, ...] = ()


class _EffectiveTools(Struct, frozen=True):
    tools: tuple[EffectiveTool, ...] = ()


class _Changed(Struct, frozen=True):
    tool: EffectiveTool


class Tools:
    """The catalog as the client's key may see it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._etag = ""
        self._known: tuple[ToolInfo, ...] = ()

    async def list(self) -> tuple[ToolInfo, ...]:
        """Every tool, by name. A catalog that has not changed is not sent again."""
        known = {"If-None-Match": self._etag} if self._etag else {}
        message = Message(method="GET", path="/api/v1/tools", headers=known, repeatable=True, also=(NOT_MODIFIED,))
        response = await self._connection.ask(message)
        if response.is_success:
            self._known = self._connection.decode(response.content, _Tools).tools
            self._etag = response.headers.get("ETag", "")
        return self._known

    async def get(self, name: str) -> ToolInfo:
        """One tool. Raises `ToolNotFound`."""
        response = await self._connection.ask(get(path_of(name)))
        return self._connection.decode(response.content, ToolInfo)

    async def search(self, query: str, *, limit: int | None = None) -> tuple[ToolInfo, ...]:
        """The tools that fit the words best, best first."""
        response = await self._connection.ask(get("/api/v1/tools/search", {"q": query, "limit": limit}))
        return self._connection.decode(response.content, _Tools).tools

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
        """One call, and its plain result.

        Arguments come as a mapping, as keywords, or both. A tool that fails raises `ToolFailed`; a call that a
        person must allow or that somebody else answers later raises `CallPending`; one that was not made raises
        the gateway's `Refused`. `timeout` (seconds) ends the waiting, not the call. In place of a result that is too
        large to travel comes a notice with its `call_id`: `client.calls.result(call_id)` reads it.
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
        """The same call, and the gateway's whole answer, whether it is done, failed or pending."""
        body: dict[str, Any] = {
            "arguments": merged(arguments, kwargs),
            "agent": agent,
            "space_id": space_id,
            "chat_id": chat_id,
            "run_id": run_id,
        }
        message = Message(
            method="POST",
            path=f"{path_of(name)}/execute",
            body=msgspec.json.encode({key: value for key, value in body.items() if value is not None}),
            headers={"Idempotency-Key": idempotency_key} if idempotency_key else {},
            repeatable=idempotency_key is not None,
        )
        if on_event is not None:
            return await self._start_watched(message, on_event, timeout)
        response = await self._connection.send(message, within=timeout)
        return self._connection.decode(response.content, CallAnswer)

    async def _start_watched(self, message: Message, on_event: OnEvent, timeout: float | None) -> CallAnswer:
        """Execute as an event stream: what happens to the call, then the answer as its last event."""
        async with (
            self._connection.deadline(timeout, message),
            self._connection.stream(message) as response,
            aclosing(read(response, EventParser())) as events,
        ):
            async for event in events:
                if event.type == ANSWER:
                    return self._connection.decode(event.data, CallAnswer)
                on_event(self._connection.decode(event.data, CallEvent))
        raise GatewayFault(f"{self._connection.url} ended the call's stream without its answer. See the gateway's log.")

    async def follow(self) -> AsyncGenerator[ToolsChanged, None]:
        """Every change of the catalog from now on, across reconnects, until the iteration is left."""
        async with aclosing(follow(self._connection, get("/api/v1/tools/changes"))) as events:
            async for event in events:
                if event.type == "tools.changed":
                    yield self._connection.decode(event.data, ToolsChanged)

    async def diff(self, name: str) -> DefinitionDiff:
        """What changed in a foreign tool since its definition was pinned. Needs an administrator's key."""
        return await tool_diff(self._connection, path_of(name))

    async def accept(self, name: str, digest: str | None = None) -> ToolInfo:
        """Accept a held tool's new definition; with the `digest` of a diff, that one and no later."""
        return await accept_tool(self._connection, path_of(name), digest)

    async def effective(self, chat_id: str | None = None) -> tuple[EffectiveTool, ...]:
        """Every tool with this key's preferences applied, everywhere or in one chat."""
        response = await self._connection.ask(get("/api/v1/tools/set", {"chat_id": chat_id}))
        return self._connection.decode(response.content, _EffectiveTools).tools

    async def scenarios(self) -> tuple[ScenarioState, ...]:
        """Every source of tools, and how it is."""
        response = await self._connection.ask(get("/api/v1/tools/scenarios"))
        return self._connection.decode(response.content, tuple[ScenarioState, ...])

    async def refresh(self) -> Refreshed:
        """Have every source read anew, past every cache."""
        response = await self._connection.ask(Message(method="POST", path="/api/v1/tools/refresh"))
        return self._connection.decode(response.content, Refreshed)

    async def set_enabled(self, name: str, enabled: bool, *, chat_id: str | None = None) -> EffectiveTool:  # noqa: FBT001 - the second word of the sentence
        """Switch a tool on or off for this key. Whether it asks first stays as it was."""
        return await self._prefer("/api/v1/tools/config", name, {"enabled": enabled, "chat_id": chat_id})

    async def set_approval(self, name: str, override: ApprovalOverride, *, chat_id: str | None = None) -> EffectiveTool:
        """Have a person asked before each call of a tool, or not. Whether it is on stays as it was."""
        given = {"approval_override": override, "chat_id": chat_id}
        return await self._prefer("/api/v1/tools/config/approval", name, given)

    async def reset_preferences(self, name: str, *, chat_id: str | None = None) -> EffectiveTool:
        """Forget what this key prefers of a tool, everywhere or in that chat."""
        tool = await self.get(name)
        params: dict[str, str | int] = {"scenario": tool.source, "tool_name": tool.name, "chat_id": chat_id or ""}
        response = await self._connection.ask(Message(method="DELETE", path="/api/v1/tools/config", params=params))
        return self._connection.decode(response.content, _Changed).tool

    async def _prefer(self, path: str, name: str, given: Mapping[str, Any]) -> EffectiveTool:
        tool = await self.get(name)
        body = {"scenario": tool.source, "tool_name": tool.name, **given}
        response = await self._connection.ask(Message(method="POST", path=path, body=msgspec.json.encode(body)))
        return self._connection.decode(response.content, _Changed).tool

    async def serve(
        self,
        functions: Mapping[str, Servable] | Iterable[Servable],
        *,
        client_id: str | None = None,
        concurrency: int = 10,
        declare: str | None = None,
        grace: float = 10.0,
        on_connected: Callable[[], None] | None = None,
    ) -> None:
        """Answer calls of `external` tools with these functions, until cancelled.

        Functions may be `async`, or plain ones, which run in threads; they get their arguments as keywords, and what
        they raise is the caller's error. At most `concurrency` run at once. A gateway that is away is waited for, one
        that refuses raises. Every call is begun once. The gateway knows this server again when it comes back, by an
        id in the user's state folder, one for each of the processes that run side by side; `client_id` says another,
        which two servers must not share.

        With `declare` the tools need not be in the gateway's config: they are declared as all the tools of the
        source of that name, with schemas from the type hints. A `ServedTool` says more than a function can.

        When cancelled, running calls have `grace` seconds to end; the others are answered as interrupted.
        """
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        callees = callees_of(functions)
        kept = nullcontext(client_id) if client_id else server_id(self._connection.url, callees, source=declare)
        with kept as known_by:
            terms = Terms(
                client_id=known_by,
                concurrency=concurrency,
                declare=declare,
                grace=grace,
                on_connected=on_connected,
            )
            async with self._connection.apart() as connection:
                await ToolServer(connection, Calls(connection), callees, terms).run()


def path_of(tool: str) -> str:
    """The tool's own path; its name may be a foreign spelling with any character in it."""
    return f"/api/v1/tools/{quote(tool, safe='')}"


def merged(arguments: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The two ways to give arguments as one object."""
    both = sorted((arguments or {}).keys() & keywords.keys())
    if both:
        raise TypeError(f"the argument '{both[0]}' is given twice: in the mapping and as a keyword")
    return {**(arguments or {}), **keywords}
