"""Refused calls, on record (T14): the same refusal of one principal within a minute is one record with a count.

The first of a minute is on disk before the caller is answered. Repeats are counted in memory and written once a
second, so a flood costs a bounded number of rows and writes; a gateway that is killed loses at most that second's
counts. A principal makes `MOST_RECORDS` such records a minute; what comes beyond is counted in one of them, `OTHER`.
Gateways on one database share a record. A new record is in the audit log, in the same transaction; repeats are not.
Above: the pipeline, which refuses. Below: the store.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import Raw

from jackfield.audit.log import AuditLog
from jackfield.audit.types import Entry as AuditedChange
from jackfield.calls import refusal_transactions as refusal_tx
from jackfield.calls.redaction import Redactor
from jackfield.calls.refusal_transactions import MINUTE_MS, MOST_RECORDS, OTHER, KeptRefusal
from jackfield.calls.requests import CallRequest
from jackfield.catalog.catalog import Entry
from jackfield.errors import DeniedByHook, Refused, SourceUnavailable, Unavailable
from jackfield.model.call import Call, CallError, CallStatus
from jackfield.model.ids import new_id
from jackfield.model.trace_context import trace_id
from jackfield.store import Store

log = logging.getLogger("jackfield.calls")

WRITE_SECONDS = 1.0
"""How often repeats are written."""
LONGEST_NAME = 200
LONGEST_ARGUMENTS = 16_384
LONGEST_MESSAGE = 2_000
_MINUTE = MINUTE_MS / 1000

_encode = msgspec.json.Encoder().encode
_Key = tuple[str, str]


class _Kept:
    """One refusal of one principal in its minute."""

    __slots__ = ("call", "id", "is_writing", "more", "until")

    def __init__(self, call: Call, *, until: float) -> None:
        self.call = call
        self.id: str | None = None
        """Its record; None: it is not written yet."""
        self.more = 1
        """How often it was refused beyond what is written."""
        self.until = until
        self.is_writing = False


class _Minute:
    """What one principal was refused lately."""

    __slots__ = ("first_end", "full_until", "kept")

    def __init__(self) -> None:
        self.kept: dict[_Key, _Kept] = {}
        self.first_end = 0.0
        """When the first of them is over, at the earliest."""
        self.full_until = 0.0
        """Until when the principal has made as many records as it may, by the store's word."""

    def drop_ended(self, now: float) -> None:
        if now < self.first_end:
            return
        self.kept = {key: kept for key, kept in self.kept.items() if kept.until > now}
        self.first_end = min((kept.until for kept in self.kept.values()), default=0.0)

    def is_full(self, now: float) -> bool:
        return now < self.full_until or len(self.kept) >= MOST_RECORDS - 1


class Refusals:
    """Puts refused calls on record."""

    def __init__(self, store: Store, *, redactor: Redactor, audit: AuditLog, tell: Callable[[Call], None]) -> None:
        """`tell` is told of each record that is new."""
        self._store = store
        self._tell = tell
        self._audit = audit
        self._redactor = redactor
        self._minutes: dict[str, _Minute] = {}
        self._tidied = 0.0
        self._unwritten: set[_Kept] = set()
        self._writing: asyncio.Task[None] | None = None
        self._write_lock = asyncio.Lock()
        self._closing = asyncio.Event()

    async def record(
        self,
        request: CallRequest,
        refusal: Refused,
        *,
        find: Callable[[], Entry | None],
        call_id: str | None = None,
    ) -> None:
        """Put a refused call on record, or count it there. Comes back when its record is on disk.

        `find` says which tool it was, if the caller may know; it is asked once a minute. `call_id`: of this one call.
        """
        if not is_recorded(refusal):
            return
        principal, now = request.principal.on_record, time.monotonic()
        minute = self._minutes.get(principal) or self._new_minute(principal, now)
        key = (request.tool, refusal.code)
        kept = minute.kept.get(key)
        if kept is None or kept.until <= now:
            minute.drop_ended(now)
            if minute.is_full(now):
                key = (OTHER, OTHER)
                kept = minute.kept.get(key)
        if kept is not None and kept.until > now:
            kept.more += 1
            self._write_soon(kept)
            return
        call = self._refused_call(request, refusal, find(), call_id or new_id("call"))
        kept = minute.kept[key] = _Kept(refusal_tx.others(call) if key[0] == OTHER else call, until=now + _MINUTE)
        minute.first_end = minute.first_end or kept.until
        await self._write(kept)
        if kept.call.tool == OTHER and key[0] != OTHER:  # other gateways have used the principal's records up
            minute.full_until = kept.until
            minute.kept.pop(key, None)
            minute.kept.setdefault((OTHER, OTHER), kept)

    async def close(self) -> None:
        """Write what is not written yet."""
        self._closing.set()
        if self._writing is not None:  # not cancelled: whether a count was written must be certain
            await self._writing
        await self.write_all()

    def _new_minute(self, principal: str, now: float) -> _Minute:
        if now > self._tidied + _MINUTE:
            self._tidied = now
            for minute in self._minutes.values():
                minute.drop_ended(now)
            self._minutes = {name: minute for name, minute in self._minutes.items() if minute.kept}
        minute = self._minutes[principal] = _Minute()
        return minute

    def _write_soon(self, kept: _Kept) -> None:
        self._unwritten.add(kept)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_later(), name="refusals")

    async def _write_later(self) -> None:
        """Once a second, as long as there is something to write."""
        try:
            while self._unwritten and not self._closing.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), WRITE_SECONDS)
                await self.write_all()
        finally:
            self._writing = None

    async def write_all(self) -> None:
        """Write every count. Comes back when all that was counted before is on disk."""
        async with self._write_lock:
            unwritten, self._unwritten = self._unwritten, set()
            await asyncio.gather(*map(self._write, unwritten))

    async def _write(self, kept: _Kept) -> None:
        """Write what is not written of one refusal. If the store is away it is tried again with the next ones."""
        if kept.is_writing:
            self._write_soon(kept)
            return
        more, kept.more, kept.is_writing = kept.more, 0, True
        try:
            if kept.id is not None:
                await self._store.write(partial(refusal_tx.count_refusals, kept.id, more=more))
            else:
                script = partial(refusal_tx.refuse, kept.call, more=more)
                written = await self._store.write(self._audit.noting(script, _audited))
                kept.id, kept.call = written.call_id, written.call
                kept.until -= written.age_ms / 1000
                if written.is_new:
                    self._tell(written.call)
        except Unavailable as fault:
            kept.more += more
            self._write_soon(kept)
            who = kept.call.principal
            log.warning("a refused call of %s could not be put on record; it is tried again: %s", who, fault)
        finally:
            kept.is_writing = False

    def _refused_call(self, request: CallRequest, refusal: Refused, entry: Entry | None, call_id: str) -> Call:
        principal, agent = request.principal, request.agent
        tool = None if entry is None else entry.tool
        return Call(
            id=call_id,
            run_id=_run_of(request),
            tool=_name_on_record(request.tool if entry is None else entry.name),
            source="" if tool is None else tool.source,
            tool_version="" if entry is None else entry.version,
            kind=request.kind if tool is None else tool.operation,
            arguments=self._arguments_on_record(request),
            principal=principal.on_record,
            agent=agent if agent is not None and principal.may_act_as(agent) else None,
            status=CallStatus.REFUSED,
            error=CallError(refusal.code, self._message(refusal, entry)),
            attempt=1,
            hooks=refusal.notes if isinstance(refusal, DeniedByHook) else (),
            trace_id=trace_id(),
            replay_of=request.replay_of,
        )

    def _message(self, refusal: Refused, entry: Entry | None) -> str:
        if isinstance(refusal, SourceUnavailable) and entry is not None:  # why it is down may name paths
            return f"Source '{entry.tool.source}' was down. GET /readyz says how it is now."
        return _cut(self._redactor.text(refusal.message), LONGEST_MESSAGE)

    def _arguments_on_record(self, request: CallRequest) -> Raw:
        whole = self._redactor.json(Raw(_encode(request.arguments)))
        size = len(bytes(whole))
        if size <= LONGEST_ARGUMENTS:
            return whole
        beginning = bytes(whole)[:LONGEST_MESSAGE].decode(errors="ignore")
        return Raw(_encode({"truncated": True, "size": size, "beginning": beginning}))


def _audited(kept: KeptRefusal) -> AuditedChange | None:
    """The entry of a record that is new."""
    call = kept.call
    if not kept.is_new or call.error is None:
        return None
    after = {"tool": call.tool, "source": call.source, "code": call.error.code, "reason": call.error.message}
    return AuditedChange(actor=call.principal, action="call.refused", subject=call.id, after=after)


def is_recorded(refusal: Refused) -> bool:
    """Whether such a refusal goes on record: not what is there already, nor what the store itself is the reason of."""
    if refusal.on_record:
        return False
    return isinstance(refusal, SourceUnavailable) or not isinstance(refusal, Unavailable)


def _run_of(request: CallRequest) -> str:
    """The run, where it is surely the caller's: a run belongs to whoever made its first call."""
    if request.run_id is not None and (request.begins_run or request.depth):
        return request.run_id
    return request.principal.session or new_id("run")


def _name_on_record(name: str) -> str:
    printable = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name[:2000])
    return printable if len(name) <= LONGEST_NAME else _cut(printable, LONGEST_NAME)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
