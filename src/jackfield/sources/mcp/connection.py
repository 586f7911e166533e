"""One connection to an MCP server, from its handshake to its end: lists, calls, reads, subscriptions.

`upstream.py` opens a new one when it is lost. What the server sends of its own accord arrives here and is handed to the
call that it belongs to.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from msgspec import Raw

from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.jsonrpc import INVALID_REQUEST, RpcError
from jackfield.protocol.jsonrpc import encode as encode_json
from jackfield.protocol.mcp import (
    APP_TYPE,
    APPS,
    CAPABILITIES_KEY,
    ELICITED,
    LOG_LEVEL_KEY,
    UNSUPPORTED_VERSION,
    ParamHeader,
    param_headers,
    routing_headers,
)
from jackfield.sources.base import LogNote
from jackfield.sources.client import AskClient
from jackfield.sources.logs import DEFAULT_LEVEL, SourceLogs, lower_level
from jackfield.sources.mcp.capabilities import shown_capabilities, with_tasks
from jackfield.sources.mcp.handlers import (
    Sample,
    ServerRequest,
    as_progress,
    log_note,
    opened_id,
    subscription_number,
    updated_uri,
)
from jackfield.sources.mcp.handshake import Agreement, agree
from jackfield.sources.mcp.input_required import InputRequired, input_for, input_required
from jackfield.sources.mcp.list_pages import read_pages
from jackfield.sources.mcp.log_levels import LogLevels
from jackfield.sources.mcp.open_calls import CallHandlers, OpenCalls
from jackfield.sources.mcp.transport import (
    ClientTransport,
    McpClientError,
    SessionLost,
    TransportListener,
    UpstreamLost,
)

MAX_ROUNDS = 10
"""How often a server may ask something before it answers one call."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STABLE_SECONDS = 5.0
"""After a subscription that lasted this long, the next pause is short again."""
LISTING: dict[str, Any] = {"extensions": {APPS: {"mimeTypes": [APP_TYPE]}}}
"""What a server is told when it lists: whoever can show apps may come later."""
DECLARED: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, **LISTING}
"""What a server of the handshake era may ask of us. Whether it is answered depends on the client behind each call."""

LISTEN = "subscriptions/listen"
SOON_SECONDS = 30.0
"""For what has no deadline of a call: completion, subscriptions, skills, tasks."""
_FOLLOWED = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
_LIST_CHANGES = frozenset(
    {
        *(f"notifications/{feature}/list_changed" for feature in _FOLLOWED),
        "notifications/subscriptions/acknowledged",
    }
)


class Connection:
    """One connection. It listens to its transport."""

    def __init__(
        self,
        name: str,
        make_transport: Callable[[TransportListener], ClientTransport],
        *,
        lost: Callable[["Connection", UpstreamLost], None],
        changed: Callable[[], None],
        updated: Callable[[str], None] | None = None,
        sample: Sample | None = None,
        logs: SourceLogs | None = None,
        say: Callable[[LogNote], None] = lambda _: None,
    ) -> None:
        self._say = say
        self._levels = LogLevels(self._set_level, logs or SourceLogs())
        self._sample = sample
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._transport = make_transport(self)
        self._on_lost = lost
        self._changed = changed
        self._updated = updated
        self._acknowledged: dict[int, Callable[[], None]] = {}
        """By the number of a subscription: what is called once the server has taken it."""
        self._numbers = count(1)
        self._calls = OpenCalls()
        self._agreement: Agreement | None = None
        self._subscription: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._began = time.monotonic()
        self._broken: UpstreamLost | None = None
        self.is_expired = False
        """The server has forgotten the session."""

    @property
    def age(self) -> float:
        return time.monotonic() - self._began

    @property
    def agreement(self) -> Agreement:
        """What the handshake came to; the connection is open."""
        assert self._agreement is not None
        return self._agreement

    async def open(self, *, probe_seconds: float, handshake_only: bool = False) -> None:
        await self._transport.open()
        agreement = await agree(
            self._transport,
            self._ask,
            capabilities=DECLARED,
            probe_seconds=probe_seconds,
            handshake_only=handshake_only,
        )
        if self._broken is not None:
            raise self._broken
        self._agreement = agreement
        self._log.info("speaks revision %s of MCP", agreement.revision)
        if not agreement.is_modern and agreement.offers("logging"):
            self._levels.begin()
        if agreement.is_modern and self._followed:
            self._subscription = asyncio.create_task(self._follow_changes(), name="mcp subscription")

    async def close(self) -> None:
        """Safe to call twice; the second waits for the first."""
        await asyncio.shield(self.start_closing())

    def start_closing(self) -> "asyncio.Task[None]":
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="mcp closing")
        return self._closing

    async def _close(self) -> None:
        self._levels.end()
        if self._subscription is not None:
            self._subscription.cancel()
            await asyncio.wait([self._subscription])
        try:
            await self._transport.close()
        except Exception:  # noqa: BLE001 - a border: another package's transport may raise anything; logged
            self._log.exception("the connection did not close cleanly")

    async def list(self, method: str, member: str, *, most: int) -> list[Raw]:
        """The raw definitions of a whole list, page by page; `member` is where a page has them."""
        return await read_pages(partial(self._request, method), method, member, most=most)

    async def subscribe(self, uri: str) -> None:
        """Follow a resource, in the handshake era."""
        await self._ask_soon("resources/subscribe", {"uri": uri})

    async def unsubscribe(self, uri: str) -> None:
        await self._ask_soon("resources/unsubscribe", {"uri": uri})

    async def listen(self, uris: Sequence[str], acknowledged: Callable[[], None]) -> None:
        """Follow resources since 2026-07-28, until the server ends the stream or this is cancelled."""
        number = next(self._numbers)
        self._acknowledged[number] = acknowledged
        try:
            await self._request(LISTEN, {"notifications": {"resourceSubscriptions": uris}}, number=number)
        finally:
            del self._acknowledged[number]

    async def skill(self, uri: str) -> Raw:
        """The raw result of `skills/get`."""
        return await self._ask_soon("skills/get", {"uri": uri})

    async def directory(self, uri: str, cursor: str | None) -> Raw:
        """The raw result of `resources/directory/read`."""
        params = {"uri": uri} if cursor is None else {"uri": uri, "cursor": cursor}
        return await self._ask_soon("resources/directory/read", params)

    async def complete(self, params: dict[str, Any]) -> Raw:
        """The raw result of `completion/complete`."""
        return await self._ask_soon("completion/complete", params)

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        name: str,
        headers: tuple[ParamHeader, ...] = (),
        handlers: CallHandlers,
    ) -> Raw:
        """The raw result of `tools/call`, `resources/read` or `prompts/get`.

        A server of 2026-07-28 may ask for input first, several times.
        """
        sent = param_headers(headers, params["arguments"]) if headers else {}
        rounds = MAX_ROUNDS
        try:
            if handlers.log_level is not None:
                await self._levels.lower(handlers.log_level)
            answer = await self._request(method, params, name=name, headers=sent, handlers=handlers)
            while b"input_required" in bytes(answer) and (question := self._question_in(answer)) is not None:
                if rounds == 0:
                    raise McpClientError(f"The server asked more than {MAX_ROUNDS} times before it answered.")
                rounds -= 1
                again = {**params, **await input_for(question, ask=handlers.ask, sample=self._sample)}
                answer = await self._request(method, again, name=name, headers=sent, handlers=handlers)
        except UpstreamLost as fault:
            self.is_expired = self.is_expired or isinstance(fault, SessionLost)
            self._changed()  # a refresh shows whether the server is still there
            raise
        except RpcError as error:
            if error.number in (INVALID_REQUEST, UNSUPPORTED_VERSION):
                self._changed()  # it may speak another revision now
            raise
        return answer

    async def ask_task(self, method: str, task: str, **params: Any) -> Raw:
        """The raw result of a request about a task."""
        declared = with_tasks(shown_capabilities(None, has_model=self._sample is not None))
        return await self._ask_soon(method, {"taskId": task, **params}, name=task, capabilities=declared)

    async def _ask_soon(
        self,
        method: str,
        params: dict[str, Any],
        *,
        name: str | None = None,
        capabilities: dict[str, Any] | None = None,
    ) -> Raw:
        """The raw result of a request that is no call: the server has `SOON_SECONDS` for it."""
        try:
            async with asyncio.timeout(SOON_SECONDS):
                return await self._request(method, params, name=name, capabilities=capabilities)
        except TimeoutError:
            raise UpstreamLost(f"The server did not answer {method} within {SOON_SECONDS:g} s.") from None
        except UpstreamLost as fault:
            self.is_expired = self.is_expired or isinstance(fault, SessionLost)
            self._changed()
            raise

    async def wait_for_task(self, task: str, *, ask: AskClient) -> Raw:
        """The raw result of a task of 2025-11-25, when it is over; `ask` gets what its server asks meanwhile."""
        self._calls.task_asks[task] = ask
        try:
            return await self._request("tasks/result", {"taskId": task})
        finally:
            del self._calls.task_asks[task]

    def _question_in(self, answer: Raw) -> InputRequired | None:
        modern = self._agreement is not None and self._agreement.is_modern
        return input_required(answer) if modern else None

    async def _set_level(self, level: str) -> None:
        await self._request("logging/setLevel", {"level": level})

    def notified(self, method: str, params: Raw, *, during: int | None) -> None:
        """No notification may end the connection that it came over."""
        if method == "notifications/progress":
            number, progress = as_progress(params)
            handlers = None if number is None else self._calls.handlers.get(number)
            if handlers is not None and progress is not None:
                handlers.report(progress)
        elif method == "notifications/message":
            self._logged(params, during)
        elif method == ELICITED:
            self._opened(params, during)
        elif method == "notifications/resources/updated":
            if self._updated is not None and (uri := updated_uri(params)) is not None:
                self._updated(uri)
        elif method == "notifications/subscriptions/acknowledged" and self._was_listener(params, during):
            return
        elif method in _LIST_CHANGES:
            self._changed()

    def _logged(self, params: Raw, during: int | None) -> None:
        level, note = log_note(params)
        self._log.log(level, "%s", note.message if note.logger is None else f"{note.logger}: {note.message}")
        handlers = self._calls.of(during)
        if handlers is not None:
            handlers.note(note)
        elif not self._calls.handlers:
            self._say(note)

    def _opened(self, params: Raw, during: int | None) -> None:
        """A url was opened that a call asked for."""
        handlers, opened = self._calls.of(during), opened_id(params)
        if handlers is not None and handlers.opened is not None and opened is not None:
            handlers.opened(opened)

    def _was_listener(self, params: Raw, during: int | None) -> bool:
        """Whether a subscription to resources was taken; it is told."""
        number = subscription_number(params) if during is None else during
        taken = None if number is None else self._acknowledged.get(number)
        if taken is not None:
            taken()
        return taken is not None

    async def asked(self, method: str, params: Raw, *, during: int | None) -> Raw:
        """A request of the handshake era."""
        if method == "ping":
            return Raw(b"{}")
        return await self._calls.answer(ServerRequest(method, params), during=during, sample=self._sample)

    def lost(self, error: UpstreamLost) -> None:
        self._log.warning("the connection was lost: %s", error)
        self._broken = error
        self._on_lost(self, error)

    async def _ask(self, method: str, params: Raw, headers: Mapping[str, str]) -> Raw:
        return await self._transport.call(next(self._numbers), method, params, headers=headers)

    async def _request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        handlers: CallHandlers | None = None,
        number: int | None = None,
        capabilities: dict[str, Any] | None = None,
    ) -> Raw:
        agreement = self._agreement
        assert agreement is not None
        number = next(self._numbers) if number is None else number
        meta: dict[str, Any] = {} if handlers is None else {**handlers.meta}
        sent: Mapping[str, str] = {}
        if agreement.is_modern:
            if capabilities is None:
                capabilities = LISTING if handlers is None else handlers.capabilities
            meta |= agreement.meta
            meta[CAPABILITIES_KEY] = capabilities
            sent = {**routing_headers(agreement.revision, method, name), **(headers or {})}
        if handlers is not None:
            meta["progressToken"] = number
            self._calls.handlers[number] = handlers
            if agreement.is_modern:
                meta[LOG_LEVEL_KEY] = lower_level(DEFAULT_LEVEL, handlers.log_level)
        try:
            raw = Raw(encode_json({**params, "_meta": meta} if meta else params))
            return await self._transport.call(number, method, raw, headers=sent)
        finally:
            self._calls.handlers.pop(number, None)

    @property
    def _followed(self) -> dict[str, Any]:
        """What a subscription of 2026-07-28 asks for."""
        return {key: True for feature, key in _FOLLOWED.items() if self.agreement.tells_of(feature)}

    async def _follow_changes(self) -> None:
        """Keep a subscription open, for as long as the server offers one."""
        delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
        while True:
            began = time.monotonic()
            try:
                await self._request(LISTEN, {"notifications": self._followed})
            except UpstreamLost as fault:
                self._log.debug("the subscription broke: %s", fault)
            except (McpClientError, RpcError) as fault:
                self._log.debug("the server gives no subscription: %s", fault)
                return
            self._changed()  # changes in between were not notified
            if time.monotonic() - began > STABLE_SECONDS:
                delays.reset()
            await asyncio.sleep(delays.next())
