"""One connection to an MCP server, from its handshake to its end: lists, calls, reads, subscriptions.

`upstream.py` opens a new one when it is lost. What the server sends of its own accord arrives here and is handed to the
call that it belongs to.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.jsonrpc import INVALID_REQUEST, NO_PARAMS, RpcError
from jackfield.protocol.jsonrpc import encode as encode_json
from jackfield.protocol.mcp import (
    APP_TYPE,
    APPS,
    CAPABILITIES_KEY,
    ELICIT,
    ELICITED,
    LOG_LEVEL_KEY,
    ROOTS,
    SAMPLE,
    UNSUPPORTED_VERSION,
    ParamHeader,
    param_headers,
    routing_headers,
)
from jackfield.sources.base import LogNote, Progress
from jackfield.sources.client import AskClient
from jackfield.sources.logs import DEFAULT_LEVEL, SourceLogs, lower_level
from jackfield.sources.mcp.capabilities import shown_capabilities, with_tasks
from jackfield.sources.mcp.handlers import (
    Sample,
    ServerRequest,
    answer_requests,
    as_progress,
    log_note,
    opened_id,
    related_task,
    subscription_number,
    updated_uri,
)
from jackfield.sources.mcp.handshake import Agreement, agree
from jackfield.sources.mcp.log_levels import LogLevels
from jackfield.sources.mcp.transport import (
    MAX_MESSAGE,
    ClientTransport,
    McpClientError,
    SessionLost,
    TransportListener,
    UpstreamLost,
)

MAX_PAGES = 1_000
MAX_LIST = 2 * MAX_MESSAGE
"""Bytes of all pages of a list together."""
MAX_ROUNDS = 10
"""How often a server may ask something before it answers one call."""
ROUND_SECONDS = 0.1
"""Before a call is sent again that the server put off without a question."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
STABLE_SECONDS = 5.0
"""After a subscription that lasted this long, the next pause is short again."""
LISTING: dict[str, Any] = {"extensions": {APPS: {"mimeTypes": [APP_TYPE]}}}
"""What a server is told when it lists: whoever can show apps may come later."""
DECLARED: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}, **LISTING}
"""What a server of the handshake era may ask of us. Whether it is answered depends on the client behind each call."""

CLIENT_REQUESTS = frozenset({ELICIT, SAMPLE, ROOTS})
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


class CallHandlers(Struct, frozen=True, kw_only=True):
    """Where a server's messages during one call go."""

    report: Callable[[Progress], None]
    note: Callable[[LogNote], None]
    ask: AskClient | None = None
    """Puts the server's requests to the client behind the call."""
    capabilities: dict[str, Any] = {}
    """What that client can be asked, for a server of 2026-07-28."""
    principal: str = ""
    """Who made the call."""
    meta: Mapping[str, Any] = {}
    """The `_meta` that the server gets with it, beside what concerns the connection."""
    log_level: str | None = None
    """The lowest level of log messages that its client wants."""
    opened: Callable[[str], None] | None = None
    """Tells its client that a url was opened."""


class InputRequest(Struct):
    """Something a server wants to know before it goes on."""

    method: str
    params: Raw = NO_PARAMS


class InputRequired(Struct):
    """A result of 2026-07-28 that asks for input."""

    result_type: str = msgspec.field(default="complete", name="resultType")
    requests: dict[str, InputRequest] | None = msgspec.field(default=None, name="inputRequests")
    state: str | None = msgspec.field(default=None, name="requestState")


_decode_page = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_definitions = msgspec.json.Decoder(list[Raw]).decode
_decode_cursor = msgspec.json.Decoder(str | None).decode
_decode_input_required = msgspec.json.Decoder(InputRequired).decode


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
        self._calls: dict[int, CallHandlers] = {}
        self._task_asks: dict[str, AskClient] = {}
        """By task: who is asked what its server asks."""
        self._asking: Counter[int] = Counter()
        """By call: how many of its questions wait for an answer."""
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
        found: list[Raw] = []
        params: dict[str, Any] = {}
        seen: set[str] = set()
        size = 0
        for _ in range(MAX_PAGES):
            answer = await self._request(method, params)
            size += memoryview(answer).nbytes
            if size > MAX_LIST:
                raise McpClientError(f"The server's answers to {method} have more than the {MAX_LIST:,} bytes allowed.")
            try:
                page = _decode_page(answer)
                found += _decode_definitions(page.get(member, b"null"))
                following = _decode_cursor(page.get("nextCursor", b"null"))
            except msgspec.DecodeError as fault:
                raise McpClientError(f"The server's answer to {method} is not valid MCP: {fault}.") from None
            if not following or following in seen or len(found) > most:
                break
            seen.add(following)
            params = {"cursor": following}
        return found

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
                again = {**params, **await self._input_for(question, handlers)}
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
        self._task_asks[task] = ask
        try:
            return await self._request("tasks/result", {"taskId": task})
        finally:
            del self._task_asks[task]

    def _question_in(self, answer: Raw) -> InputRequired | None:
        modern = self._agreement is not None and self._agreement.is_modern
        return input_required(answer) if modern else None

    async def _input_for(self, question: InputRequired, handlers: CallHandlers) -> dict[str, Any]:
        """The parameters that a call is sent again with."""
        wanted = question.requests or {}
        asked = [ServerRequest(one.method, one.params, key) for key, one in wanted.items()]
        try:
            answers = await answer_requests(asked, ask=handlers.ask, sample=self._sample)
        except RpcError as refusal:
            raise McpClientError(f"The server made a request that is not allowed. {refusal.message}") from None
        responses = dict(zip(wanted, answers, strict=True))
        if not responses:
            await asyncio.sleep(ROUND_SECONDS)
        more: dict[str, Any] = {"inputResponses": responses} if responses else {}
        return more if question.state is None else {**more, "requestState": question.state}

    async def _set_level(self, level: str) -> None:
        await self._request("logging/setLevel", {"level": level})

    def notified(self, method: str, params: Raw, *, during: int | None) -> None:
        """No notification may end the connection that it came over."""
        if method == "notifications/progress":
            number, progress = as_progress(params)
            handlers = None if number is None else self._calls.get(number)
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
        handlers = self._handlers_of(during)
        if handlers is not None:
            handlers.note(note)
        elif not self._calls:
            self._say(note)

    def _opened(self, params: Raw, during: int | None) -> None:
        """A url was opened that a call asked for."""
        handlers, opened = self._handlers_of(during), opened_id(params)
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
        """A request of the handshake era. On a shared stream nothing says which call it belongs to (`_asker`).

        A model is asked during calls only: a server may not spend the operator's money while nobody uses it. Roots are
        those of a call's client, so outside calls there are none.
        """
        if method == "ping":
            return Raw(b"{}")
        if self._task_asks and (ask := self._task_asks.get(related_task(params) or "")) is not None:
            (result,) = await answer_requests((ServerRequest(method, params),), ask=ask, sample=self._sample)
            return result
        number = self._asker() if during is None else during
        sample = self._sample if self._calls else None
        if number is None and self._calls and method in CLIENT_REQUESTS and (method != SAMPLE or sample is None):
            raise RpcError(
                INVALID_REQUEST,
                f"{len(self._calls)} calls are running, and nothing says which of them asks. Ask one at a time.",
            )
        handlers = None if number is None else self._calls.get(number)
        asked = (ServerRequest(method, params),)
        if number is None or handlers is None:
            (result,) = await answer_requests(asked, ask=None, sample=sample)
            return result
        self._asking[number] += 1
        try:
            (result,) = await answer_requests(asked, ask=handlers.ask, sample=sample)
            return result
        finally:
            self._asking[number] -= 1
            if not self._asking[number]:
                del self._asking[number]

    def lost(self, error: UpstreamLost) -> None:
        self._log.warning("the connection was lost: %s", error)
        self._broken = error
        self._on_lost(self, error)

    def _asker(self) -> int | None:
        """The call that asks: the only one, or the only one that does not wait for an answer already.

        The latter is likely, not certain, so only among calls of one principal: nobody is shown another's question.
        """
        if len(self._calls) == 1:
            return next(iter(self._calls))
        if len({handlers.principal for handlers in self._calls.values()}) > 1:
            return None
        free = [number for number in self._calls if number not in self._asking]
        return free[0] if len(free) == 1 else None

    def _handlers_of(self, during: int | None) -> CallHandlers | None:
        """Those of the call that is known, else of the only one."""
        if during is not None:
            return self._calls.get(during)
        return next(iter(self._calls.values())) if len(self._calls) == 1 else None

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
            self._calls[number] = handlers
            if agreement.is_modern:
                meta[LOG_LEVEL_KEY] = lower_level(DEFAULT_LEVEL, handlers.log_level)
        try:
            raw = Raw(encode_json({**params, "_meta": meta} if meta else params))
            return await self._transport.call(number, method, raw, headers=sent)
        finally:
            self._calls.pop(number, None)

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


def input_required(answer: Raw) -> InputRequired | None:
    """What the server asks for, if the result is a question. Raises `McpClientError` for what is neither."""
    try:
        found = _decode_input_required(answer)
    except msgspec.DecodeError as fault:
        raise McpClientError(f"The server's response is not valid MCP: {fault}.") from None
    return found if found.result_type == "input_required" else None
