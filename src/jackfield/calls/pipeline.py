"""The one road of a call: find → validate → decide → execute → settle.

Above: every door, the command line, agents. Below: the catalog finds and decides, `execution.py` runs and settles, the
store remembers. `Pipeline.call` is the whole story; the methods after it are its steps, in order.
"""

import asyncio
import time

import msgspec
from msgspec import Raw, Struct

from jackfield.calls import events
from jackfield.calls.counters import Counters
from jackfield.calls.events import CallEvents
from jackfield.calls.execution import Executor, now_ms, still_there
from jackfield.calls.running import Running
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.limits import RateLimiter
from jackfield.catalog.policy import Allow, Ask, Deny, Refuse, acting_agent, decide
from jackfield.errors import Conflict, Forbidden, InvalidArguments, NotReady, Refused, RunNotFound
from jackfield.model.call import Call, CallStatus, Delivery, Failed, FirstReply, Outcome
from jackfield.model.ids import new_id
from jackfield.model.principal import Principal
from jackfield.sources.base import Invocation
from jackfield.store import Store
from jackfield.store.base import Claim

MAX_DEPTH = 16

_encode = msgspec.json.Encoder().encode


class CallRequest(Struct, frozen=True, kw_only=True):
    """Somebody wants a tool called."""

    tool: str
    arguments: dict[str, object]
    principal: Principal
    agent: str | None = None
    space_id: str | None = None
    chat_id: str | None = None
    run_id: str | None = None
    idempotency_key: str | None = None
    digest: str = ""
    """Of the whole request, to tell a repeat from another request under the same idempotency key."""
    depth: int = 0


class Pipeline:
    """Makes calls, and knows those it is making."""

    def __init__(self, *, catalog: Catalog, store: Store, executor: Executor, gateway_id: str) -> None:
        self._catalog = catalog
        self._store = store
        self._gateway_id = gateway_id
        self._executor = executor
        self._limiter = RateLimiter()
        self._open = True

    async def call(self, request: CallRequest, *, call_id: str | None = None) -> Call:
        """One call, from a request to its outcome. A refusal raises; a failing tool is an outcome."""
        entry = self._find(request)
        self._validate(entry, request)
        await self._check_run(request)
        decision = self._decide(entry, request)
        call = self._new_call(entry, request, call_id)
        match decision:
            case Deny(error):
                raise error
            case Refuse(outcome):
                return await self._executor.settle(self._admit(call, request, recorded=False), outcome)
            case Ask():
                return await self._ask(call, request)
            case Allow():
                return await self._execute(call, entry, request)

    def _find(self, request: CallRequest) -> Entry:
        if not self._open:
            raise NotReady("The gateway is stopping and takes no more calls. Try again when it is back.")
        return self._catalog.view(request.principal).get(request.tool)

    def _validate(self, entry: Entry, request: CallRequest) -> None:
        faults = self._catalog.check_arguments(entry, request.arguments)
        if faults:
            said = "; ".join(fault["message"] for fault in faults[:3])
            raise InvalidArguments(f"Tool '{entry.name}' cannot take these arguments: {said}.", details=list(faults))

    async def _check_run(self, request: CallRequest) -> None:
        if request.run_id is None or request.depth:
            return
        owner = await self._store.principal_of_run(request.run_id)
        if owner is None:
            raise RunNotFound(f"There is no run '{request.run_id}'. Leave run_id out to begin one.", param="run_id")
        if owner != request.principal.name and not request.principal.is_admin:
            raise Forbidden(f"Run '{request.run_id}' belongs to another key.", param="run_id")

    def _decide(self, entry: Entry, request: CallRequest) -> Allow | Ask | Deny | Refuse:
        tool_id, limit = f"{entry.tool.source}:{entry.tool.name}", entry.tool.metadata.rate_limit_per_minute
        decision = decide(
            entry,
            principal=request.principal,
            agent=request.agent,
            space_id=request.space_id,
            enabled=entry.tool.metadata.enabled_by_default,
            retry_after=self._limiter.wait(tool_id, limit),
        )
        if limit is not None and isinstance(decision, (Allow, Ask)):
            self._limiter.admit(tool_id, limit)
        return decision

    def _new_call(self, entry: Entry, request: CallRequest, call_id: str | None) -> Call:
        tool = entry.tool
        return Call(
            id=call_id or new_id("call"),
            run_id=request.run_id or new_id("run"),
            tool=entry.name,
            source=tool.source,
            tool_version=entry.version,
            arguments=Raw(_encode(request.arguments)),
            principal=request.principal.name,
            status=CallStatus.RUNNING,
            agent=acting_agent(request.principal, request.agent),
            space_id=request.space_id,
            chat_id=request.chat_id,
            idempotent=tool.metadata.idempotent,
            attempt=1,
            owner=self._gateway_id,
            timeout_ms=tool.deadline_ms,
            expires_in_ms=tool.pending_ms,
        )

    async def _ask(self, call: Call, request: CallRequest) -> Call:
        """A person decides first; the call waits on record."""
        asked = msgspec.structs.replace(
            call,
            status=CallStatus.PENDING_APPROVAL,
            delivery=Delivery.INBOX,
            first_reply=FirstReply.PENDING,
            attempt=0,
            owner=None,
        )
        started = await self._store.start_call(asked, claim=_claim(request))
        if not started.fresh:
            return await self._earlier(started.call, same_body=started.same_body)
        assert started.call is not None
        self._executor.events.tell(events.PENDING, started.call, at=now_ms())
        self._executor.counters.count(started.call)
        return started.call

    async def _execute(self, call: Call, entry: Entry, request: CallRequest) -> Call:
        claim = _claim(request)
        if claim is not None:
            started = await self._store.start_call(call, claim=claim)
            if not started.fresh:
                return await self._earlier(started.call, same_body=started.same_body)
        running = self._admit(call, request, recorded=claim is not None)
        return await self._executor.carry_out(running, entry, request.arguments)

    def _admit(self, call: Call, request: CallRequest, *, recorded: bool) -> Running:
        return self._executor.admit(call, principal=request.principal, depth=request.depth, recorded=recorded)

    @property
    def events(self) -> CallEvents:
        return self._executor.events

    @property
    def counters(self) -> Counters:
        return self._executor.counters

    async def cancel(self, call_id: str, *, principal: Principal) -> Call:
        """Stop a call that is not over, wherever it is in its life. One that is over raises."""
        return await self._executor.cancel(call_id, principal=principal)

    async def close(self, *, grace: float = 5.0) -> None:
        """Take no more calls and see the running ones to their end."""
        self._open = False
        await self._executor.close(grace=grace)

    async def wait(self, call_id: str, *, seconds: float) -> Call:
        """The call when it is settled, or as it is after `seconds`. Woken by the store, never polling."""
        deadline = time.monotonic() + seconds
        with self._store.bus.listen(call_id) as written:
            while True:
                call = still_there(await self._store.get_call(call_id), call_id)
                left = deadline - time.monotonic()
                if call.status.is_final or left <= 0:
                    return call
                written.clear()
                await asyncio.wait([wake := asyncio.ensure_future(written.wait())], timeout=left)
                wake.cancel()

    async def call_from(self, name: str, arguments: dict[str, object], *, parent: Invocation) -> Outcome:
        """A tool calls another tool, in the name of its own caller and within the same run."""
        running = self._executor.running(parent.call_id)
        if running is None:
            return Failed("cancelled", "The call that asked for this is over.")
        if running.depth >= MAX_DEPTH:
            return Failed("too_deep", f"Tools called tools {MAX_DEPTH} deep. One of them calls itself without end.")
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
        )
        try:
            return (await self.call(request)).outcome
        except Refused as refusal:
            return Failed(refusal.code, refusal.message)

    async def _earlier(self, call: Call | None, *, same_body: bool) -> Call:
        """The call that an earlier request with the same idempotency key made."""
        if not same_body:
            raise Conflict("This Idempotency-Key was used for another request within 24 hours. Choose a new key.")
        if call is None:
            raise Conflict("The call of this Idempotency-Key is no longer on record. Choose a new key.")
        if call.status is CallStatus.RUNNING:
            return await self.wait(call.id, seconds=call.timeout_ms / 1000)
        return call


def _claim(request: CallRequest) -> Claim | None:
    if request.idempotency_key is None:
        return None
    return Claim(principal=request.principal.name, key=request.idempotency_key, digest=request.digest)
