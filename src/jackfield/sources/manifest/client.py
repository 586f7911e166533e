"""Calls a service's tools: by `POST /api/v1/tools/{name}/execute`, or by a template of the config.

A call goes to the url of the config, never to one that the service names. It carries its trace context, its id, the
time it has left and the gateways it came through. Only an idempotent tool is called again after a connection broke.
Work that goes on after its call was begun is followed by the tools that `async_behavior` names, or, where the service
is a gateway that answered `pending`, by the record of its call.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from jackfield.errors import CallLoop, JackfieldError, SourceUnavailable
from jackfield.model.call import Done, Failed
from jackfield.model.ids import new_id
from jackfield.model.tool import Tool
from jackfield.model.trace_context import CALL_HEADER, MOST_HOPS, TIMEOUT_HEADER, VIA_HEADER, incoming_trace, via
from jackfield.outgoing import (
    MAX_BYTES,
    Outgoing,
    OutgoingError,
    OutgoingNotSent,
    OutgoingResponse,
    OutgoingTimedOut,
    OutgoingUnreachable,
)
from jackfield.protocol.backoff import RetryDelays
from jackfield.protocol.large_results import digest_of
from jackfield.sources.base import Begun, Invocation, Look
from jackfield.sources.http import Unfillable, message_of, outcome_of
from jackfield.sources.manifest.options import ManifestOptions
from jackfield.sources.manifest.responses import (
    call_in,
    executed,
    id_in,
    look_of,
    notice_in,
    page_in,
    record_look,
)
from jackfield.sources.manifest.streaming import ACCEPT, read_answer

PATH = "/api/v1/tools"
CALLS_PATH = "/api/v1/calls"
RETRY_PAUSES = (0.1, 0.5)
MAX_RESPONSE = 4 * MAX_BYTES
PAGE = 1_000_000
PAGE_SECONDS = 20.0
POLL_SECONDS = 20.0
FIRST_POLL_PAUSE, LONGEST_POLL_PAUSE = 0.1, 5.0
HOLD_SECONDS = 600.0
"""How long an inline call is held while somebody at the service has to answer or approve."""
CANCEL_SECONDS = 5.0
CANCEL_PAUSES = (0.05, 0.2, 1.0, 3.0)
_TRY_LATER = frozenset({429, 502, 503, 504})


class BadStatus(JackfieldError):
    """The service's response about its work cannot be used."""

    code = "bad_response"


class ServiceClient:
    """One service."""

    def __init__(
        self,
        name: str,
        options: ManifestOptions,
        *,
        outgoing: Outgoing,
        cluster_id: Callable[[], str],
        lost: Callable[[], None],
    ) -> None:
        """`cluster_id` is ours; `lost` is called when the service could not be reached, to have it refreshed."""
        self._name = name
        self._options = options
        self._outgoing = outgoing
        self._cluster_id = cluster_id
        self._lost = lost

    async def run(self, invocation: Invocation, *, is_peer: bool = False) -> Done | Failed | Begun:
        """One call of a tool. Raises `SourceUnavailable` where the service was not reached at all.

        `is_peer`: the service is a gateway, which tells how far a call is.
        """
        tool = invocation.tool
        try:
            response = await self._response(invocation, is_peer=is_peer)
        except Unfillable as fault:
            return Failed(fault.code, fault.message)
        except OutgoingTimedOut:
            return Failed("timeout", f"Tool timed out after {invocation.timeout_ms}ms")
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
        if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
            self._lost()
            said = executed(response, where=self._endpoint(tool))
            words = said.message if isinstance(said, Failed) else "It answered 503."
            cure = "" if words.endswith("Try again later.") else " Try again later."
            raise SourceUnavailable(f"Source '{self._name}' of tool '{tool.name}' is unavailable: {words}{cure}")
        if response.status == HTTPStatus.NOT_FOUND:
            self._lost()  # it may have restarted with other tools
        return await self._outcome(response, tool)

    async def cancel(self, invocation: Invocation) -> None:
        """Cancel a call at a service that can: a gateway knows it by its idempotency key, another by the call's id.

        The call may still be on its way there, so one that is not known is tried again for a while.
        """
        path = f"{CALLS_PATH}/{quote(invocation.call_id, safe='')}/cancel"
        for pause in CANCEL_PAUSES:
            response = await self._ask("POST", path, tool=invocation.tool, timeout=CANCEL_SECONDS)
            if response.status != HTTPStatus.NOT_FOUND:
                return
            await asyncio.sleep(pause)

    async def poll(self, invocation: Invocation, reference: Raw) -> Look:
        """The state of work that was begun."""
        call_id = call_in(reference)
        if call_id is not None:
            return await self._poll_record(invocation.tool, call_id)
        behavior = invocation.tool.metadata.async_behavior
        if behavior is None:
            raise BadStatus(f"Tool '{invocation.tool.name}' does not say any more how its work is followed.")
        tool, argument = behavior.status_polling.status_tool, behavior.status_polling.status_tool_id_param
        outcome = await self._run_status_tool(_helper_call(invocation, tool, {argument: id_in(reference)}))
        if isinstance(outcome, Done):
            return look_of(outcome.result, behavior)
        if isinstance(outcome, Begun):
            raise BadStatus(f"The status tool '{tool}' has no answer of its own, but says that it waits.")
        raise BadStatus(f"The status tool '{tool}' failed: {outcome.message}")

    async def stop(self, invocation: Invocation, reference: Raw) -> None:
        """Stop work that was begun, where the service can."""
        call_id = call_in(reference)
        if call_id is not None:
            await self._ask("POST", f"{_record(call_id)}/cancel", tool=invocation.tool, timeout=POLL_SECONDS)
            return
        behavior = invocation.tool.metadata.async_behavior
        if behavior is None or behavior.cancellation is None:
            return
        cancellation = behavior.cancellation
        arguments = {cancellation.cancel_tool_id_param: id_in(reference)}
        call = _helper_call(invocation, cancellation.cancel_tool, arguments)
        await self.run(msgspec.structs.replace(call, timeout_ms=round(cancellation.cancel_timeout_seconds * 1000)))

    async def wait_for(self, invocation: Invocation, begun: Begun) -> Done | Failed:
        """The outcome of work that an inline call has begun. The time that people take there is not the tool's.

        A service that is away for a while has not lost it; the call's deadline is the bound.
        """
        delays = RetryDelays(first=FIRST_POLL_PAUSE, longest=LONGEST_POLL_PAUSE)
        try:
            with invocation.hold(HOLD_SECONDS):
                while True:
                    with suppress(SourceUnavailable):
                        state = await self.poll(invocation, begun.reference)
                        if state.outcome is not None:
                            return state.outcome
                        if state.progress is not None:
                            invocation.report(state.progress)
                    await asyncio.sleep(delays.next())
        except asyncio.CancelledError:
            # Nobody would get its result any more, so it must not run because somebody there approves it later.
            with suppress(JackfieldError, TimeoutError):
                async with asyncio.timeout(CANCEL_SECONDS):
                    await self.stop(invocation, begun.reference)
            raise

    async def _run_status_tool(self, invocation: Invocation) -> Done | Failed | Begun:
        """As `run`, for what may be repeated: a service in trouble counts as unavailable."""
        tool = invocation.tool
        try:
            response = await self._response(invocation)
        except (OutgoingUnreachable, OutgoingTimedOut) as fault:
            raise self._down(fault, tool) from None
        except (OutgoingError, Unfillable) as fault:
            return Failed(fault.code, fault.message)
        self._check_available(response, tool)
        return await self._outcome(response, tool)

    async def _poll_record(self, tool: Tool, call_id: str) -> Look:
        path = _record(call_id)
        response = await self._ask("GET", path, tool=tool, timeout=POLL_SECONDS)
        state = record_look(response, where=self._options.at(path))
        if isinstance(state.outcome, Done):
            return Look(outcome=await self._whole(state.outcome, tool))
        return state

    async def _ask(self, method: str, path: str, *, tool: Tool, timeout: float) -> OutgoingResponse:
        """One request about a call at the service. Raises `SourceUnavailable` where it cannot be asked."""
        try:
            response = await self._outgoing.request(
                method,
                self._options.at(path),
                headers={"accept": "application/json", **self._options.headers},
                timeout=timeout,
                max_bytes=MAX_RESPONSE,
                named_by=self._options.url,
            )
        except OutgoingError as fault:
            raise self._down(fault, tool) from None
        self._check_available(response, tool)
        return response

    async def _whole(self, outcome: Done, tool: Tool) -> Done | Failed:
        """The complete result, where another gateway keeps a large one apart and returned a notice."""
        notice = notice_in(outcome.result)
        if notice is None:
            return outcome
        if notice.size > MAX_RESPONSE:
            return Failed("too_large", f"The result of '{tool.name}' has {notice.size:,} bytes, too many to pass on.")
        body = bytearray()
        offset: int | None = 0
        while offset is not None:
            path = f"{_record(notice.call_id)}/result?offset={offset}&limit={PAGE}"
            page = page_in(await self._ask("GET", path, tool=tool, timeout=PAGE_SECONDS))
            if page is None or (page.next_offset or offset + 1) <= offset:
                return Failed("bad_response", f"The large result of '{tool.name}' could not be read from its gateway.")
            body += page.text.encode()
            if len(body) > notice.size:
                return _damaged(tool)
            offset = page.next_offset
        return Done(Raw(bytes(body))) if digest_of(bytes(body)) == notice.digest else _damaged(tool)

    async def _response(self, invocation: Invocation, *, is_peer: bool = False) -> OutgoingResponse:
        """The service's response to one call. Raises `OutgoingError` and `Unfillable`."""
        template = self._options.template(invocation.tool)
        if template is None:
            body = msgspec.json.encode({"arguments": invocation.arguments})
            endpoint = self._endpoint(invocation.tool)
            headers = self._headers(invocation)
            if is_peer and invocation.is_followed(invocation.call_id):
                return await self._stream(endpoint, invocation, headers=headers, content=body)
            return await self._send("POST", endpoint, invocation, headers=headers, content=body)
        message = message_of(template, invocation.arguments)
        json = {"accept": "application/json", "content-type": "application/json"}
        return await self._send(
            template.method,
            message.url,
            invocation,
            headers={**json, **_trace_headers(), **template.headers},
            params=message.params,
            content=None if message.json is None else msgspec.json.encode(message.json),
        )

    async def _outcome(self, response: OutgoingResponse, tool: Tool) -> Done | Failed | Begun:
        """The outcome of a response. The tool has run by now, so nothing here may say that it was not reached."""
        if self._options.template(tool) is not None:
            outcome = outcome_of(response)
            assert isinstance(outcome, (Done, Failed))
            return outcome
        said = executed(response, where=self._endpoint(tool))
        try:
            return await self._whole(said, tool) if isinstance(said, Done) else said
        except SourceUnavailable as fault:
            words = f"'{tool.name}' has run, but its large result could not be read from its gateway. {fault.message}"
            return Failed("unreachable", words)

    def _endpoint(self, tool: Tool) -> str:
        return self._options.at(f"{PATH}/{quote(tool.name, safe='')}/execute")

    def _check_available(self, response: OutgoingResponse, tool: Tool) -> None:
        """Raises `SourceUnavailable` for a status that a proxy or a busy service gives."""
        if response.status in _TRY_LATER:
            self._lost()
            raise SourceUnavailable(
                f"Source '{self._name}' of tool '{tool.name}' did not report the status: HTTP {response.status}."
            )

    async def _send(
        self,
        method: str,
        url: str,
        invocation: Invocation,
        *,
        headers: Mapping[str, str],
        params: tuple[tuple[str, str], ...] = (),
        content: bytes | None = None,
    ) -> OutgoingResponse:
        """Send one request; an idempotent tool's is sent again when the connection broke."""
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
                    max_bytes=MAX_RESPONSE,
                    named_by=self._options.url,
                )
            except OutgoingUnreachable:
                if pause is None:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _stream(
        self, url: str, invocation: Invocation, *, headers: Mapping[str, str], content: bytes
    ) -> OutgoingResponse:
        """As `_send`, with the progress of the call on the way."""
        wanted = {**{name.lower(): value for name, value in headers.items()}, "accept": ACCEPT}
        try:
            async with asyncio.timeout(invocation.timeout_ms / 1000):
                response = await self._outgoing.send(
                    "POST", url, headers=wanted, content=content, named_by=self._options.url
                )
                return await read_answer(response, invocation, max_bytes=MAX_RESPONSE)
        except TimeoutError:
            raise OutgoingTimedOut(f"'{self._name}' did not answer in time.") from None
        except OutgoingUnreachable:
            if not invocation.tool.metadata.idempotent:
                raise
        return await self._send("POST", url, invocation, headers=headers, content=content)

    def _headers(self, invocation: Invocation) -> dict[str, str]:
        came_through = via.get()
        if len(came_through) >= MOST_HOPS:
            raise CallLoop(
                f"The call of '{invocation.tool.name}' has come through {len(came_through)} gateways, which is as far "
                "as a call goes. Have the gateways ask each other more directly."
            )
        return {
            "accept": "application/json",
            "content-type": "application/json",
            # A call that is sent twice is the same call there.
            "idempotency-key": invocation.call_id,
            CALL_HEADER: invocation.call_id,
            TIMEOUT_HEADER: str(invocation.timeout_ms),
            VIA_HEADER: ", ".join((*came_through, self._cluster_id())).strip(", "),
            **_trace_headers(),
            **self._options.headers,
        }

    def _down(self, fault: OutgoingError, tool: Tool) -> SourceUnavailable:
        self._lost()
        return SourceUnavailable(f"Source '{self._name}' of tool '{tool.name}' is down: {fault} Try again later.")


def _damaged(tool: Tool) -> Failed:
    return Failed("bad_response", f"The large result of '{tool.name}' was damaged in transit. Call it again.")


def _trace_headers() -> dict[str, str]:
    """The call's trace context. It came from outside, so only what HTTP can carry is sent."""
    trace = incoming_trace.get()
    if trace is None:
        return {}
    given = {"traceparent": trace.parent, "tracestate": trace.state or ""}
    return {name: value for name, value in given.items() if value and value.isascii() and value.isprintable()}


def _record(call_id: str) -> str:
    """The path of a call's record. The service chose the id, which may not lead anywhere else."""
    return f"{CALLS_PATH}/{quote(call_id, safe='')}"


def _helper_call(invocation: Invocation, tool: str, arguments: dict[str, Any]) -> Invocation:
    """A call of a status or cancel tool on behalf of this one. Repeating it does no harm."""
    metadata = msgspec.structs.replace(invocation.tool.metadata, idempotent=True)
    return msgspec.structs.replace(
        invocation,
        call_id=new_id("look"),
        tool=Tool(source=invocation.tool.source, name=tool, metadata=metadata),
        arguments=arguments,
        timeout_ms=round(POLL_SECONDS * 1000),
    )
