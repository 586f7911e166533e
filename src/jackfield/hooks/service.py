"""The hooks of one gateway: which ones a call has, what they decide, and how they have fared.

Above: the pipeline asks before a call; executor, answers and operations after it. Below: `python.py`, `remote.py`.
A call that no hook matches costs one look into a dictionary, and nothing where there are no hooks.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct

from jackfield.catalog.globs import compiled
from jackfield.catalog.merge import Entry
from jackfield.errors import InvalidArguments
from jackfield.hooks.python import HookFile, PythonHook, hook_file, pool_of, start_pool
from jackfield.hooks.remote import UrlHook
from jackfield.hooks.types import (
    AFTER,
    BEFORE,
    LONGEST_REASON,
    Asked,
    Decided,
    HookAnswer,
    HookFailed,
    On,
    Reviewed,
    answer_from,
    event_of,
)
from jackfield.model.call import Call, CallError, Done, Failed, HookNote
from jackfield.outgoing import Outgoing
from jackfield.protocol.json_bodies import UNREADABLE
from jackfield.settings.hooks import HookSettings
from jackfield.workers.host import WorkerHost
from jackfield.workers.pool import WorkerPool

log = logging.getLogger("jackfield.hooks")

MOST_MATCHED = 20_000
"""Tools whose hooks are remembered."""
WITHHELD = "withheld_by_hook"
CheckArguments = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
CheckResult = Callable[[Raw], Awaitable[str | None]]
"""What is wrong with a result, by the tool's own output schema."""
Word = Literal["allow", "deny", "ask", "replace", "withhold"]

_encode = msgspec.json.Encoder().encode


class Hook:
    """One entry of `[[hooks]]`, and how it has fared since it was read."""

    def __init__(self, settings: HookSettings, asked: Asked) -> None:
        self.settings = settings
        self.asked = asked
        self.name = settings.title
        self.runs = 0
        self.failures = 0
        self.last_error: str | None = None
        self.last_failed_at: int | None = None
        self.total_ms = 0.0

    def matches(self, name: str, source: str, foreign: str) -> bool:
        """Whether it is asked about calls of the tool of this public name, of this source and spelled so there."""
        return compiled(self.settings.tools).match(name, source=source, foreign=foreign)

    async def ask(self, call: Call, outcome: Done | Failed | None) -> HookAnswer:
        """Its answer within its timeout. Raises `HookFailed`."""
        settings = self.settings
        event = event_of(settings.on, call, outcome, settings.options)
        try:
            async with asyncio.timeout(settings.timeout / 1000):
                said = await self.asked.ask(event, timeout=settings.timeout / 1000)
        except TimeoutError:
            raise HookFailed(f"it did not answer within {settings.timeout} ms") from None
        return answer_from(said, settings.on)

    def ran(self, began: float, fault: HookFailed | None) -> float:
        """It was asked; how long it took, in ms."""
        ms = (time.perf_counter() - began) * 1000
        self.runs += 1
        self.total_ms += ms
        if fault is not None:
            self.failures += 1
            self.last_error = fault.detail[:LONGEST_REASON]
            self.last_failed_at = time.time_ns() // 1_000_000
            log.warning("hook %s failed: %s", self.name, fault.detail)
        return round(ms, 3)

    def note(self, decision: Word, reason: str | None, ms: float) -> HookNote:
        return HookNote(name=self.name, on=self.settings.on, decision=decision, reason=reason, ms=ms)


class PreparedHooks(Struct, frozen=True):
    """Hooks that can be used, whose processes run. Those that did not change are the same as before."""

    hooks: list[Hook]
    pools: dict[HookFile, WorkerPool]


class Hooks:
    """All hooks, in the order of the config."""

    def __init__(
        self, *, folder: Path, data: Path, outgoing: Outgoing, worker_host: WorkerHost, redact: Callable[[str], str]
    ) -> None:
        self._folder = folder
        self._data = data
        self._outgoing = outgoing
        self._worker_host = worker_host
        self._redact = redact
        self.all: tuple[Hook, ...] = ()
        self._pools: dict[HookFile, WorkerPool] = {}
        self._matched: dict[On, dict[tuple[str, str, str], tuple[Hook, ...]]] = {BEFORE: {}, AFTER: {}}
        self._any: dict[On, tuple[Hook, ...]] = {BEFORE: (), AFTER: ()}

    async def prepared(self, settings: Sequence[HookSettings], *, where: str) -> PreparedHooks:
        """What these come to, for `apply` or `drop`. Raises `ConfigError` where one cannot be used."""
        made = PreparedHooks([], {})
        try:
            for number, one in enumerate(settings):
                made.hooks.append(await self._prepared(one, made.pools, where=f"{where}: hooks[{number}]"))
        except BaseException:
            await self.drop(made)
            raise
        return made

    async def _prepared(self, one: HookSettings, pools: dict[HookFile, WorkerPool], *, where: str) -> Hook:
        if one.url is not None:
            known = next((hook for hook in self.all if hook.settings == one), None)
            return known or Hook(one, UrlHook(one.url, secret=one.secret, outgoing=self._outgoing))
        file, function, parameter = await asyncio.to_thread(hook_file, one, folder=self._folder, where=where)
        pool = pools.get(file) or self._pools.get(file)
        if pool is None:
            pool = pools[file] = pool_of(file, host=self._worker_host, data=self._data)
            await start_pool(pool, file)
        pools[file] = pool
        known = next((hook for hook in self.all if hook.settings == one and _pool_of(hook) is pool), None)
        return known or Hook(one, PythonHook(file, function, parameter, pool=pool))

    def differ(self, prepared: PreparedHooks) -> bool:
        """Whether these are others than those in use, or what their files say is."""
        return tuple(prepared.hooks) != self.all

    def apply(self, prepared: PreparedHooks) -> None:
        """Use these and no others from now on. Whoever asks one that is gone still gets its answer."""
        gone = [pool for pool in self._pools.values() if pool not in prepared.pools.values()]
        self.all, self._pools = tuple(prepared.hooks), prepared.pools
        for on in (BEFORE, AFTER):
            self._any[on] = tuple(hook for hook in self.all if hook.settings.on == on)
            self._matched[on] = {}
        for pool in gone:
            pool.drop()
            self._worker_host.forget(pool)

    async def drop(self, prepared: PreparedHooks) -> None:
        """These are not used after all: end what was started for them."""
        for pool in prepared.pools.values():
            if pool in self._pools.values():
                continue
            await pool.close()
            before = next((one for one in self._pools.values() if one.record is pool.record), None)
            if before is None:
                self._worker_host.forget(pool)
            else:
                before.record.pool = before  # it is the file's again

    async def close(self) -> None:
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    def before(self, entry: Entry) -> tuple[Hook, ...]:
        """Those that are asked before calls of this tool."""
        if not self._any[BEFORE]:
            return ()
        return self._for(BEFORE, (entry.name, entry.tool.source, entry.tool.name))

    def after(self, call: Call, entry: Entry | None) -> tuple[Hook, ...]:
        """Those that are asked after the call; its tool may be gone by now, or be in no catalog."""
        if not self._any[AFTER]:
            return ()
        foreign = call.tool if entry is None else entry.tool.name
        return self._for(AFTER, (call.tool, call.source, foreign))

    def _for(self, on: On, key: tuple[str, str, str]) -> tuple[Hook, ...]:
        matched = self._matched[on]
        found = matched.get(key)
        if found is None:
            if len(matched) >= MOST_MATCHED:
                matched.clear()
            found = matched[key] = tuple(hook for hook in self._any[on] if hook.matches(*key))
        return found

    async def decide(self, hooks: Iterable[Hook], call: Call, *, check: CheckArguments) -> Decided:
        """Ask each before the call, in order, until one denies it. Later ones see what earlier ones changed."""
        notes: list[HookNote] = []
        arguments: dict[str, Any] | None = None
        asks = False
        for hook in hooks:
            began, changed = time.perf_counter(), None
            try:
                answer = await hook.ask(call, None)
                if answer.arguments is not None and answer.decision != "deny":
                    changed = await _checked(answer.arguments, check)
            except HookFailed as fault:
                ms, word = hook.ran(began, fault), hook.settings.on_failure
                reason = f"The hook failed: {fault}."
                notes.append(hook.note(word, reason, ms))
                if word == "deny":
                    said = f"Hook '{hook.name}' failed, so the call is denied: {fault}."
                    return Decided(notes=tuple(notes), denied=said)
                continue
            ms, told = hook.ran(began, None), self._told(answer)
            if answer.decision == "deny":
                notes.append(hook.note("deny", told, ms))
                said = f"Hook '{hook.name}' denied this call" + (f": {told}" if told else ".")
                return Decided(notes=tuple(notes), denied=said)
            if changed is not None:
                arguments = changed
                call = msgspec.structs.replace(call, arguments=Raw(_encode(changed)))
            asks = asks or answer.decision == "ask"
            did: Word = "allow" if changed is None else "replace"
            notes.append(hook.note("ask" if answer.decision == "ask" else did, told, ms))
        return Decided(notes=tuple(notes), arguments=arguments, asks=asks)

    async def review(
        self, hooks: Iterable[Hook], call: Call, outcome: Done | Failed, *, check: CheckResult
    ) -> Reviewed:
        """Ask each after the call, in order, until one withholds the result. Later ones see what earlier ones made."""
        notes: list[HookNote] = []
        original = outcome
        for hook in hooks:
            began = time.perf_counter()
            try:
                answer = await hook.ask(call, outcome)
                replaced = None if answer.decision != "replace" else await _replaced(answer, outcome, check)
            except HookFailed as fault:
                ms, reason = hook.ran(began, fault), f"The hook failed: {fault}."
                if hook.settings.on_failure == "deny":
                    notes.append(hook.note("withhold", reason, ms))
                    said = f"The tool was called, but hook '{hook.name}' failed, so its result is withheld: {fault}."
                    return Reviewed(outcome=Failed(WITHHELD, said), notes=tuple(notes), withheld=original)
                notes.append(hook.note("allow", reason, ms))
                continue
            ms, told = hook.ran(began, None), self._told(answer)
            if answer.decision == "withhold":
                notes.append(hook.note("withhold", told, ms))
                said = "The tool was called, but its result is withheld" + (f": {told}" if told else ".")
                return Reviewed(outcome=Failed(WITHHELD, said), notes=tuple(notes), withheld=original)
            if replaced is not None:
                outcome = replaced
            notes.append(hook.note("allow" if replaced is None else "replace", told, ms))
        return Reviewed(outcome=outcome, notes=tuple(notes))

    def _told(self, answer: HookAnswer) -> str | None:
        return None if answer.reason is None else self._redact(answer.reason)[:LONGEST_REASON]


def longest_seconds(hooks: Iterable[Hook]) -> float:
    """How long all of them may take together."""
    return sum(hook.settings.timeout for hook in hooks) / 1000


def _pool_of(hook: Hook) -> WorkerPool | None:
    return hook.asked.pool if isinstance(hook.asked, PythonHook) else None


async def _checked(arguments: dict[str, Any], check: CheckArguments) -> dict[str, Any]:
    try:
        return await check(arguments)
    except InvalidArguments as fault:
        said = "it changed the arguments to ones that the tool does not take"
        raise HookFailed(said, detail=f"{said}: {fault.message}") from None


async def _replaced(answer: HookAnswer, outcome: Done | Failed, check: CheckResult) -> Done | Failed:
    """What a hook put in the place of a result, or of an error: its message, or code and message."""
    assert answer.result is not UNSET
    if isinstance(outcome, Done):
        fault = await check(answer.result)
        if fault is not None:
            said = "it replaced the result by one that does not match the tool's output schema"
            raise HookFailed(said, detail=f"{said}: {fault}")
        return Done(answer.result)
    try:
        told = msgspec.json.decode(answer.result, type=str | CallError)
    except UNREADABLE:
        raise HookFailed("the call failed, and it replaced the error by something that is not a message") from None
    return Failed(outcome.code, told) if isinstance(told, str) else Failed(told.code, told.message)
