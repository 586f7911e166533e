"""Server-run calls of a run: through the pipeline, shown as `mcp_call` items, or as a question whether they may run.

Above: the loop. Below: the pipeline and its events.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
from msgspec import UNSET

from jackfield.calls import events as call_events
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.requests import CallRequest
from jackfield.errors import InvalidArguments, Refused
from jackfield.model.call import Call, Failed
from jackfield.model.ids import new_id
from jackfield.model.items import ClientCall, McpApprovalRequest, McpCall
from jackfield.runs import events
from jackfield.runs.outputs import Told, made_whole, refused, told_failure, told_of
from jackfield.runs.plan import RunPlan
from jackfield.runs.step import StepAccumulator, ToolCallDraft, record_id
from jackfield.runs.tools import Offered, made_call
from jackfield.store import Store

APPROVAL_PREFIX = "mcpr_"
MOST_PROGRESS = 1_000
"""Times that one call tells how far it is: each is an event of the stream, and some streams are kept."""


class CallRunner:
    """Runs the calls of one run."""

    def __init__(self, plan: RunPlan, *, pipeline: Pipeline, store: Store, emit: events.Emit) -> None:
        self._plan = plan
        self._pipeline = pipeline
        self._store = store
        self._emit = emit

    def asks_first(self, tool: Offered) -> bool:
        """Whether a person has to allow a call of this tool, by its metadata, the preferences or the request."""
        if tool.entry is None:
            return False
        plan = self._plan
        return tool.asks_first or self._pipeline.needs_approval(
            tool.entry, principal=plan.principal, chat_id=plan.chat_id
        )

    async def act(self, speech: StepAccumulator, place: Callable[[], int]) -> list[Told | None]:
        """All calls of a step, at once where the request allows it."""
        if not self._plan.parallel:
            return [await self._one(call, place) for call in speech.calls]
        # If the run is cancelled, so is every call.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(call, place)) for call in speech.calls]
        return [task.result() for task in tasks]

    async def _one(self, call: ToolCallDraft, place: Callable[[], int]) -> Told | None:
        """What the model is told of one call; None where the client has to run it."""
        if call.refusal is not None:
            return refused(call.refusal)
        assert call.tool is not None
        if call.tool.runs_here:
            return await self.run(call, place)
        assert isinstance(call.item, ClientCall)
        assert call.index is not None
        self._emit(events.ItemDone(call.index, made_call(call.item, call.arguments)))
        return None

    async def run(self, call: ToolCallDraft, place: Callable[[], int]) -> Told:
        """One call to its end, or to where somebody else has to act."""
        arguments = parsed_arguments(call.arguments)
        if isinstance(arguments, str):
            return self._over(call, refused(arguments))
        if call.item is None:
            return await self._ask_first(call, arguments, place)
        assert isinstance(call.item, McpCall)
        assert call.index is not None
        self._emit(events.ToolRunning(call.index))
        made = await self._make(call, arguments, call_id=record_id(call.item.id), index=call.index)
        return self._over(call, made if isinstance(made, Told) else told_of(made))

    async def _ask_first(self, call: ToolCallDraft, arguments: dict[str, object], place: Callable[[], int]) -> Told:
        """Put the call on record as one that waits for a person, and say so."""
        assert call.tool is not None
        call_id = new_id("call")
        made = await self._make(call, arguments, call_id=call_id, index=None)
        if isinstance(made, Told):
            return made
        request = McpApprovalRequest(
            id=f"{APPROVAL_PREFIX}{call_id}",
            server_label=call.tool.label,
            name=call.tool.bare_name,
            arguments=call.arguments,
        )
        index = place()
        self._emit(events.ItemAdded(index, request))
        self._emit(events.ItemDone(index, request))
        return told_of(made)

    async def _make(
        self, call: ToolCallDraft, arguments: dict[str, object], *, call_id: str, index: int | None
    ) -> Call | Told:
        assert call.tool is not None
        assert call.tool.entry is not None
        plan = self._plan
        request = CallRequest(
            tool=call.tool.entry.name,
            arguments=arguments,
            principal=plan.principal,
            agent=plan.agent,
            space_id=plan.space_id,
            chat_id=plan.chat_id,
            run_id=plan.run_id,
            begins_run=True,
            asks_first=call.tool.asks_first,
            entry=call.tool.entry if call.tool.is_private else None,
            is_own=call.tool.is_own,
            config=call.tool.options,
        )
        try:
            async with self._told_progress(call_id, index):
                made = await self._pipeline.call(request, call_id=call_id)
            return await made_whole(self._store, made)
        except InvalidArguments as refusal:
            return refused(refusal.message)
        except Refused as refusal:
            return told_failure(Failed(refusal.code, refusal.message))
        except asyncio.CancelledError:
            with suppress(Refused):
                await asyncio.shield(self._pipeline.cancel(call_id, principal=plan.principal))
            raise

    @asynccontextmanager
    async def _told_progress(self, call_id: str, index: int | None) -> AsyncIterator[None]:
        """While the block runs, progress of the call is told as progress of its item."""
        if index is None:
            yield
            return
        async with self._pipeline.events.follow(call_id) as told:
            telling = asyncio.create_task(self._tell_progress(told, index))
            try:
                yield
            finally:
                telling.cancel()
                await asyncio.wait((telling,))

    async def _tell_progress(self, told: AsyncIterator[call_events.CallEvent], index: int) -> None:
        said = 0
        async for event in told:
            if event.type == call_events.PROGRESS and event.progress is not None and said < MOST_PROGRESS:
                said += 1
                progress = event.progress
                self._emit(events.ToolProgress(index, progress.progress, progress.total, progress.message))

    def _over(self, call: ToolCallDraft, told: Told) -> Told:
        """The call's item as it stays."""
        if isinstance(call.item, McpCall) and call.index is not None:
            done = msgspec.structs.replace(
                call.item,
                arguments=call.arguments,
                output=None if told.error is not None else told.text,
                error=told.error,
                status=told.status,
                images=len(told.images) or UNSET,
            )
            self._emit(events.ItemDone(call.index, done))
        return told


def parsed_arguments(text: str) -> dict[str, object] | str:
    """The arguments as an object, or what is wrong with them, in words for the model. No text is no arguments."""
    try:
        arguments = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError) as error:
        return f"The arguments are not valid JSON: {error}. Send one JSON object."
    if not isinstance(arguments, dict):
        return "The arguments must be one JSON object."
    return arguments
