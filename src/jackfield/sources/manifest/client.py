"""Has a service execute its tools: by `POST /api/v1/tools/{name}/execute`, or by a template of the config.

Above: `source.py` and `work.py`. Below: `outgoing`. A call goes to the url of the config, never to one that the service
names. With it travel its trace, its id, the time it has left and the houses it came through. Only a tool that says it
is idempotent is asked again after a connection broke.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from jackfield.errors import JackfieldError, Loop, SourceUnavailable
from jackfield.model.call import Done, Failed
from jackfield.model.ids import new_id
from jackfield.model.tool import Tool
from jackfield.model.trace_context import CALL_HEADER, MOST_HOPS, TIMEOUT_HEADER, VIA_HEADER, incoming_trace, via
from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.large_results import digest_of
from jackfield.sources.base import Begun, Invocation, Look
from jackfield.sources.http import HttpTemplate, Unfillable, message_of, outcome_of
from jackfield.sources.manifest.options import ManifestOptions
from jackfield.sources.manifest.responses import (
    begun_of,
    call_in,
    executed,
    id_in,
    look_of,
    notice_in,
    page_in,
    record_look,
)
from jackfield.sources.outgoing import (
    MAX_BYTES,
    Outgoing,
    OutgoingError,
    OutgoingNotSent,
    OutgoingResponse,
    OutgoingTimedOut,
    OutgoingUnreachable,
)

PATH = "/api/v1/tools"
RETRY_PAUSES = (0.1, 0.5)
LARGEST_ANSWER = 4 * MAX_BYTES
PAGE = 1_000_000
PAGE_SECONDS = 20.0
STOP_SECONDS = 5.0
STOP_PAUSES = (0.05, 0.2, 1.0, 3.0)
_NOT_NOW = frozenset({429, 502, 503, 504})


class ServiceClient:
    """One service, to have its tools executed."""

    def __init__(
        self,
        name: str,
        options: ManifestOptions,
        *,
        outgoing: Outgoing,
        house: Callable[[], str],
        lost: Callable[[], None],
    ) -> None:
        """`lost` is called when the service could not be reached, so that somebody looks whether it lives."""
        self._name = name
        self._options = options
        self._outgoing = outgoing
        self._house = house
        self._lost = lost

    async def run(self, invocation: Invocation) -> Done | Failed | Begun:
        """One call of a tool. Raises `SourceUnavailable` where the service was not reached at all."""
        tool = invocation.tool
        try:
            answer = await self._answer(invocation)
        except Unfillable as fault:
            return Failed(fault.code, fault.message)
        except OutgoingTimedOut:
            message = f"Tool timed out after {invocation.timeout_ms}ms"
            return Failed("timeout", message)
        except OutgoingNotSent as fault:
            raise self._down(fault, tool) from None
        except OutgoingUnreachable as fault:
            self._lost()
            return Failed(
                fault.code,
                f"The connection to '{self._name}' broke while '{tool.name}' ran, so it may or may not have taken "
                f"effect: {fault} Check before you call it again.",
            )
        except OutgoingError as fault:
            return Failed(fault.code, fault.message)
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self._lost()
            said = executed(answer, where=self._endpoint(tool))
            words = said.message if isinstance(said, Failed) else "It answered 503."
            cure = "" if words.endswith("Try again later.") else " Try again later."
            raise SourceUnavailable(f"Source '{self._name}' of tool '{tool.name}' is unavailable: {words}{cure}")
        if answer.status == HTTPStatus.NOT_FOUND:
            self._lost()  # it may have been started anew with other tools
        return await self._outcome(answer, tool)

    async def stop(self, invocation: Invocation) -> None:
        """Have a call stopped that nobody waits for any more; another gateway knows it by the key it came under.

        It may still be on its way there, so one that is not known is asked for again, for a while.
        """
        path = f"/api/v1/calls/{quote(invocation.call_id, safe='')}/cancel"
        for pause in STOP_PAUSES:
            answer = await self.ask("POST", path, tool=invocation.tool, timeout=STOP_SECONDS)
            if answer.status != HTTPStatus.NOT_FOUND:
                return
            await asyncio.sleep(pause)

    def is_templated(self, tool: Tool) -> bool:
        """Whether the config says how the tool is executed, so that it is no gateway's execute endpoint."""
        return self._options.template(tool) is not None

    async def inquire(self, invocation: Invocation) -> Done | Failed | Begun:
        """As `run`, for what may be asked any number of times: a service in trouble is then one that is away."""
        tool = invocation.tool
        try:
            answer = await self._answer(invocation)
        except (OutgoingUnreachable, OutgoingTimedOut) as fault:
            raise self._down(fault, tool) from None
        except (OutgoingError, Unfillable) as fault:
            return Failed(fault.code, fault.message)
        self._check_there(answer, tool)
        return await self._outcome(answer, tool)

    async def ask(self, method: str, path: str, *, tool: Tool, timeout: float) -> OutgoingResponse:
        """One request about a call at the service. Raises `SourceUnavailable` where it cannot be asked."""
        try:
            answer = await self._outgoing.request(
                method,
                self._options.at(path),
                headers={"accept": "application/json", **self._options.headers},
                timeout=timeout,
                max_bytes=LARGEST_ANSWER,
                named_by=self._options.url,
            )
        except OutgoingError as fault:
            raise self._down(fault, tool) from None
        self._check_there(answer, tool)
        return answer

    async def whole(self, outcome: Done, tool: Tool) -> Done | Failed:
        """The result itself, where another gateway keeps a large one apart and told only its beginning."""
        notice = notice_in(outcome.result)
        if notice is None:
            return outcome
        if notice.size > LARGEST_ANSWER:
            return Failed("too_large", f"The result of '{tool.name}' has {notice.size:,} bytes, too many to pass on.")
        body = bytearray()
        offset: int | None = 0
        while offset is not None:
            path = f"/api/v1/calls/{quote(notice.call_id, safe='')}/result?offset={offset}&limit={PAGE}"
            page = page_in(await self.ask("GET", path, tool=tool, timeout=PAGE_SECONDS))
            if page is None or (page.next_offset or offset + 1) <= offset:
                return Failed("bad_response", f"The large result of '{tool.name}' could not be read from its gateway.")
            body += page.text.encode()
            if len(body) > notice.size:
                return _torn(tool)
            offset = page.next_offset
        return Done(Raw(bytes(body))) if digest_of(bytes(body)) == notice.digest else _torn(tool)

    def where(self, path: str) -> str:
        return self._options.at(path)

    async def _answer(self, invocation: Invocation) -> OutgoingResponse:
        """What the service says to one call. Raises `OutgoingError` and `Unfillable`."""
        template = self._options.template(invocation.tool)
        if template is not None:
            return await self._by_template(template, invocation)
        body = msgspec.json.encode({"arguments": invocation.arguments})
        where = self._endpoint(invocation.tool)
        return await self._sent("POST", where, invocation, headers=self._headers(invocation), content=body)

    async def _outcome(self, answer: OutgoingResponse, tool: Tool) -> Done | Failed | Begun:
        """What the answer means. The tool has run by now, so nothing here may say that it was not reached."""
        if self._options.template(tool) is not None:
            outcome = outcome_of(answer)
            assert isinstance(outcome, (Done, Failed))
            return outcome
        said = executed(answer, where=self._endpoint(tool))
        try:
            return await self.whole(said, tool) if isinstance(said, Done) else said
        except SourceUnavailable as fault:
            words = f"'{tool.name}' has run, but its large result could not be read from its gateway. {fault.message}"
            return Failed("unreachable", words)

    async def _by_template(self, template: HttpTemplate, invocation: Invocation) -> OutgoingResponse:
        message = message_of(template, invocation.arguments)
        return await self._sent(
            template.method,
            message.url,
            invocation,
            headers={"accept": "application/json", "content-type": "application/json", **_trace(), **template.headers},
            params=message.params,
            content=None if message.json is None else msgspec.json.encode(message.json),
        )

    def _endpoint(self, tool: Tool) -> str:
        return self._options.at(f"{PATH}/{quote(tool.name, safe='')}/execute")

    def _check_there(self, answer: OutgoingResponse, tool: Tool) -> None:
        """Whether it was the service that answered, or something before it that has no better word. Raises."""
        if answer.status in _NOT_NOW:
            self._lost()
            raise SourceUnavailable(
                f"Source '{self._name}' of tool '{tool.name}' cannot say now: it answered {answer.status}."
            )

    async def _sent(
        self,
        method: str,
        url: str,
        invocation: Invocation,
        *,
        headers: Mapping[str, str],
        params: tuple[tuple[str, str], ...] = (),
        content: bytes | None = None,
    ) -> OutgoingResponse:
        """The answer to one request; an idempotent tool's is asked for again when the connection broke."""
        pauses = RETRY_PAUSES if invocation.tool.metadata.idempotent else ()
        for pause in (*pauses, None):
            try:
                return await self._outgoing.request(
                    method,
                    url,
                    headers=headers,
                    params=params,
                    content=content,
                    timeout=invocation.timeout_ms / 1000,
                    max_bytes=LARGEST_ANSWER,
                    named_by=self._options.url,
                )
            except OutgoingUnreachable:
                if pause is None:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _headers(self, invocation: Invocation) -> dict[str, str]:
        came_through = via.get()
        if len(came_through) >= MOST_HOPS:
            raise Loop(
                f"The call of '{invocation.tool.name}' has come through {len(came_through)} gateways, which is as far "
                "as a call goes. Have the gateways ask each other more directly."
            )
        return {
            "accept": "application/json",
            "content-type": "application/json",
            # The same call, begun a second time, is known there as the same.
            "idempotency-key": invocation.call_id,
            CALL_HEADER: invocation.call_id,
            TIMEOUT_HEADER: str(invocation.timeout_ms),
            VIA_HEADER: ", ".join((*came_through, self._house())).strip(", "),
            **_trace(),
            **self._options.headers,
        }

    def _down(self, fault: OutgoingError, tool: Tool) -> SourceUnavailable:
        self._lost()
        return SourceUnavailable(f"Source '{self._name}' of tool '{tool.name}' is down: {fault} Try again later.")


def _torn(tool: Tool) -> Failed:
    return Failed("bad_response", f"The large result of '{tool.name}' did not arrive as it was kept. Call it again.")


def _trace() -> dict[str, str]:
    """The headers of the call's trace. They came from outside, so only what HTTP can carry is sent."""
    trace = incoming_trace.get()
    if trace is None:
        return {}
    said = {"traceparent": trace.parent, "tracestate": trace.state or ""}
    return {name: value for name, value in said.items() if value and value.isascii() and value.isprintable()}


CALLS = "/api/v1/calls"
LOOK_SECONDS = 20.0
PATIENCE_SECONDS = 600.0
"""How long a call that was made inline is held while somebody at the service has to answer or approve."""
HALT_SECONDS = 5.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class NoSense(JackfieldError):
    """The service's answer about its work says nothing that can be used."""

    code = "bad_response"


def begun(outcome: Done | Failed | Begun, invocation: Invocation) -> Done | Failed | Begun:
    """What a first answer means for the work: it goes on, or is over."""
    behavior = invocation.tool.metadata.async_behavior
    if isinstance(outcome, Done) and behavior is not None:
        return begun_of(outcome.result, behavior, tool=invocation.tool.name)
    return outcome


async def look(peer: ServiceClient, invocation: Invocation, reference: Raw) -> Look:
    """How the work stands."""
    call_id = call_in(reference)
    if call_id is not None:
        return await _look_at_record(peer, invocation.tool, call_id)
    behavior = invocation.tool.metadata.async_behavior
    if behavior is None:
        raise NoSense(f"Tool '{invocation.tool.name}' does not say any more how its work is followed.")
    polling = behavior.status_polling
    answer = await peer.inquire(_of(invocation, polling.status_tool, {polling.status_tool_id_param: id_in(reference)}))
    if isinstance(answer, Done):
        return look_of(answer.result, behavior)
    if isinstance(answer, Begun):
        raise NoSense(f"The status tool '{polling.status_tool}' has no answer of its own, but says that it waits.")
    raise NoSense(f"The status tool '{polling.status_tool}' failed: {answer.message}")


async def halt(peer: ServiceClient, invocation: Invocation, reference: Raw) -> None:
    """Have the work stopped, where the service can."""
    call_id = call_in(reference)
    if call_id is not None:
        await peer.ask("POST", f"{_at(call_id)}/cancel", tool=invocation.tool, timeout=LOOK_SECONDS)
        return
    behavior = invocation.tool.metadata.async_behavior
    if behavior is None or behavior.cancellation is None:
        return
    stopping = behavior.cancellation
    wanted = _of(invocation, stopping.cancel_tool, {stopping.cancel_tool_id_param: id_in(reference)})
    timeout_ms = round(stopping.cancel_timeout_seconds * 1000)
    await peer.run(msgspec.structs.replace(wanted, timeout_ms=timeout_ms))


async def wait_for(peer: ServiceClient, invocation: Invocation, begun: Begun) -> Done | Failed:
    """The outcome of work that a call made inline came to; the time that people take there is not the tool's."""
    try:
        with invocation.hold(PATIENCE_SECONDS):
            return await _followed(peer, invocation, begun)
    except asyncio.CancelledError:
        # Nobody would hear of it any more, so it must not be done because somebody there approves it later.
        with suppress(JackfieldError, TimeoutError):
            async with asyncio.timeout(HALT_SECONDS):
                await halt(peer, invocation, begun.reference)
        raise


async def _followed(peer: ServiceClient, invocation: Invocation, begun: Begun) -> Done | Failed:
    """Look until it is over. A service that is away for a while has not lost it; the call's deadline is the bound."""
    delays = RetryDelays(first=FIRST_PAUSE, longest=LONGEST_PAUSE)
    while True:
        with suppress(SourceUnavailable):
            stands = await look(peer, invocation, begun.reference)
            if stands.outcome is not None:
                return stands.outcome
        await asyncio.sleep(delays.next())


def _at(call_id: str) -> str:
    """Where the call's record is. The id is the service's word, and may not lead anywhere else."""
    return f"{CALLS}/{quote(call_id, safe='')}"


async def _look_at_record(peer: ServiceClient, tool: Tool, call_id: str) -> Look:
    path = _at(call_id)
    stands = record_look(await peer.ask("GET", path, tool=tool, timeout=LOOK_SECONDS), where=peer.where(path))
    if isinstance(stands.outcome, Done):
        return Look(outcome=await peer.whole(stands.outcome, tool))
    return stands


def _of(invocation: Invocation, tool: str, arguments: dict[str, Any]) -> Invocation:
    """A call of another tool of the same service, in the name of this one. Asking twice does no harm, so it may be."""
    metadata = msgspec.structs.replace(invocation.tool.metadata, idempotent=True)
    return msgspec.structs.replace(
        invocation,
        call_id=new_id("look"),
        tool=Tool(source=invocation.tool.source, name=tool, metadata=metadata),
        arguments=arguments,
        timeout_ms=round(LOOK_SECONDS * 1000),
    )
