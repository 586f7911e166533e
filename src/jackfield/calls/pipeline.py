"""The path of every call: find → validate → decide → execute → settle.

Above: HTTP handlers, agents, tools that call tools. Below: the catalog finds and decides, `executor.py` runs and
settles, the store persists. `Pipeline.call` is the whole story; the methods after it are its steps, in order.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.calls import events
from jackfield.calls import operation_transactions as operation_tx
from jackfield.calls import transactions as call_tx
from jackfield.calls.counters import Counters
from jackfield.calls.events import CallEvent, CallEvents
from jackfield.calls.executor import Executor
from jackfield.calls.permissions import may_log_in, may_see
from jackfield.calls.requests import CallRequest, Prepared, asked_first, claim_of, handed_over, left_alone
from jackfield.calls.rows import CallFilter, call_page, whole_result
from jackfield.calls.running import Running, SettleWith
from jackfield.calls.transactions import Moved, Started
from jackfield.calls.waiting import slot_of, start_and_wait, wait_for_slot, wait_until_final
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.globs import compiled
from jackfield.catalog.limits import Limit, Limits, budget_of, per_minute, points_of
from jackfield.catalog.names import shown
from jackfield.catalog.policy import Allow, Ask, Decision, Deny, Refuse, acting_agent, decide
from jackfield.catalog.preferences import PreferenceBook
from jackfield.catalog.view import View
from jackfield.errors import (
    AlreadyResolved,
    CallNotFound,
    Conflict,
    DefinitionChanged,
    DeniedByHook,
    Forbidden,
    LoginNeeded,
    NotFound,
    NotReady,
    Refused,
    RunNotFound,
)
from jackfield.hooks.service import Hook
from jackfield.model.call import Call, CallError, CallStatus, Delivery, Done, Failed, HookNote, Outcome
from jackfield.model.ids import new_id
from jackfield.model.principal import Principal, Scope
from jackfield.model.tool import BUILTIN, CALLER, CallKind
from jackfield.model.trace_context import trace_id, via
from jackfield.sources.base import InTransaction, Invocation, TaskUse
from jackfield.spaces import transactions as space_tx
from jackfield.store import Store

MAX_DEPTH = 16
CANCEL_STEP = 200
_ADMIN = Principal(name="admin", scopes=frozenset({Scope.ADMIN.value}))

_encode = msgspec.json.Encoder().encode


class Pipeline:
    """Makes calls, and knows those it is making."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        preferences: PreferenceBook,
        limits: Limits,
        store: Store,
        executor: Executor,
        gateway_id: str,
    ) -> None:
        self._catalog = catalog
        self._preferences = preferences
        self._store = store
        self._gateway_id = gateway_id
        self._executor = executor
        self.limits = limits
        self._unmarked: set[str] = set()
        """Calls whose HTTP caller has its answer, and the store does not know yet."""
        self._broken_off: set[str] = set()
        """Calls whose HTTP caller is not waited with any more, though this gateway lives on."""
        self._open = True
        self.ask_caller: Callable[[Call], None] | None = None
        """Hands a call of a caller's tool to whoever lent it, once it is on record."""

    async def call(self, request: CallRequest, *, call_id: str | None = None) -> Call:
        """One call, from a request to its outcome. A refusal raises; a failing tool is an outcome."""
        prepared: Prepared | None = None
        try:
            prepared = await self.prepare(request, call_id=call_id)
            return await self._carry_on(prepared)
        except Refused as refusal:
            known_as = refusal.call_id if isinstance(refusal, DeniedByHook) else None
            entry = None if prepared is None else prepared.entry
            await self.record_refusal(request, refusal, entry=entry, known_as=known_as)
            raise

    async def carry_on(self, prepared: Prepared) -> Call:
        """All that comes after `prepare`, for a call that no step has on record. A refusal raises."""
        try:
            return await self._carry_on(prepared)
        except Refused as refusal:
            await self.record_refusal(prepared.request, refusal, entry=prepared.entry)
            raise

    async def _carry_on(self, prepared: Prepared) -> Call:
        call, request = prepared.call, prepared.request
        try:
            if prepared.refusal is not None:
                return await self._executor.settle(self._admit(call, request, recorded=False), prepared.refusal)
            if call.status is CallStatus.PENDING_APPROVAL:
                return await self._ask(prepared)
            if request.only_reads:
                return await self._executor.execute_unrecorded(
                    call, prepared.entry, prepared.request.arguments, principal=request.principal
                )
            return await (self._execute(prepared) if call.status is CallStatus.RUNNING else self._hand_over(prepared))
        except BaseException:
            if call.waiter is not None:
                self._broken_off.add(call.id)  # an HTTP caller is owed the outcome; this gateway lives on
            raise

    async def refused(self, request: CallRequest, refusal: Refused, *, entry: Entry | None = None) -> None:
        """Count a call and put it on record that was refused before it came to the pipeline."""
        if not refusal.on_record:
            self._count_refusal(request, entry, refusal)
            await self.record_refusal(request, refusal, entry=entry)

    async def record_refusal(
        self, request: CallRequest, refusal: Refused, *, entry: Entry | None = None, known_as: str | None = None
    ) -> None:
        """Put a call on record that `prepare` has refused, and counted. `known_as`: an id that hooks were told."""
        # T14
        find = partial(self._seen, request, refusal, entry)
        await self._executor.refusals.record(request, refusal, find=find, call_id=known_as)
        refusal.on_record = True

    async def write_refusals(self) -> None:
        """Write what was refused again and is only counted in memory so far."""
        await self._executor.refusals.write_all()

    def _seen(self, request: CallRequest, refusal: Refused, entry: Entry | None) -> Entry | None:
        """The tool of a refused call, as far as its caller may know of it."""
        if entry is not None or request.entry is not None or isinstance(refusal, NotFound):
            return entry or request.entry
        view = self._catalog.view(request.principal)
        if isinstance(refusal, DefinitionChanged):
            return view.snapshot.held.get(request.tool)
        with suppress(Refused):
            return view.get(request.tool)
        return None

    async def prepare(self, request: CallRequest, *, call_id: str | None = None) -> Prepared:
        """Find, validate and decide: all that comes before the row. A refusal raises."""
        entry: Entry | None = None
        try:
            entry = self._find(request)
            arguments = await self._catalog.require_arguments(entry, request.arguments)
            if arguments is not request.arguments:
                request = msgspec.structs.replace(request, arguments=arguments)
            if request.run_id is not None:
                await self._check_run(request, request.run_id)
            agent, shown = _agent_of(entry, request), None
            if entry.tool.visible and request.space_id is not None:
                shown = await self._shown(entry, request.space_id, agent)
            decision = await self._decide(entry, request, agent)
            call = self._new_call(entry, request, call_id, agent=agent, shown=shown)
            if (hooks := self._executor.hooks.before(entry)) and isinstance(decision, Allow | Ask):
                request, call, decision = await self._ask_hooks(hooks, entry, request, call, decision)
            return _at_once(_prepared(request, entry, call, decision))
        except Refused as refusal:
            self._count_refusal(request, entry, refusal)
            raise

    async def _ask_hooks(
        self, hooks: tuple[Hook, ...], entry: Entry, request: CallRequest, call: Call, decision: Allow | Ask
    ) -> tuple[CallRequest, Call, Allow | Ask]:
        """What the hooks before a call say, with the arguments that they leave. A denial raises."""
        key = request.idempotency_key
        if key is not None and await self._store.read(partial(call_tx.is_key_taken, request.principal.name, key)):
            return request, call, decision  # no call is made: the one that the key stands for is told again
        decided = await self._executor.hooks.decide(hooks, call, check=partial(self._catalog.require_arguments, entry))
        if decided.denied is not None:
            raise self._denied(decided.denied, call, decided.notes)
        call = msgspec.structs.replace(call, hooks=decided.notes)
        if decided.arguments is not None:
            request = msgspec.structs.replace(request, arguments=decided.arguments)
            changed = Raw(_encode(decided.arguments))
            call = msgspec.structs.replace(call, arguments=changed, asked_arguments=call.arguments)
        if not decided.asks:
            return request, call, decision
        if call.kind is not CallKind.TOOL:
            said = "A hook wants a person to allow this, and nobody can be asked about a read."
            raise self._denied(said, call, decided.notes)
        return request, call, Ask("a hook asks for it")

    def _denied(self, message: str, call: Call, notes: tuple[HookNote, ...]) -> DeniedByHook:
        """A refusal by hooks, which is a span of its own: what they did is in the trace."""
        refusal = DeniedByHook(message, call_id=call.id, notes=notes)
        error = CallError(refusal.code, message)
        self._executor.trace_refused(msgspec.structs.replace(call, status=CallStatus.REFUSED, hooks=notes, error=error))
        return refusal

    def _count_refusal(self, request: CallRequest, entry: Entry | None, refusal: Refused) -> None:
        principal = request.principal.on_record
        if entry is None:
            self.counters.refuse(refusal.code, principal=principal)
            return
        tool = entry.tool
        self.counters.refuse(
            refusal.code, principal=principal, tool=entry.name, source=tool.source, kind=tool.operation
        )

    async def work_of(self, prepared: Prepared) -> Done | Failed | InTransaction:
        """What a built-in tool does, for the step of a cycle that will record the call."""
        request = prepared.request
        return await self._executor.work_of(
            prepared.call, prepared.entry, request.arguments, principal=request.principal
        )

    async def go_on(self, prepared: Prepared, *, written: Call, settle_with: SettleWith | None = None) -> Call:
        """The rest of a call whose row a step of a cycle has written: until its slot is decided.

        `settle_with` writes its outcome, where the gateway itself runs it.
        """
        if written.status.is_final:
            self._executor.tell_over(written)
            return written
        if written.status is CallStatus.RUNNING:
            running = self._admit(written, prepared.request, recorded=True)
            running.settle_with = settle_with
            return await self._executor.carry_out(running, prepared.entry, prepared.request.arguments)
        self.announce(prepared, written=written)
        return await self.wait_on(written)

    def announce(self, prepared: Prepared, *, written: Call) -> None:
        """Tell that a call waits for somebody, whose row a step has written."""
        self._waits(written)
        if prepared.wakes is not None:
            self._store.wake(prepared.wakes)

    async def left_to_others(self, prepared: Prepared) -> Prepared:
        """The same for a run that is parked while somebody else has to act: only the expiry ends that wait."""
        call = prepared.call
        if prepared.refusal is not None or call.status is CallStatus.RUNNING:
            return prepared
        await self._keep_way(prepared)
        if call.status is CallStatus.WAITING:
            call = handed_over(call, is_async=True)
        return msgspec.structs.replace(prepared, call=call)

    async def wait_on(self, call: Call) -> Call:
        """The call when its slot is decided, by whoever carries it out."""
        return call if slot_of(call) else await wait_for_slot(self._store, call.id, on_flip=self._waits_alone)

    def _find(self, request: CallRequest) -> Entry:
        if not self._open:
            raise NotReady("The gateway is stopping and takes no more calls. Try again when it is back.")
        if request.entry is not None:
            return request.entry
        view = self._catalog.view(request.principal)
        return view.get(request.tool) if request.within is None else _reachable(view, request.tool, request.within)

    async def _check_run(self, request: CallRequest, run_id: str) -> None:
        if request.depth or request.begins_run:
            return
        owner = await self._store.read(partial(call_tx.principal_of_run, run_id))
        if owner is None:
            raise RunNotFound(f"There is no run '{run_id}'. Leave run_id out to begin one.", param="run_id")
        if owner != request.principal.name and not request.principal.is_admin:
            raise Forbidden(f"Run '{run_id}' belongs to another key.", param="run_id")

    async def _shown(self, entry: Entry, space_id: str, agent: str | None) -> str | None:
        """How a visible call appears in its space. A space that is not stored here shows it nowhere."""
        if await self._store.read(partial(space_tx.get_space, space_id)) is None:
            return None
        if agent is not None and await self._store.read(partial(space_tx.get_member, space_id, agent)) is None:
            raise Forbidden(f"Agent '{agent}' is not a member of space '{space_id}'. Add it there first.")
        return "without_result" if entry.tool.metadata.sensitive_output else "whole"

    async def _decide(self, entry: Entry, request: CallRequest, agent: str | None) -> Allow | Ask | Deny | Refuse:
        if entry.tool.operation is not CallKind.TOOL:
            return await self._decide_reading(entry, request, agent)
        principal, metadata = request.principal, entry.tool.metadata
        wanted = self._preferences.effective(entry, principal=principal.name, chat_id=request.chat_id)
        ask = partial(
            decide,
            entry,
            principal=principal,
            agent=agent,
            space_id=request.space_id,
            enabled=wanted.enabled,
            requires_approval=wanted.requires_approval or request.asks_first,
            is_own=request.is_own,
            needs=request.needs,
            off=None if wanted.off is None else wanted.off.sentence,
        )
        decision = ask()
        if metadata.rate_limit_per_minute is None and principal.budget is None:
            return decision
        if not isinstance(decision, (Allow, Ask)):
            return decision
        rate = per_minute(f"tool {entry.tool.source}:{entry.tool.name}", metadata.rate_limit_per_minute)
        retry_after, affordable_after = await self._take(
            rate, budget_of(principal), points=points_of(metadata.cost_estimate)
        )
        if retry_after or affordable_after:
            return ask(retry_after=retry_after, affordable_after=affordable_after)
        return decision

    async def _decide_reading(
        self, entry: Entry, request: CallRequest, agent: str | None
    ) -> Allow | Ask | Deny | Refuse:
        """Reads and prompts are switched off with their source; it has one limit for all of them."""
        source = entry.tool.source
        off = self._preferences.switches.of_call(entry, principal=request.principal.name)
        ask = partial(
            decide,
            entry,
            principal=request.principal,
            agent=agent,
            space_id=request.space_id,
            enabled=True,
            requires_approval=False,
            needs=request.needs,
            off=None if off is None else off.sentence,
        )
        decision = ask()
        limit = per_minute(f"reads {source}", self._catalog.read_limits.get(source))
        if limit is None or not isinstance(decision, Allow):
            return decision
        retry_after = await self.limits.take(limit)
        return ask(retry_after=retry_after) if retry_after else decision

    async def _take(self, rate: Limit | None, budget: Limit | None, *, points: int) -> tuple[float, float]:
        """Take from both limits or from none: seconds until the tool may be called again, and until the key can afford
        it.
        """
        retry_after = 0.0 if rate is None else await self.limits.take(rate)
        if retry_after or budget is None:
            return retry_after, 0.0
        try:
            affordable_after = await self.limits.take(budget, points)
        except BaseException:
            if rate is not None:
                self.limits.give_back(rate)
            raise
        if affordable_after and rate is not None:
            self.limits.give_back(rate)
        return 0.0, affordable_after

    def offered(
        self, entries: Sequence[Entry], *, principal: Principal, chat_id: str | None = None
    ) -> tuple[Entry, ...]:
        """Those of the tools that are switched on for this principal: what a model gets to know of."""
        seen = self.switched_on(entries, principal=principal, chat_id=chat_id)
        return tuple(entry for entry in seen if not (entry.tool.meta and entry.tool.is_for_apps_only))

    def switched_on(
        self, entries: Sequence[Entry], *, principal: Principal, chat_id: str | None = None
    ) -> tuple[Entry, ...]:
        """The same, with tools that are for apps only."""
        return self._preferences.enabled(entries, principal=principal.name, chat_id=chat_id)

    def needs_approval(self, entry: Entry, *, principal: Principal, chat_id: str | None = None) -> bool:
        """Whether a person has to allow this principal's calls of the tool."""
        return self._preferences.effective(entry, principal=principal.name, chat_id=chat_id).requires_approval

    def _new_call(
        self, entry: Entry, request: CallRequest, call_id: str | None, *, agent: str | None, shown: str | None
    ) -> Call:
        tool = entry.tool
        return Call(
            id=call_id or new_id("call"),
            run_id=_run_of(request.principal) or request.run_id or new_id("run"),
            tool=entry.name,
            source=tool.source,
            tool_version=entry.version,
            kind=tool.operation,
            arguments=Raw(_encode(request.arguments)),
            principal=request.principal.on_record,
            status=CallStatus.RUNNING,
            agent=agent,
            space_id=request.space_id,
            chat_id=request.chat_id,
            idempotent=tool.metadata.idempotent,
            verify=None if request.verifies else tool.metadata.verify,
            attempt=1,
            owner=self._gateway_id,
            waiter=self._gateway_id if request.over_http and agent is not None else None,
            timeout_ms=min(entry.deadline_ms, request.within_ms or entry.deadline_ms),
            expires_in_ms=entry.pending_ms,
            shown=shown,
            trace_id=trace_id(),
            replay_of=request.replay_of,
        )

    async def _ask(self, prepared: Prepared) -> Call:
        """A person decides first; the call waits on record."""
        await self._keep_way(prepared)
        started = await self._store.write(partial(call_tx.start_call, prepared.call, claim=claim_of(prepared.request)))
        if not started.fresh:
            return await self._earlier(prepared, started)
        assert started.call is not None
        self._waits(started.call)
        return started.call

    async def _hand_over(self, prepared: Prepared) -> Call:
        """Somebody else answers: at once `pending`, or waited for until the deadline (seed 003's decision flow)."""
        call, request = prepared.call, prepared.request
        await self._keep_way(prepared)
        script = partial(call_tx.start_call, call, claim=claim_of(request), wakes=prepared.wakes)
        start = partial(self._store.write, script)
        waiting = start_and_wait(self._store, call.id, start=start, on_start=self._waits, on_flip=self._waits_alone)
        started = await self._unless_gone(waiting, call.id, request)
        if not started.fresh or started.call is None:
            return await self._earlier(prepared, started)
        return started.call

    async def _keep_way(self, prepared: Prepared) -> None:
        """A call that goes on when its request is over still has to know how it came, and with which options."""
        way, config = via.get(), prepared.request.config
        if way or config:
            await self._store.write(partial(operation_tx.keep_way, prepared.call.id, way, config=config))

    async def _unless_gone(self, waiting: Coroutine[Any, Any, Started], call_id: str, request: CallRequest) -> Started:
        """Wait, unless the HTTP client hangs up: then nobody waits, and the answer goes to the inbox."""
        if request.client_gone is None:
            return await waiting
        wait = asyncio.ensure_future(waiting)
        gone = asyncio.ensure_future(request.client_gone())
        try:
            await asyncio.wait((wait, gone), return_when=asyncio.FIRST_COMPLETED)
            if wait.done():
                return await wait
            if gone.result():
                self._waits_alone(await self._store.write(partial(call_tx.abandon_wait, call_id)))
            elif (call := await self._store.read(partial(call_tx.get_call, call_id))) is not None:
                return Started(call, fresh=True)  # it waits on, for a caller whose gateway is gone
            return await wait
        finally:
            gone.cancel()
            wait.cancel()

    def _waits(self, call: Call) -> None:
        """Tell that a call waits for somebody."""
        if call.source == CALLER and self.ask_caller is not None:
            self.ask_caller(call)
        self._executor.events.tell(events.PENDING, call)

    def _waits_alone(self, moved: Moved) -> None:
        """Tell that a call waits on, if its caller does not any more."""
        if moved.moved and moved.call is not None:
            self._executor.events.tell(events.PENDING, moved.call)

    async def _execute(self, prepared: Prepared) -> Call:
        call, request = prepared.call, prepared.request
        if self._executor.login_waits.joinable and _may_join(request):
            earlier = await self._executor.login_waits.joined(call)
            if earlier is not None:
                return earlier
        if request.tasks is not TaskUse.REQUIRED and _is_left_alone(prepared):
            return await self._leave_alone(prepared)
        is_bare = request.idempotency_key is None and call.agent is None and call.verify is None
        if not is_bare:
            started = await self._store.write(partial(call_tx.start_call, call, claim=claim_of(request)))
            if not started.fresh:
                return await self._earlier(prepared, started)
        running = self._admit(call, request, recorded=not is_bare)
        return await self._executor.carry_out(running, prepared.entry, request.arguments)

    async def _leave_alone(self, prepared: Prepared) -> Call:
        """Run a call on record whose caller is answered at once and follows it as a task."""
        call, request = left_alone(prepared.call), prepared.request
        started = await self._store.write(partial(call_tx.start_call, call, claim=claim_of(request)))
        if not started.fresh or started.call is None:
            if started.call is not None and started.same_body:
                return started.call  # it is followed as it is, too
            return await self._earlier(prepared, started)
        running = self._admit(started.call, request, recorded=True)
        self._executor.leave_alone(running, prepared.entry, request.arguments)
        return started.call

    def _admit(self, call: Call, request: CallRequest, *, recorded: bool) -> Running:
        running = self._executor.admit(
            call,
            principal=request.principal,
            depth=request.depth,
            recorded=recorded,
            client=request.client,
            takes_pending=request.takes_pending,
            config=request.config or None,
            tasks=request.tasks,
        )
        running.may_join = _may_join(request)
        return running

    def login_url(self, call: Call, *, principal: Principal) -> str | None:
        """Where the login can be made that the call waits for, for who may make it; None: it waits for none."""
        if call.status is not CallStatus.PENDING_LOGIN or not may_log_in(principal, call):
            return None
        return self._executor.login_waits.url_of(call.id)

    def login_url_in(self, event: CallEvent, *, principal: Principal) -> str | None:
        """The same for what happened to a call."""
        if event.login is None or not may_log_in(principal, event):
            return None
        return self._executor.login_waits.url_of(event.call_id)

    async def login_linked(self, need: LoginNeeded, *, principal: Principal) -> LoginNeeded:
        """With a link to make the login that somebody lacks who does not wait for it, if they may."""
        return await self._executor.login_waits.linked(need, principal)

    async def collected(self, call: Call) -> None:
        """Whoever made the call has its outcome, though not at once: the same request again is a new call."""
        await self._executor.login_waits.collected(call)

    async def whole_result(self, call: Call) -> Raw | None:
        """A settled call's result, also where the record has only a notice of it because it is large."""
        return await whole_result(self._store, call)

    @property
    def events(self) -> CallEvents:
        return self._executor.events

    @property
    def counters(self) -> Counters:
        return self._executor.counters

    async def require_visible(self, call_id: str, principal: Principal) -> None:
        """Refuse to name a call that this principal may not see."""
        call = await self._store.read(partial(call_tx.get_call, call_id))
        if call is None or not may_see(principal, call):
            raise CallNotFound(f"There is no call '{call_id[:100]}' that you may see.", param="replay_of")

    async def cancel(self, call_id: str, *, principal: Principal) -> Call:
        """Stop a call that is not over, wherever it is in its life. One that is over raises."""
        return await self._executor.cancel(call_id, principal=principal)

    async def cancel_waiting(self, principal: str) -> None:
        """Stop everything that this principal has waiting for somebody: it may not go on in its name."""
        waiting = (CallStatus.WAITING, CallStatus.PENDING, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN)
        cursor: str | None = None
        while True:
            wanted = CallFilter(principal=principal, status=waiting)
            page = await self._store.read(partial(call_page, wanted, limit=CANCEL_STEP, cursor=cursor))
            for call in page.calls:
                with suppress(AlreadyResolved, CallNotFound):
                    await self._executor.cancel(call.id, principal=_ADMIN)
            if page.next_cursor is None:
                break
            cursor = page.next_cursor
        await self._cancel_logins_of(principal)

    async def _cancel_logins_of(self, principal: str) -> None:
        """What others have waiting for a login of this principal: an agent that it made."""
        query = partial(call_tx.ids_in, "calls_waiting_for_login_of", principal=principal, limit=CANCEL_STEP)
        while ids := await self._store.read(query):
            for call_id in ids:
                with suppress(AlreadyResolved, CallNotFound):
                    await self._executor.cancel(call_id, principal=_ADMIN)

    async def close(self, *, grace: float = 5.0) -> None:
        """Take no more calls and see the running ones to their end."""
        self._open = False
        await self._executor.close(grace=grace)
        await self._executor.refusals.close()

    async def wait(self, call_id: str, *, seconds: float, or_login: bool = False) -> Call:
        """The call when it is settled, or as it is after `seconds`. Woken by the store, never polling.

        With `or_login` also when it begins to wait for a login.
        """
        return await wait_until_final(self._store, call_id, seconds=seconds, or_login=or_login)

    async def sent(self, call: Call) -> None:
        """The HTTP caller has the last byte."""
        # T11
        if call.waiter is not None:
            self._unmarked.add(call.id)
            await self._mark_sent(call.id)

    async def not_sent(self, call: Call) -> None:
        """The HTTP caller was gone before it had its answer, so the agent finds it in its inbox."""
        # T12
        if call.waiter is not None:
            self._broken_off.add(call.id)
            await self._give(call.id)

    async def write_receipts(self) -> None:
        """Write what the store has not heard about callers: it was away, or their wait broke off."""
        # T11, T3 and T12
        for call_id in tuple(self._unmarked):
            await self._mark_sent(call_id)
        for call_id in tuple(self._broken_off):
            await self._give(call_id)

    async def _mark_sent(self, call_id: str) -> None:
        await self._store.write(partial(call_tx.mark_sent, call_id))
        self._unmarked.discard(call_id)

    async def _give(self, call_id: str) -> None:
        """What is still waited for, and what is over, goes to the inbox; what runs here is given when it is over."""
        self._waits_alone(await self._store.write(partial(call_tx.abandon_wait, call_id)))
        call = (await self._store.write(partial(call_tx.give, call_id))).call
        if call is None or call.status.is_final or call.delivery is Delivery.INBOX:
            self._broken_off.discard(call_id)

    async def call_from(
        self, name: str, arguments: dict[str, object], *, parent: Invocation, within: tuple[str, ...] | None = None
    ) -> Outcome:
        """A tool calls another tool, in the name of its own caller and within the same run."""
        running = self._executor.running(parent.call_id)
        if running is None:
            return Failed("cancelled", "The call that asked for this is over.")
        if running.depth >= MAX_DEPTH:
            return Failed(
                "too_deep", f"Tool calls are nested {MAX_DEPTH} deep; one of the tools probably calls itself."
            )
        call = running.call
        request = CallRequest(
            tool=name,
            arguments=arguments,
            principal=running.principal,
            agent=call.agent,
            space_id=call.space_id,
            chat_id=call.chat_id,
            run_id=call.run_id,
            depth=running.depth + 1,
            client=self._executor.client_for_nested(running),
            takes_pending=running.takes_pending,
            within=within,
        )
        try:
            made = await self.call(request)
            # A tool is a program: it gets the whole of a large result, to which it has no other way.
            whole = await whole_result(self._store, made)
        except Refused as refusal:
            return Failed(refusal.code, refusal.message)
        return msgspec.structs.replace(made, result=whole).outcome

    async def _earlier(self, prepared: Prepared, started: Started) -> Call:
        """The call that an earlier request with the same idempotency key made."""
        call = started.call
        if call is None or not started.same_body:
            why = "was used for another request within 24 hours"
            if started.same_body:
                why = "is that of a call that is no longer on record"
            conflict = Conflict(f"This Idempotency-Key {why}. Choose a new key.")
            self._count_refusal(prepared.request, prepared.entry, conflict)
            raise conflict
        if call.status is CallStatus.WAITING:
            return await wait_for_slot(self._store, call.id, on_flip=self._waits_alone)
        if call.status is CallStatus.RUNNING and call.delivery is None:
            return await self.wait(call.id, seconds=call.timeout_ms / 1000)
        return call


def _prepared(request: CallRequest, entry: Entry, call: Call, decision: Decision) -> Prepared:
    """The call as its decision begins it. A refusal raises."""
    match decision:
        case Deny(error):
            raise error
        case Refuse(outcome):
            return Prepared(request=request, entry=entry, call=call, refusal=outcome)
        case Ask():
            return Prepared(request=request, entry=entry, call=asked_first(call))
        case Allow() if entry.answered_by_others:
            is_async = entry.tool.is_async or request.tasks.is_followed
            return Prepared(request=request, entry=entry, call=handed_over(call, is_async=is_async))
        case Allow():
            return Prepared(request=request, entry=entry, call=call)


def _at_once(prepared: Prepared) -> Prepared:
    """A call that asks how another went has to be answered here and now, or whoever waits would wait for somebody."""
    if not prepared.request.verifies or prepared.refusal is not None:
        return prepared
    status, name = prepared.call.status, prepared.entry.name
    if status is CallStatus.PENDING_APPROVAL:
        raise Forbidden(f"A call of '{name}' needs an approval, so it cannot say whether another call took effect.")
    if status is not CallStatus.RUNNING:
        raise Forbidden(f"'{name}' is answered by somebody else, so it cannot say whether another call took effect.")
    return prepared


def _agent_of(entry: Entry, request: CallRequest) -> str | None:
    """In which agent's name the call is made. The gateway's own tools are the key's to use, unless an agent does."""
    if entry.tool.source == BUILTIN:
        return request.agent
    return acting_agent(request.principal, request.agent)


def _is_left_alone(prepared: Prepared) -> bool:
    """Whether whoever asks is answered before the tool is: as it asked, or because the tool takes long."""
    use = prepared.request.tasks
    return use is TaskUse.AT_ONCE or (use is TaskUse.PREFERRED and prepared.entry.tool.metadata.long_running)


def _may_join(request: CallRequest) -> bool:
    """Whether the same request again may be the same call. A run has an item, or a step, for each."""
    return request.idempotency_key is None and not request.begins_run


def _reachable(view: View, name: str, within: tuple[str, ...]) -> Entry:
    """The tool, if it is one of those that the calling tool's source may call. Others are refused unseen."""
    allowed = compiled(within)
    try:
        entry = view.get(name)
        if allowed.match(entry.name, source=entry.tool.source, foreign=entry.tool.name):
            return entry
    except Refused:
        if allowed.match(name, source="", foreign=name):
            raise
    said = f"A tool of this source may not call '{shown(name)}'."
    raise Forbidden(f"{said} If it should, name that tool in calls = […] of the source's config.")


@lru_cache(maxsize=1024)
def _run_of(principal: Principal) -> str | None:
    return principal.session
