"""Answers from outside: results of calls that somebody else executes, approvals and rejections, progress.

Each is one compare-and-set in the store; the first wins and the second is told so. Nothing here waits for a tool:
an approved call that runs here is begun in the background and reaches its agent by the inbox.
Above: the handlers. Below: the store, the executor, the tool servers.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry as AuditedChange
from jackfield.calls import events
from jackfield.calls import transactions as call_tx
from jackfield.calls.executor import Executor, still_there
from jackfield.calls.messages import changed, not_allowed, rejected, submitted_error
from jackfield.calls.operation_transactions import OFFERED_TO
from jackfield.calls.permissions import asked_for, in_reach, may_answer
from jackfield.calls.questions import asked_by, check_answer, is_question
from jackfield.calls.redaction import Redactor
from jackfield.calls.tool_servers import servers_of
from jackfield.calls.transactions import Hooked, Moved, Report
from jackfield.catalog.catalog import Catalog, Entry
from jackfield.catalog.globs import SOMEBODYS, compiled
from jackfield.catalog.switches import Switches
from jackfield.errors import (
    AlreadyResolved,
    BadRequest,
    CallNotFound,
    Conflict,
    DeniedByHook,
    Expired,
    Forbidden,
    Refused,
    ToolDisabled,
    ToolNotFound,
)
from jackfield.model.call import SIGNED_LINK, Call, CallStatus, Done, Failed, HookNote, done
from jackfield.model.principal import PERSON, Principal, Scope
from jackfield.model.tool import CALLER
from jackfield.protocol.schemas import summarize
from jackfield.sources.authorization import SourceLogins
from jackfield.sources.base import Progress
from jackfield.store import Store

PROGRESS_FACTOR = 10
"""Progress may stretch a wait to this many times the tool's timeout."""
_ANSWERED_BY_OTHERS = frozenset({CallStatus.WAITING, CallStatus.PENDING})


class Answers:
    """What people, tool servers and webhooks say about calls."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        store: Store,
        executor: Executor,
        gateway_id: str,
        audit: AuditLog,
        redactor: Redactor,
        offer: Callable[[Call], None],
        switches: Switches,
        find_principal: Callable[[str], Principal | None],
        connect_source: Callable[[str], Awaitable[None]],
        logins: SourceLogins,
        four_eyes: bool = False,
    ) -> None:
        self._catalog = catalog
        self._store = store
        self._executor = executor
        self._gateway_id = gateway_id
        self._audit = audit
        self._redactor = redactor
        self._offer = offer
        self.four_eyes = four_eyes
        """`[approval] four_eyes`: whoever asked for a call may not approve it."""
        self._switches = switches
        self._find_principal = find_principal
        self._logins = logins
        self._connect_source = connect_source
        """Connects an agent's own source that nobody uses now, because a call of it is to be run."""

    async def submit(
        self,
        call_id: str,
        outcome: Done | Failed,
        *,
        principal: Principal | None,
        run_id: str | None = None,
        as_caller: bool = False,
    ) -> Call:
        """A result, or an error that is one. `principal` is None for who holds the call's signed url.

        `as_caller`: whoever made a call answers what it asks, for the person behind it.
        """
        call = still_there(await self._store.read(partial(call_tx.get_call, call_id)), call_id)
        if run_id is not None and call.run_id != run_id:
            raise Forbidden(f"Call '{call_id}' does not belong to run '{run_id}'.", param="callId")
        is_own = as_caller and is_question(call) and principal is not None and principal.on_record == call.principal
        if principal is not None and not is_own and not may_answer(principal, call):
            raise Forbidden(
                f"Key '{principal.name}' may not answer calls of '{call.tool}'. "
                f"Use a key with the scope 'answer' or 'worker:{call.tool}'."
            )
        if not is_question(call) and (call.is_parked or call.offered_to == OFFERED_TO):
            call = await self._question_of(call)
        await self._check_result(call, outcome)
        answered_by = principal.name if principal else "callback"
        told, hooked = self._redactor.outcome(outcome), None
        if not is_question(call):
            reviewed = await self._executor.review(call, self._catalog.used_by(call), told)
            told = reviewed.outcome
            hooked = Hooked(notes=reviewed.notes, withheld=reviewed.withheld) if reviewed.notes else None
        return self._settled(
            await self._store.write(
                partial(
                    call_tx.settle_submitted,
                    call.id,
                    told,
                    answered_by=answered_by,
                    large_result=self._store.large_result,
                    hooked=hooked,
                )
            ),
            call.id,
        )

    async def _question_of(self, call: Call) -> Call:
        """What a parked call waits for: whoever answers the call answers that. Work elsewhere need not have asked."""
        for question in await self._store.read(partial(call_tx.questions_of, call)):
            if asked_by(call, question):
                return question
        if not call.is_parked:
            return call
        raise Conflict(f"Call '{call.id}' has already been answered and is running.")

    async def answer_for(self, call_id: str, outcome: Failed) -> Call:
        """The gateway's own word, where whoever should answer cannot: gone, too late, ended."""
        return self._settled(
            await self._store.write(
                partial(call_tx.settle_submitted, call_id, outcome, large_result=self._store.large_result)
            ),
            call_id,
        )

    async def approve(
        self, call_id: str, *, principal: Principal | None, arguments: dict[str, Any] | None = None
    ) -> Call:
        """A person says yes to exactly this call, perhaps with other arguments, which are checked again.

        None: whoever holds the call's signed url.
        """
        call = await self._waiting_for_a_person(call_id, principal, CallStatus.PENDING_APPROVAL)
        if self.four_eyes and principal is not None and asked_for(principal, call):
            raise Forbidden(
                f"'{principal.name}' asked for this call, so somebody else has to approve it (approval.four_eyes)."
            )
        await self._connected(call)
        entry = self.entry_as_asked(call)
        self._require_caller(call, entry)
        notes: tuple[HookNote, ...] = ()
        if arguments is not None:
            arguments = await self._catalog.require_arguments(entry, arguments)
            arguments, notes = await self._pass_hooks(call, entry, arguments)
        edited = None if arguments is None else msgspec.json.encode(arguments).decode()
        runs_here = not entry.answered_by_others
        script = partial(
            call_tx.approve,
            call_id,
            runs_here=runs_here,
            arguments=edited,
            decided_by=_decider(principal),
            notes=notes,
        )
        moved = await self._store.write(self._audit.noting(script, partial(_approved, _decider(principal), arguments)))
        approved = _moved(moved, call_id)
        self._executor.events.tell(events.APPROVED, approved)
        if runs_here:
            return await self._begin(approved, entry)
        self._offer(approved)
        return approved

    async def _pass_hooks(
        self, call: Call, entry: Entry, arguments: dict[str, Any]
    ) -> tuple[dict[str, Any], tuple[HookNote, ...]]:
        """What hooks say to arguments that a person edited: they may deny or change them. Asking is done already."""
        hooks = self._executor.hooks.before(entry)
        if not hooks:
            return arguments, ()
        edited = msgspec.structs.replace(call, arguments=msgspec.Raw(msgspec.json.encode(arguments)))
        decided = await self._executor.hooks.decide(
            hooks, edited, check=partial(self._catalog.require_arguments, entry)
        )
        if decided.denied is not None:
            raise DeniedByHook(f"{decided.denied} The call still waits for approval.")
        return arguments if decided.arguments is None else decided.arguments, (*call.hooks, *decided.notes)

    async def reject(self, call_id: str, *, principal: Principal | None, reason: str | None = None) -> Call:
        """A person says no; the agent is told why."""
        await self._waiting_for_a_person(call_id, principal, CallStatus.PENDING_APPROVAL, CallStatus.PENDING_LOGIN)
        by = _decider(principal)
        large = self._store.large_result
        script = partial(call_tx.settle_rejected, call_id, rejected(reason), decided_by=by, large_result=large)
        noted = self._audit.noting(script, partial(_rejected, by, reason))
        return self._settled(await self._store.write(noted), call_id)

    async def progress(self, call_id: str, progress: Progress, *, principal: Principal, attempt: int = 0) -> Call:
        """A sign of life: told to who follows, and buys a waiting call more time. Resolves nothing.

        From a tool server, which may say for which of its offers: `Conflict` once the call is somebody else's. No
        progress at all (0) asks to begin, and with the offer's number it is said to nobody else.
        """
        call = still_there(await self._store.read(partial(call_tx.get_call, call_id)), call_id)
        if not may_answer(principal, call):
            raise Forbidden(f"Key '{principal.name}' may not report on calls of '{call.tool}'.")
        limit = call.timeout_ms * PROGRESS_FACTOR
        begins = progress.progress == 0
        report = Report(holder=servers_of(principal), attempt=attempt, begins=begins)
        moved = await self._store.write(partial(call_tx.report_progress, call_id, limit_ms=limit, report=report))
        if not moved.moved and moved.call is not None and moved.call.status in _ANSWERED_BY_OTHERS:
            raise Conflict(f"Call '{call_id}' was offered to another tool server. Do not begin it.")
        extended = _moved(moved, call_id)
        if not (begins and attempt):
            told = self._redactor.progress(progress)
            self._executor.events.tell(events.PROGRESS, extended, progress=told)
        return extended

    async def login_done(self, source: str, principal: str | None) -> None:
        """Somebody has logged in, and that is on record: what waited for it runs, in the name of who asked for it.

        None: the one login for all.
        """
        # T4' and T5
        async for call in self._executor.login_waits.let_go(source, principal):
            self._executor.events.tell(events.LOGGED_IN, call)
            await self._run_let_go(call)

    async def run_logged_in(self) -> None:
        """The same for logins of which no gateway has said so, because the one that made them died."""
        for source, principal in await self._executor.login_waits.missed(self._logins):
            await self.login_done(source, principal)

    async def run_unclaimed(self) -> int:
        """T5 for calls that were let go and that no gateway has begun, because the one that let them go died."""
        return sum([await self._run_let_go(call) for call in await self._store.read(call_tx.unclaimed_calls)])

    async def _run_let_go(self, call: Call) -> bool:
        """Begin a call that waited for a person, unless its tool has changed since; one that is gone may come back."""
        await self._connected(call)
        entry = self._catalog.entry(call.tool, source=call.source)
        may_still = entry is None or self._may_still(call)
        off = None if entry is None else self._switches.of_call(entry, principal=call.principal)
        if entry is not None and entry.version == call.tool_version and may_still and off is None:
            await self._begin(call, entry)
            return True
        if entry is not None or await self._is_over(call):
            outcome = changed(call.tool) if may_still else not_allowed(call.tool)
            outcome = outcome if off is None else Failed(ToolDisabled.code, off.sentence)
            moved = await self._store.write(
                partial(
                    call_tx.settle_executed,
                    call.id,
                    outcome,
                    attempt=0,
                    duration_ms=None,
                    large_result=self._store.large_result,
                )
            )
            if moved.moved:
                self._settled(moved, call.id)
        return False

    def _may_still(self, call: Call) -> bool:
        """Whether a person who waited for a login may call the tool with the roles that they have now."""
        caller = self._find_principal(call.principal) if call.login is not None else None
        if caller is None or not call.principal.startswith(PERSON):
            return True
        try:
            self._catalog.view(caller).get(call.tool)
        except (ToolNotFound, Forbidden):
            return False
        return caller.may(Scope.CALL)

    async def _is_over(self, call: Call) -> bool:
        """Whether its time is up; a tool that is not there may come back until then."""
        return call.expires_at is not None and call.expires_at <= await self._store.now_ms()

    async def _begin(self, call: Call, entry: Entry) -> Call:
        """T5: this gateway runs it, unless another was quicker; in the caller's name, never in the approver's."""
        claimed = await self._store.write(partial(call_tx.claim, call.id, owner=self._gateway_id))
        if not claimed.moved or claimed.call is None:
            return claimed.call or call
        caller = self._find_principal(call.principal) or Principal(name=call.principal, scopes=frozenset())
        self._executor.begin(claimed.call, entry, principal=caller)
        return claimed.call

    async def _waiting_for_a_person(self, call_id: str, principal: Principal | None, *statuses: CallStatus) -> Call:
        call = still_there(await self._store.read(partial(call_tx.get_call, call_id)), call_id)
        if principal is not None and not in_reach(principal, call):
            raise Forbidden(f"Key '{principal.name}' is limited to other tools than '{call.tool}'.")
        if call.status not in statuses:
            raise _too_late(call)
        return call

    async def _connected(self, call: Call) -> None:
        """A tool of an agent's own server may have been let go while its call waited."""
        if SOMEBODYS in call.source:
            await self._connect_source(call.source)

    def entry_as_asked(self, call: Call) -> Entry:
        """The tool, if it is still the one that the person was shown; else raises `Conflict`.

        While it is off for everybody, `ToolDisabled`: the call waits on.
        """
        entry = self._catalog.entry(call.tool, source=call.source)
        if entry is None or entry.version != call.tool_version:
            what = "is gone" if entry is None else "has changed"
            raise Conflict(f"Tool '{call.tool}' {what} since this call was made. Reject it and have it called again.")
        off = self._switches.of_call(entry, principal=call.principal)
        if off is not None:
            raise ToolDisabled(f"{off.sentence} The call waits until then, or until it is rejected or expires.")
        return entry

    def _require_caller(self, call: Call, entry: Entry) -> None:
        """The call runs in the name of whoever made it, whose key may be limited to other tools by now."""
        caller = self._find_principal(call.principal)
        if caller is None or SOMEBODYS in call.source:
            return
        tool = entry.tool
        if all(compiled(limit).match(entry.name, source=tool.source, foreign=tool.name) for limit in caller.limits):
            return
        raise Conflict(
            f"'{call.principal}', in whose name this call would run, may not call '{call.tool}' any more. "
            "Reject it, or let them call it again."
        )

    async def _check_result(self, call: Call, outcome: Done | Failed) -> None:
        """A result that breaks the tool's own schema is sent back to whoever brought it; the call stays open."""
        if isinstance(outcome, Done) and is_question(call):
            await check_answer(call, outcome, checking=self._catalog.checking)
            return
        entry = None if call.source == CALLER else self._catalog.entry(call.tool, source=call.source)
        if isinstance(outcome, Failed) or entry is None or entry.tool.output_schema is None:
            return
        faults = await self._catalog.check_result(entry, outcome.result)
        if faults:
            raise BadRequest(
                f"The result does not match the output schema of '{call.tool}': {summarize(faults)}", param="result"
            )

    def _settled(self, moved: Moved, call_id: str) -> Call:
        call = _moved(moved, call_id)
        self._executor.counters.count(call)
        self._executor.events.tell(events.SETTLED, call)
        return call


def outcome_of(result: Any, error: str | None) -> Done | Failed:
    """What was submitted. `null` is a result; an error is one too."""
    return done(result) if error is None else submitted_error(error)


def _decider(principal: Principal | None) -> str:
    return SIGNED_LINK if principal is None else principal.name


def _approved(by: str, arguments: dict[str, Any] | None, moved: Moved) -> AuditedChange | None:
    """The arguments only where they were changed."""
    if not moved.moved or moved.call is None:
        return None
    asked: dict[str, Any] | None = None
    after = _what(moved.call)
    if arguments is not None:
        before = moved.call.asked_arguments
        asked = {"arguments": None if before is None else msgspec.json.decode(before)}
        after |= {"arguments": arguments}
    return AuditedChange(actor=by, action="call.approved", subject=moved.call.id, before=asked, after=after)


def _rejected(by: str, reason: str | None, moved: Moved) -> AuditedChange | None:
    if not moved.moved or moved.call is None:
        return None
    after = {**_what(moved.call), "reason": reason}
    return AuditedChange(actor=by, action="call.rejected", subject=moved.call.id, after=after)


def _what(call: Call) -> dict[str, Any]:
    return {"tool": call.tool, "source": call.source, "principal": call.principal}


def _moved(moved: Moved, call_id: str) -> Call:
    call = moved.call
    if call is None:
        raise CallNotFound(f"There is no call '{call_id}'.", param="id")
    if not moved.moved:
        raise _too_late(call)
    return call


def _too_late(call: Call) -> Refused:
    if call.status is CallStatus.EXPIRED:
        return Expired(f"Call '{call.id}' expired before this answer came.")
    if call.status.is_final:
        return AlreadyResolved(f"Call '{call.id}' is already resolved: it is {call.status.value}.")
    return Conflict(f"Call '{call.id}' is {call.status.value} and does not wait for this.")
