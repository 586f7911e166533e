"""One connection to an MCP server, from its handshake to its end.

Above: `upstream.py`, which makes a new one when it is lost. Below: a wire and the handshake over it. What the server
says of its own accord arrives here: how far a call is, log lines, questions for a person, and that its tools changed.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.sources.base import Elicit, LogNote, Progress
from jackfield.sources.mcp.handlers import ELICIT, Sample, answer_question, as_progress, log_note
from jackfield.sources.mcp.handshake import ELICITATION, SAMPLING, Agreement, agree
from jackfield.sources.mcp.listing import MAX_TOOLS
from jackfield.sources.mcp.messages import encoded
from jackfield.sources.mcp.results import InputRequired, question_in
from jackfield.sources.mcp.routing import HeaderMap, param_headers, routing_headers
from jackfield.sources.mcp.transport import (
    INVALID_REQUEST,
    MAX_MESSAGE,
    ClientTransport,
    McpClientError,
    RpcError,
    TransportListener,
    UpstreamLost,
)

MAX_PAGES = 1_000
MAX_LIST = 2 * MAX_MESSAGE
"""Bytes of all pages of a list together."""
MAX_ROUNDS = 10
"""How often a server may ask something before it answers one call."""
STATE_PAUSE = 0.1
"""Before a call is sent again that the server put off without a question."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
LASTED = 5.0
"""A subscription that held this many seconds was a good one; the next pause is short again."""
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class CallHandlers(Struct, frozen=True, kw_only=True):
    """One call, as far as the server may talk to who made it."""

    report: Callable[[Progress], None]
    note: Callable[[LogNote], None]
    elicit: Elicit | None = None
    principal: str = ""
    """Who made it."""


class _Page(Struct):
    tools: list[Raw]
    next_cursor: str | None = msgspec.field(default=None, name="nextCursor")


_decode_page = msgspec.json.Decoder(_Page).decode


class Connection:
    """One connection, from its handshake to its end."""

    def __init__(
        self,
        name: str,
        make_wire: Callable[[TransportListener], ClientTransport],
        *,
        lost: Callable[["Connection", UpstreamLost], None],
        changed: Callable[[], None],
        sample: Sample | None = None,
    ) -> None:
        self._sample = sample
        self._capabilities = ELICITATION if sample is None else {**ELICITATION, **SAMPLING}
        self._log = logging.getLogger(f"jackfield.mcp.{name}")
        self._wire = make_wire(self)
        self._tell_lost = lost
        self._changed = changed
        self._numbers = count(1)
        self._talks: dict[int, CallHandlers] = {}
        self._asking: Counter[int] = Counter()
        """By call: how many of its questions wait for an answer."""
        self._agreement: Agreement | None = None
        self._following: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._began = time.monotonic()
        self._broken: UpstreamLost | None = None

    @property
    def age(self) -> float:
        return time.monotonic() - self._began

    @property
    def instructions(self) -> str:
        return "" if self._agreement is None else self._agreement.instructions

    @property
    def _is_modern(self) -> bool:
        return self._agreement is not None and self._agreement.is_modern

    async def open(self, *, probe_seconds: float, handshake_only: bool = False) -> None:
        await self._wire.open()
        agreement = await agree(
            self._wire,
            self._ask,
            capabilities=self._capabilities,
            probe_seconds=probe_seconds,
            handshake_only=handshake_only,
        )
        if self._broken is not None:
            raise self._broken
        self._agreement = agreement
        self._log.info("speaks revision %s of MCP", agreement.revision)
        if agreement.is_modern and agreement.tells_of_changes:
            self._following = asyncio.create_task(self._follow_changes(), name="mcp subscription")

    async def close(self) -> None:
        """Safe to call twice; the second waits for the first."""
        await asyncio.shield(self.bury())

    def bury(self) -> "asyncio.Task[None]":
        """Begin to close, without waiting for it."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="mcp closing")
        return self._closing

    async def _close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        try:
            await self._wire.close()
        except Exception:  # noqa: BLE001 - a border: a foreign transport may raise anything; logged
            self._log.exception("the connection did not close cleanly")

    async def list_tools(self) -> list[Raw]:
        tools: list[Raw] = []
        params: dict[str, Any] = {}
        seen: set[str] = set()
        size = 0
        for _ in range(MAX_PAGES):
            answer = await self._request("tools/list", params)
            size += memoryview(answer).nbytes
            if size > MAX_LIST:
                raise McpClientError(f"The server's list of tools has more than the {MAX_LIST:,} bytes allowed.")
            try:
                page = _decode_page(answer)
            except msgspec.DecodeError as fault:
                raise McpClientError(f"The server's list of tools is not MCP's: {fault}.") from None
            tools += page.tools
            if not page.next_cursor or page.next_cursor in seen or len(tools) > MAX_TOOLS:
                break
            seen.add(page.next_cursor)
            params = {"cursor": page.next_cursor}
        return tools

    async def call(self, tool: str, arguments: dict[str, Any], *, headers: HeaderMap, talk: CallHandlers) -> Raw:
        """Call until the answer is one: a server of 2026-07-28 may ask something first."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        said = param_headers(headers, arguments) if headers else {}
        answer = await self._request("tools/call", params, name=tool, headers=said, talk=talk)
        for _ in range(MAX_ROUNDS):
            question = question_in(answer) if self._is_modern else None
            if question is None:
                return answer
            responses = await self._responses(question, talk.elicit)
            if not responses:
                await asyncio.sleep(STATE_PAUSE)
            again = {**params, "inputResponses": responses} if responses else dict(params)
            if question.state is not None:
                again["requestState"] = question.state
            answer = await self._request("tools/call", again, name=tool, headers=said, talk=talk)
        raise McpClientError(f"The server asked more than {MAX_ROUNDS} times before it answered.")

    async def _responses(self, question: InputRequired, elicit: Elicit | None) -> dict[str, Raw]:
        try:
            return {
                key: await answer_question(asked.method, asked.params, elicit=elicit, sample=self._sample, key=key)
                for key, asked in (question.requests or {}).items()
            }
        except RpcError as refusal:
            raise McpClientError(f"The server asked for what it cannot have. {refusal.message}") from None

    def notified(self, method: str, params: Raw, *, during: int | None) -> None:
        """Whatever it is, it must not end the connection that it came over."""
        if method == "notifications/progress":
            number, progress = as_progress(params)
            talk = None if number is None else self._talks.get(number)
            if talk is not None and progress is not None:
                talk.report(progress)
        elif method == "notifications/message":
            level, note = log_note(params)
            self._log.log(level, "%s", note.message if note.logger is None else f"{note.logger}: {note.message}")
            talk = self._talk_of(during)
            if talk is not None:
                talk.note(note)
        elif method in ("notifications/tools/list_changed", "notifications/subscriptions/acknowledged"):
            self._changed()

    async def asked(self, method: str, params: Raw, *, during: int | None) -> Raw:
        """A question of the older era. On a shared stream nobody says which call it is about (`_asker`).

        A model is asked for a call only: a server may not spend the operator's money when nobody wants anything of it.
        """
        number = self._asker() if during is None else during
        if number is None and self._talks and method == ELICIT:
            raise RpcError(
                f"{len(self._talks)} calls are running, and nothing says which of them asks. Ask one at a time.",
                number=INVALID_REQUEST,
            )
        talk = None if number is None else self._talks.get(number)
        sample = self._sample if self._talks else None
        if number is None or talk is None:
            return await answer_question(method, params, elicit=None, sample=sample)
        self._asking[number] += 1
        try:
            return await answer_question(method, params, elicit=talk.elicit, sample=sample)
        finally:
            self._asking[number] -= 1
            if not self._asking[number]:
                del self._asking[number]

    def _asker(self) -> int | None:
        """The call that asks: one alone, or the only one that does not wait for an answer already.

        The latter is likely, not certain, so only among calls of one principal: nobody is shown another's question.
        """
        if len(self._talks) == 1:
            return next(iter(self._talks))
        if len({talk.principal for talk in self._talks.values()}) > 1:
            return None
        free = [number for number in self._talks if number not in self._asking]
        return free[0] if len(free) == 1 else None

    def _talk_of(self, during: int | None) -> CallHandlers | None:
        """The call that something is about: the one that is known, else the only one."""
        if during is not None:
            return self._talks.get(during)
        return next(iter(self._talks.values())) if len(self._talks) == 1 else None

    def lost(self, error: UpstreamLost) -> None:
        self._log.warning("the connection was lost: %s", error)
        self._broken = error
        self._tell_lost(self, error)

    async def _ask(self, method: str, params: Raw, headers: Mapping[str, str]) -> Raw:
        return await self._wire.call(next(self._numbers), method, params, headers=headers)

    async def _request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        talk: CallHandlers | None = None,
    ) -> Raw:
        agreement = self._agreement
        assert agreement is not None
        number = next(self._numbers)
        meta = agreement.meta(self._capabilities if talk is not None and talk.elicit is not None else {})
        if talk is not None:
            meta["progressToken"] = number
            self._talks[number] = talk
            if agreement.is_modern:
                meta[LOG_LEVEL] = "info"
        sent: Mapping[str, str] = {}
        if agreement.is_modern:
            sent = {**routing_headers(agreement.revision, method, name), **(headers or {})}
        try:
            return await self._wire.call(
                number, method, encoded({**params, "_meta": meta} if meta else params), headers=sent
            )
        finally:
            self._talks.pop(number, None)

    async def _follow_changes(self) -> None:
        """Keep a subscription open, for as long as the server offers one."""
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                await self._request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            except UpstreamLost as fault:
                self._log.debug("the subscription broke: %s", fault)
            except McpClientError as fault:
                self._log.debug("the server gives no subscription: %s", fault)
                return
            self._changed()  # what happened meanwhile was not told
            pause = FIRST_PAUSE if time.monotonic() - began > LASTED else min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(pause)
