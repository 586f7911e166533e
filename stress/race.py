"""A result that comes within a few milliseconds of the deadline is delivered once: inline, or by the inbox.

Each trial is a sync external call of an agent of its own, made as the HTTP door makes it, and a result that is aimed at
its deadline. The aim follows what was hit before, so that about half of the results come in time on any machine. With
two gateways the result is submitted at the other one.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct

from jackfield.agents.cycle_transactions import inbox_page
from jackfield.calls.requests import CallRequest
from jackfield.calls.waiting import slot_of
from jackfield.errors import Refused
from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.model.call import Call, Done, Failed, done
from jackfield.model.ids import new_id
from stress.report import Report, progress_of
from stress.stores import external, gateways_on

TOOL = "race"
TIMEOUT_MS = 150
AT_ONCE = 100
AIMING = 40
"""Trials before the count, to find out where the deadline is hit on this machine."""
SPREAD_SECONDS = 0.004
FIRST_STEP_SECONDS = 0.002
LAST_STEP_SECONDS = 0.0001
LEAST_SHARE = 0.1
"""Of all trials, at least this many must have gone each way, or the race was none."""
TRIAL_SECONDS = 30.0


class Aim:
    """When to submit, counted from the start of the call: at the deadline, corrected by what was hit."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._step = FIRST_STEP_SECONDS
        self.correction = 0.0

    def delay(self) -> float:
        jitter = self._chance.uniform(-SPREAD_SECONDS, SPREAD_SECONDS)
        return max(0.0, TIMEOUT_MS / 1000 + self.correction + jitter)

    def learn(self, *, came_in_time: bool) -> None:
        self.correction += self._step if came_in_time else -self._step
        self._step = max(LAST_STEP_SECONDS, self._step * 0.95)


class Trial(Struct, frozen=True, kw_only=True):
    """What one race came to."""

    call: Call
    """As its caller got it."""
    accepted: bool
    events: tuple[str, ...]


async def race_at_the_deadline(store_url: str, folder: Path, *, trials: int, seed: int, gateways: int = 1) -> Report:
    report = Report(part=f"race at the deadline, {gateways} gateway(s) on {store_url.partition(':')[0]}", seed=seed)
    tell = progress_of(report, trials)
    chance = random.Random(seed)
    aim, at_once = Aim(chance), max(1, min(AT_ONCE, trials // 10))
    async with gateways_on(store_url, folder, external(TOOL, timeout_ms=TIMEOUT_MS), count=gateways) as running:

        async def racer(numbers: Iterator[int]) -> None:
            for number in numbers:
                caller, submitter = chance.choice(running), chance.choice(running)
                if number % 2 and len(running) > 1:
                    submitter = next(other for other in running if other is not caller)
                async with asyncio.timeout(TRIAL_SECONDS):
                    trial = await _race(caller, submitter, number, aim)
                _judge(report, trial, number)
                tell(number)

        for numbers in (iter(range(-AIMING, 0)), iter(range(trials))):
            report.seen.clear()
            await asyncio.gather(*(racer(numbers) for _ in range(at_once)))
    _judge_mix(report, trials)
    return report


async def _race(caller: Gateway, submitter: Gateway, number: int, aim: Aim) -> Trial:
    call_id, agent = new_id("call"), f"agent-{number}"
    request = CallRequest(tool=TOOL, arguments={}, principal=ADMIN, agent=agent, over_http=True)
    async with caller.pipeline.events.follow(call_id) as told:
        waiting = asyncio.create_task(caller.pipeline.call(request, call_id=call_id))
        await anext(told)  # it is on record and waits
    await asyncio.sleep(aim.delay())
    try:
        await submitter.answers.submit(call_id, done({"number": number}), principal=ADMIN)
        accepted = True
    except Refused:
        accepted = False
    call = await waiting
    in_time = call.status.is_final
    aim.learn(came_in_time=in_time)
    if in_time:
        await caller.pipeline.sent(call)
    events, _ = await submitter.store.read(partial(inbox_page, agent))
    return Trial(call=call, accepted=accepted, events=tuple(bytes(event.data).decode() for event in events))


def _judge(report: Report, trial: Trial, number: int) -> None:
    """Accepted, and delivered by exactly one way, as it was submitted."""
    slot = slot_of(trial.call)
    outcome = slot.outcome if slot is not None else None
    inline = outcome == done({"number": number})
    timed_out = isinstance(outcome, Failed) and outcome.code == "timeout"
    by_inbox = len(trial.events)
    report.seen["inline" if inline else "by inbox" if timed_out else "odd"] += 1
    name = f"trial {number} ({trial.call.id})"
    report.expect(trial.accepted, f"{name}: a result for an open call was refused")
    report.expect(inline or timed_out, f"{name}: the caller was told {outcome}")
    report.expect(inline + by_inbox == 1, f"{name}: inline {inline}, {by_inbox} events in the inbox")
    report.expect(
        all(f'"number":{number}}}' in event.replace(" ", "") for event in trial.events),
        f"{name}: the inbox has another result: {trial.events}",
    )
    report.expect(not isinstance(outcome, Done) or inline, f"{name}: the caller got another result: {outcome}")


def _judge_mix(report: Report, trials: int) -> None:
    shares = Counter({way: report.seen[way] / trials for way in ("inline", "by inbox")})
    for way, share in shares.items():
        report.expect(share >= LEAST_SHARE, f"only {share:.0%} of the trials ended {way}: that was no race")
