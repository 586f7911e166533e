"""A load of calls and answers over HTTP on gateways that die, and a ledger of what each side was told.

Callers make calls in the name of agents, by JSON and by stream, and some hang up. Answerers are tool servers: they hear
of calls over the stream, begin each once, and submit a result, at another gateway if there is one, until it is taken.
What is written in the ledger was received over the wire, nothing else.
"""

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import httpx2
from msgspec import Struct, field

from jackfield.protocol.sse import EventParser
from stress.processes import DEADLINE_MS, KEY, Victim

CALLERS = 16
AGENTS = 20
GONE = "gone-"
"""Agents whose callers hang up; whether they got their answer nobody can know."""
TOOLS = ("job", "job", "job", "job_later", "work", "work_again")
HEADERS = {"Authorization": f"Bearer {KEY}"}
PAUSE_SECONDS = 0.05
CALL_SECONDS = 20.0
RETRIES = 2_000


class Receipt(Struct, frozen=True):
    """A final answer that a caller got on its own connection."""

    answer: dict[str, Any]
    at: float
    victim: int


class Ledger(Struct, kw_only=True):
    """What was said over the wire."""

    received: dict[str, Receipt] = field(default_factory=dict)
    """Outcomes that callers got inline; timeouts are not among them."""
    acknowledged: dict[str, Any] = field(default_factory=dict)
    """Results that a gateway took with 200."""
    unsure: dict[str, Any] = field(default_factory=dict)
    """Results that were refused with 409 after a reply was lost: taken before, if the record says so."""
    violations: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)


class Moments:
    """Points in the life of some call at which a gateway may be killed."""

    KINDS = ("a call was made", "an offer came", "a result is on its way", "a result was taken", "an answer came")

    def __init__(self) -> None:
        self._events = {kind: asyncio.Event() for kind in self.KINDS}

    def has_come(self, kind: str) -> None:
        self._events[kind].set()

    async def next(self, kind: str, *, within: float) -> None:
        """Until that happens to any call, or it does not happen."""
        self._events[kind].clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._events[kind].wait()


class Load:
    """Callers and answerers, until they are told to stop."""

    def __init__(self, victims: Sequence[Victim], ledger: Ledger, chance: random.Random) -> None:
        self._victims = victims
        self._ledger = ledger
        self._chance = chance
        self._numbers = itertools.count()
        self._begun: set[str] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._calling = True
        self.moments = Moments()
        limits = httpx2.Limits(max_connections=200, max_keepalive_connections=50)
        self._clients = [
            httpx2.AsyncClient(base_url=victim.url, headers=HEADERS, timeout=CALL_SECONDS, limits=limits)
            for victim in victims
        ]

    async def run(self, stop: asyncio.Event, quiet: asyncio.Event) -> None:
        """Call until `stop`, answer until `quiet`."""
        servers = [asyncio.create_task(self._serve(n)) for n in range(len(self._victims))]
        callers = [asyncio.create_task(self._call_on()) for _ in range(CALLERS)]
        await stop.wait()
        self._calling = False
        await asyncio.gather(*callers)
        await quiet.wait()
        for server in (*servers, *self._answering):
            server.cancel()
        await asyncio.gather(*servers, *self._answering, return_exceptions=True)
        for client in self._clients:
            await client.aclose()

    async def _call_on(self) -> None:
        while self._calling:
            try:
                await self._call_once()
            except httpx2.TransportError:
                self._ledger.seen["calls cut off"] += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _call_once(self) -> None:
        number, victim = next(self._numbers), self._chance.randrange(len(self._victims))
        tool, style = self._chance.choice(TOOLS), self._chance.random()
        hangs_up, streams = style < 0.06, style > 0.75
        agent = f"{GONE if hangs_up else 'agent-'}{number % AGENTS}"
        request: dict[str, Any] = {"json": {"arguments": {"n": number}, "agent": agent}}
        if hangs_up:
            request["timeout"] = self._chance.uniform(0.02, 0.5)
        path, client = f"/api/v1/tools/{tool}/execute", self._clients[victim]
        self._ledger.seen["calls"] += 1
        self.moments.has_come("a call was made")
        if streams:
            answer = await _streamed(client, path, request)
        else:
            response = await client.post(path, **request)
            answer = response.json() if response.status_code == 200 else None
            if response.status_code == 503:
                await asyncio.sleep(PAUSE_SECONDS)
        if answer is not None and "call_id" in answer:
            self._receive(answer, victim)

    def _receive(self, answer: dict[str, Any], victim: int) -> None:
        call_id, error = answer["call_id"], answer["error"]
        self.moments.has_come("an answer came")
        is_final = answer["status"] in {"completed", "failed"}
        if is_final and (error is None or error["code"] != "timeout"):
            if call_id in self._ledger.received:
                self._ledger.violations.append(f"{call_id}: two callers got its outcome")
            self._ledger.received[call_id] = Receipt(answer, time.monotonic(), victim)

    async def _serve(self, number: int) -> None:
        """A tool server that is always the same one, however often its stream breaks."""
        while True:
            with suppress(httpx2.TransportError):
                await self._hear_offers(number)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _hear_offers(self, number: int) -> None:
        params = {"tools": "job,job_later", "client": f"server-{number}", "limit": "500"}
        parser = EventParser()
        stream = self._clients[number].stream("GET", "/api/tools/stream", params=params, timeout=None)
        async with stream as response:
            if response.status_code != 200:
                return
            async for chunk in response.aiter_bytes():
                for event in parser.feed(chunk):
                    self._take(json.loads(event.data))

    def _take(self, offer: dict[str, Any]) -> None:
        """Begin what was not begun; an offer may come twice."""
        if offer["type"] != "tool.call":
            return
        self._ledger.seen["offers"] += 1
        self.moments.has_come("an offer came")
        if offer["toolCallId"] in self._begun:
            self._ledger.seen["offers repeated"] += 1
            return
        self._begun.add(offer["toolCallId"])
        task = asyncio.create_task(self._answer(offer))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, offer: dict[str, Any]) -> None:
        deadline, style = DEADLINE_MS / 1000, self._chance.random()
        at_the_deadline = self._chance.uniform(deadline - 0.05, deadline + 0.05)
        quick, late = self._chance.uniform(0, deadline / 2), self._chance.uniform(deadline, 2 * deadline)
        await asyncio.sleep(quick if style < 0.6 else at_the_deadline if style < 0.85 else late)
        call_id, result = offer["toolCallId"], {"n": offer["args"]["n"], "token": self._chance.randrange(10**9)}
        path, body = f"/api/runs/{offer['runId']}/tool-results", {"callId": call_id, "result": result}
        lost_a_reply = False
        for _ in range(RETRIES):
            self.moments.has_come("a result is on its way")
            try:
                response = await self._chance.choice(self._clients).post(path, json=body)
            except httpx2.TransportError:
                lost_a_reply = True
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if response.status_code == 503:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self._note(call_id, result, response, lost_a_reply=lost_a_reply)
            return
        self._ledger.violations.append(f"{call_id}: its result was never taken")

    def _note(self, call_id: str, result: Any, response: httpx2.Response, *, lost_a_reply: bool) -> None:
        self.moments.has_come("a result was taken")
        if response.status_code == 200:
            self._ledger.seen[f"results taken for {response.json()['delivery']}"] += 1
            self._ledger.acknowledged[call_id] = result
        elif response.status_code == 409 and lost_a_reply:
            self._ledger.seen["results taken without a reply"] += 1
            self._ledger.unsure[call_id] = result
        else:
            self._ledger.violations.append(f"{call_id}: the only result was refused: {response.text}")


async def _streamed(client: httpx2.AsyncClient, path: str, request: dict[str, Any]) -> dict[str, Any] | None:
    """The last event of a streamed call: the same answer that JSON would have been."""
    parser = EventParser()
    stream = client.stream("POST", path, headers={"Accept": "text/event-stream"}, **request)
    async with stream as response:
        if response.status_code != 200:
            return None
        async for chunk in response.aiter_bytes():
            for event in parser.feed(chunk):
                if event.type == "call.result":
                    answer: dict[str, Any] = json.loads(event.data)
                    return answer
    return None
