"""Follows work that goes on at a service after its call was begun: asks how it stands, has it stopped.

Above: `source.py`. Below: `calling.py`, which reaches the service. Work is followed by the tools that `async_behavior`
names, or, where the service is a gateway that answered `pending`, by the record of its call.
"""

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from jackfield.errors import JackfieldError, SourceUnavailable
from jackfield.model.call import Done, Failed
from jackfield.model.ids import new_id
from jackfield.model.tool import Tool
from jackfield.sources.base import Begun, Invocation, Look
from jackfield.sources.manifest.answers import begun_of, call_in, id_in, look_of, record_look
from jackfield.sources.manifest.calling import Peer

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


async def look(peer: Peer, invocation: Invocation, reference: Raw) -> Look:
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


async def halt(peer: Peer, invocation: Invocation, reference: Raw) -> None:
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


async def wait_for(peer: Peer, invocation: Invocation, begun: Begun) -> Done | Failed:
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


async def _followed(peer: Peer, invocation: Invocation, begun: Begun) -> Done | Failed:
    """Look until it is over. A service that is away for a while has not lost it; the call's deadline is the bound."""
    pause = FIRST_PAUSE
    while True:
        with suppress(SourceUnavailable):
            stands = await look(peer, invocation, begun.reference)
            if stands.outcome is not None:
                return stands.outcome
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def _at(call_id: str) -> str:
    """Where the call's record is. The id is the service's word, and may not lead anywhere else."""
    return f"{CALLS}/{quote(call_id, safe='')}"


async def _look_at_record(peer: Peer, tool: Tool, call_id: str) -> Look:
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
