"""One run: ask the model, execute the tools it calls, give it their outputs, and again, until it answers.

A run ends when the model answers, when a limit is reached, when it is cancelled, or when somebody else must act: a
client that runs its own functions, a person who has to approve a call, whoever answers a pending one.
Above: responses, sessions and agents' cycles. Below: the model and the tool executor.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial

import msgspec
from msgspec import Struct

from jackfield.llm.retries import is_passing
from jackfield.llm.types import Delta, ModelFailed, ModelRequest
from jackfield.model.call import Call
from jackfield.model.items import FunctionCallOutput, InputText, Item, Message, Usage
from jackfield.model.text import counted
from jackfield.runs import events
from jackfield.runs.events import Ended, Parked, RunError
from jackfield.runs.model_steps import AskedStep, StepLog
from jackfield.runs.plan import RunPlan
from jackfield.runs.state import LoopJournal, LoopState, RecordedStep, asked_calls, recorded_step
from jackfield.runs.step import StepAccumulator, ToolCallDraft
from jackfield.runs.tool_executor import ToolExecutor
from jackfield.runs.tool_search import ShownTools
from jackfield.runs.tools import OfferedTool

log = logging.getLogger("jackfield.agents")

ASK_AGAIN = "You have to call one of your tools now. Call it."


class Past(Struct, frozen=True):
    """What is on record of a run that is taken over: its steps, and the items that were told after the last of them."""

    states: tuple[LoopState, ...] = ()
    told: Mapping[int, Item] = {}
    check: Callable[[], None] = lambda: None
    """Raises `Diverged` if more was told than the model has said again."""
    shown: Mapping[str, int] = {}
    """The places of all items that were told up to its last step and of that step's calls, by their ids."""


class Diverged(Exception):
    """What a run tells is not what was told of it before it was taken over. `next_index` is the next free place."""

    def __init__(self, next_index: int) -> None:
        super().__init__(next_index)
        self.next_index = next_index


class Loop:
    """One run, from its plan to its end."""

    def __init__(
        self,
        plan: RunPlan,
        *,
        executor: ToolExecutor,
        emit: events.Emit,
        first_index: int = 0,
        journal: LoopJournal | None = None,
        past: Past | None = None,
        log: StepLog | None = None,
    ) -> None:
        """`log`: where its steps are kept to be read later; None: nowhere."""
        self._step_log = log
        self._journal = journal
        self._past = past
        self._plan = plan
        self._executor = executor
        self._emit = emit
        self._callable, _ = plan.choice.split(plan.tools)
        """What may be called at first, by name."""
        self._shown = ShownTools(plan.tools, plan.items)
        self._next_index = first_index
        self._items: list[Item] = list(plan.items)
        self._usage: Usage | None = None
        self._called: set[str] = set()
        """Names of tools that were called in this run."""
        self._run_here = 0
        self._steps = 0
        self._was_reminded = False
        self._before: tuple[frozenset[str], int] = (frozenset(), 0)
        """What was called, and how many calls were run here, before this step."""
        if past is not None and past.states:
            self._restore(past)
        self._on_record = len(self._items)
        """So much of the conversation is on record."""
        self._shown_at = {} if past is None else past.shown

    def _restore(self, past: Past) -> None:
        """As it was when its last step was put on record."""
        last = past.states[-1]
        for state in past.states:
            self._items += state.items
        self._shown = ShownTools(self._plan.tools, self._items)
        self._usage, self._called, self._run_here = last.usage, set(last.called), last.run_here
        self._steps, self._was_reminded = last.steps, last.was_reminded
        self._next_index = max(last.next_index, *(place + 1 for place in past.shown.values()), 0)

    @property
    def items(self) -> tuple[Item, ...]:
        """The conversation so far."""
        return tuple(self._items)

    async def run(self) -> Ended | Parked:
        """Carry the plan out. Never raises but for cancellation; the event of the end is told by whoever called.

        `Parked` only with a journal of a run in the background.
        """
        try:
            async with asyncio.timeout(self._plan.limits.timeout):
                return await self._until_it_ends()
        except TimeoutError:
            return self._end("incomplete", reason="timeout")
        except ModelFailed as failure:
            return self._end("failed", error=RunError(failure.code, failure.message))

    async def _until_it_ends(self) -> Ended | Parked:
        if self._journal is not None and self._journal.in_background and not (self._past and self._past.states):
            await self._record((), {})
        elif self._past is not None and self._past.states and self._past.states[-1].calls:
            ended = await self._act_on(recorded_step(self._past.states[-1], self._plan.tools), is_recorded=True)
            if ended is not None:
                return ended
        while self._steps < self._plan.limits.max_steps:
            step = await self._ask()
            self._items += step.said
            if step.usage is not None:
                self._usage = step.usage if self._usage is None else self._usage.plus(step.usage)
            ended = await self._act_on(step) if step.calls else self._finished(step)
            if ended is not None:
                return ended
            if not step.calls and self._journal is not None:
                await self._record((), {})
        return self._end("incomplete", reason="max_steps")

    async def _record(self, calls: Sequence[ToolCallDraft], begun: Mapping[int, Call]) -> Mapping[int, Call]:
        """Put the step on record, with those of its calls that begin now."""
        assert self._journal is not None
        state = LoopState(
            items=tuple(self._items[self._on_record :]),
            calls=asked_calls(calls),
            usage=self._usage,
            called=tuple(sorted(self._called)),
            run_here=self._run_here,
            steps=self._steps,
            was_reminded=self._was_reminded,
            next_index=self._next_index,
        )
        self._on_record = len(self._items)
        return await self._journal.record(state, begun)

    async def _ask(self) -> StepAccumulator:
        """One step of the model. One that failed before it said anything may be asked again.

        The first one after a run was taken over may have been told in part. As long as the model says the same again,
        nothing is told twice; where it says something else, what was told is cut off, and all is told anew.
        """
        past, self._past = self._past, None
        self._before = (frozenset(self._called), self._run_here)
        for retry in range(self._plan.limits.retries + 1):
            step = self._listener(None if past is None else past.told)
            taken: list[Delta] = []
            request = self._request()
            asked = self._asked(request, retries=retry)
            try:
                async with aclosing(self._plan.model.stream(request)) as deltas:
                    async for delta in deltas:
                        asked.hear()
                        if past is None:
                            step.take(delta)
                            continue
                        taken.append(delta)
                        try:
                            step.take(delta)
                        except Diverged as other:
                            step = self._told_anew(taken, other)
                if past is not None:
                    past.check()
            except Diverged as other:
                step = self._told_anew(taken, other)
                break
            except ModelFailed as failure:
                if step.has_begun or retry == self._plan.limits.retries or not is_passing(failure):
                    step.close(status="incomplete")
                    asked.failed(step.said, code=failure.code, message=failure.message)
                    raise
                log.warning("model %s failed, asked again: %s", self._plan.model.name, failure)
            else:
                break
        self._next_index = step.next_index
        self._steps += 1
        asked.answered(step.said, step.calls, finish=step.finish, usage=step.usage)
        return step

    def _asked(self, request: ModelRequest, *, retries: int) -> AskedStep:
        number = self._steps + 1
        if self._step_log is None:
            return AskedStep(None, n=number, request=request, retries=retries)
        return self._step_log.ask(number, request, retries=retries)

    def _told_anew(self, taken: Sequence[Delta], other: Diverged) -> StepAccumulator:
        """The step from its beginning, at other places than before."""
        self._called, self._run_here = set(self._before[0]), self._before[1]
        self._next_index = other.next_index
        step = self._listener(None)
        for delta in taken:
            step.take(delta)
        return step

    def _listener(self, told: Mapping[int, Item] | None) -> StepAccumulator:
        return StepAccumulator(
            emit=self._emit,
            admit=self._admit,
            asks_first=self._executor.asks_first,
            first_index=self._next_index,
            step=self._steps,
            told=told,
        )

    def _request(self) -> ModelRequest:
        plan = self._plan
        choice, shown = plan.choice.for_model(frozenset(self._called)), self._shown.definitions
        return msgspec.structs.replace(
            plan.template,
            items=tuple(self._items),
            tools=shown,
            tool_choice="none" if self._is_spent or (shown and not self._callable) else choice,
            parallel_tool_calls=plan.parallel,
        )

    @property
    def _is_spent(self) -> bool:
        most = self._plan.limits.max_tool_calls
        return most is not None and self._run_here >= most

    def _admit(self, name: str) -> OfferedTool | str:
        """The tool, if it may be called now. Asked as soon as the model names one, in the order of its calls."""
        tool = self._plan.tools.get(name)
        if tool is not None and tool.searches and self._plan.choice.mode != "none":
            return tool  # no use of a tool yet: it honours no choice and counts against no limit
        refusal = self._plan.choice.refusal(name, known=tool is not None, called=frozenset(self._called))
        if refusal is not None or tool is None:
            return refusal or f"There is no tool '{name}'."
        if tool.runs_here and self._is_spent:
            limit = counted(self._run_here, "call")
            return f"Tool '{name}' was not called: the limit of {limit} is reached. Answer without tools."
        self._called.add(name)
        self._run_here += tool.runs_here
        return tool

    def _finished(self, step: StepAccumulator) -> Ended | None:
        """The model called nothing. If it had to, it is asked once more."""
        if step.finish in ("length", "content_filter"):
            reason = "max_output_tokens" if step.finish == "length" else "content_filter"
            return self._end("incomplete", reason=reason)
        if self._plan.choice.is_honoured(frozenset(self._called)):
            return self._end("completed")
        if self._was_reminded:
            said = f"Model '{self._plan.model.name}' did not call a tool, though tool_choice asks for one."
            return self._end("failed", error=RunError("tool_choice_not_honoured", f"{said} Ask again, or relax it."))
        self._was_reminded = True
        self._items.append(Message(role="developer", content=(InputText(text=ASK_AGAIN),)))
        return None

    async def _act_on(
        self, step: StepAccumulator | RecordedStep, *, is_recorded: bool = False
    ) -> Ended | Parked | None:
        """Run what is run here; hand out what the client runs. Outputs keep the order of the calls."""
        if self._journal is None:
            outputs = await self._executor.execute_step(step, self._place)
        else:
            record = None if is_recorded else partial(self._record, step.calls)
            outputs = await self._executor.execute_on_record(
                step.calls, self._place, journal=self._journal, number=self._steps, record=record, shown=self._shown_at
            )
        waits = [output for output in outputs if output is None or output.waits or output.ends]
        if waits and all(output is not None and output.parks for output in waits):
            return Parked()
        for call, output in zip(step.calls, outputs, strict=True):
            if output is not None and output.parks:
                self._executor.finish_item(call, output)  # the run ends, so nothing more will come of it here
        made: list[Item] = [call.function_call for call in step.calls]
        made += [
            FunctionCallOutput(call_id=call.call_id, output=output.output)
            for call, output in zip(step.calls, outputs, strict=True)
            if output is not None
        ]
        self._items += made  # one step: the calls together, then what they said
        self._shown.follow(made)
        if any(output is None for output in outputs):
            return self._end("requires_action" if self._plan.tools.any_runs_here else "completed")
        return self._end("completed") if waits else None

    def _place(self) -> int:
        """The place of an item that is added now."""
        index = self._next_index
        self._next_index += 1
        return index

    def _end(self, status: events.EndStatus, *, reason: str | None = None, error: RunError | None = None) -> Ended:
        return Ended(status=status, reason=reason, usage=self._usage, error=error)
