"""The clients of a storm: one after the other each asks for something, at any gateway, again until it is answered.

A wish has one key: it is the Idempotency-Key, and the argument that the tool writes down when it starts. Calls over
`/mcp` have no such key and are asked for once.
"""

import asyncio
import itertools
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httpx2

from chaos.ledger import FINAL, Ledger, Wait, Wish
from chaos.logins import Logins
from chaos.project import PROGRAM
from stress.load import HEADERS
from stress.logins import key_of
from stress.tasks import META, VERSION

ANSWERED_WITHIN = 60.0
"""No request may wait longer for its first byte: it is the tool's timeout, a lease, and then some."""
WISH_WITHIN = 150.0
PAUSE = 0.1
ANSWERED_LATER = ("job", "run_program")
BUSY = (429, 502, 503, 504)
AGENT = "watcher-"
AGENTS = 6
REJECTED = 0.15
Json = dict[str, Any]

KINDS: Mapping[str, int] = {
    "plain": 3,
    "worker": 2,
    "external": 3,
    "upstream": 2,
    "mcp": 2,
    "resource": 1,
    "approval": 2,
    "task": 2,
    "program": 2,
    "response": 2,
}
"""How many clients there are of each."""


class Clients:
    """Some of each kind, until they are told to stop."""

    def __init__(
        self,
        urls: Sequence[str],
        ledger: Ledger,
        chance: random.Random,
        *,
        pace: float = 0.2,
        every: float | None = None,
        kinds: Mapping[str, int] = KINDS,
        logins: Logins | None = None,
    ) -> None:
        """`pace`: the mean pause of a client in seconds; or `every`: from the start of a wish to that of the next."""
        self._kinds = kinds if logins is None else {**kinds, "login": 2}
        self._logins = logins
        self._every = every
        self.done = 0
        """Wishes that are over."""
        self._ledger = ledger
        self._chance = chance
        self._pace = pace
        self._numbers = itertools.count()
        self._open: set[asyncio.Task[Any]] = set()
        limits = httpx2.Limits(max_connections=100, max_keepalive_connections=20)
        timeout = httpx2.Timeout(ANSWERED_WITHIN, connect=10.0)
        self._clients = [
            httpx2.AsyncClient(base_url=url, headers=HEADERS, timeout=timeout, limits=limits) for url in urls
        ]
        self._places = list(range(len(urls)))

    async def aclose(self) -> None:
        for client in self._clients:
            await client.aclose()

    def hang_up(self, share: float) -> int:
        """Break off some of the requests that wait now, as clients do that die; how many."""
        waiting = list(self._open)
        chosen = self._chance.sample(waiting, round(len(waiting) * share))
        for request in chosen:
            request.cancel()
        return len(chosen)

    async def run(self, stop: asyncio.Event) -> None:
        """Everybody, until `stop`; who is waiting then is waited for."""
        async with asyncio.TaskGroup() as group:
            for name, count in self._kinds.items():
                for _ in range(count):
                    group.create_task(self._again(getattr(self, f"_{name}"), stop))

    @contextmanager
    def only(self, gateway: int) -> Iterator[None]:
        """Everything goes to this gateway."""
        self._places = [gateway]
        yield
        self._places = list(range(len(self._clients)))

    async def each_kind(self) -> None:
        """One of each, now: what a gateway has to be able to do again when the storm is over."""
        await asyncio.gather(*(getattr(self, f"_{name}")() for name in self._kinds))

    async def approve(self, until: asyncio.Event) -> None:
        """Somebody who decides everything that waits for it."""
        while not until.is_set():
            await asyncio.sleep(self._chance.uniform(PAUSE, 4 * PAUSE))
            answer = await self._send("GET", "/api/v1/calls?status=pending_approval&limit=50")
            for call in [] if answer is None or answer.status_code != 200 else answer.json()["calls"]:
                word = "reject" if self._chance.random() < REJECTED else "approve"
                said = await self._send("POST", f"/api/v1/calls/{call['id']}/{word}", json={})
                if said is not None and said.status_code == 200:
                    self._ledger.decided.setdefault(call["id"], word)
                    self._ledger.seen[f"approvals: {word}"] += 1

    async def _again(self, act: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
        while not stop.is_set():
            began = time.monotonic()
            await act()
            self.done += 1
            pause = self._chance.uniform(0, 2 * self._pace)
            if self._every is not None:
                pause = began + self._chance.uniform(0.5, 1.5) * self._every - time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), max(0.0, pause))

    async def _plain(self) -> None:
        await self._execute(self._chance.choice(("write", "write", "look_up")), agent=self._maybe_agent())

    async def _worker(self) -> None:
        await self._execute(self._chance.choice(("crunch", "crunch_again")), agent=self._maybe_agent())

    async def _external(self) -> None:
        await self._execute(self._chance.choice(("job", "job", "job_later")), agent=self._maybe_agent())

    async def _upstream(self) -> None:
        await self._execute(self._chance.choice(("modern", "legacy", "stdio")) + "_echo", argument="token")

    async def _login(self) -> None:
        """A call at a server behind, with the caller's own login there."""
        assert self._logins is not None
        name = self._logins.someone(self._chance)
        await self._execute("note", key=self._key(f"note-of-{name}"), argument="text", whose=name)

    async def _approval(self) -> None:
        await self._execute("charge")

    async def _program(self) -> None:
        name = self._key("program")
        await self._execute("run_program", key=name, arguments={"code": f"name = {name!r}\n{PROGRAM}"})

    async def _mcp(self) -> None:
        """A call over /mcp: asked for once, as there is no key that would make a second one the same."""
        server = self._chance.choice(("modern", "legacy", "stdio"))
        token = self._key(f"{server}-mcp")
        answer = await self._rpc("tools/call", {"name": f"{server}_echo", "arguments": {"token": token}})
        if answer is None or "result" not in answer:
            return
        result = answer["result"]
        text = result["content"][0]["text"] if result.get("content") else ""
        if result.get("isError"):
            self._ledger.seen["calls over /mcp that failed"] += 1
        else:
            self._ledger.mcp_answers[token] = text
            self._expect(text == token, f"{token} over /mcp came to {text[:100]!r}")

    async def _resource(self) -> None:
        server = self._chance.choice(("modern", "legacy"))
        answer = await self._rpc("resources/read", {"uri": f"note://{server}"})
        if answer is not None and "result" in answer:
            text = answer["result"]["contents"][0].get("text")
            self._expect(text == f"note of {server}", f"the resource of {server} is {text!r}")
            self._ledger.seen["resources read"] += 1

    async def _task(self) -> None:
        """An MCP task that waits for approval, polled to its end at any gateway."""
        key = self._key("task")
        answer = await self._rpc("tools/call", {"name": "charge", "arguments": {"key": key}}, takes_tasks=True)
        if answer is None or "taskId" not in answer.get("result", {}):
            return
        task_id = answer["result"]["taskId"]
        self._ledger.accepted[task_id] = key

        async def is_over() -> bool:
            found = await self._rpc("tasks/get", {"taskId": task_id}, takes_tasks=True)
            if found is None or "result" not in found or found["result"]["status"] not in FINAL:
                return False
            self._ledger.tasks[task_id] = found["result"]
            return True

        await self._until(is_over, f"task {task_id}")

    async def _response(self) -> None:
        """A background response with tools, an approval and an answer from outside."""
        body = {"model": "demo", "input": f"job {self._key('response')}", "background": True}
        answer = await self._send("POST", "/v1/responses", json=body | {"tools": [{"type": "jackfield:catalog"}]})
        if answer is None or answer.status_code != 200:
            await self._note_refusal("response", answer)
            return
        response_id = answer.json()["id"]
        self._ledger.responses[response_id] = {}

        async def is_over() -> bool:
            found = await self._send("GET", f"/v1/responses/{response_id}")
            if found is None or found.status_code != 200:
                return self._is_lost(found, f"response {response_id}")
            if found.json()["status"] in {"queued", "in_progress"}:
                return False
            self._ledger.responses[response_id] = found.json()
            return True

        await self._until(is_over, f"response {response_id}")

    async def _execute(
        self,
        tool: str,
        *,
        key: str | None = None,
        argument: str = "key",
        arguments: Json | None = None,
        agent: str | None = None,
        whose: str | None = None,
    ) -> None:
        """From the first request to the end of the call, asked for as often as it takes."""
        wish = Wish(key=key or self._key(tool), tool=tool)
        self._ledger.wishes[wish.key] = wish
        body = {"arguments": arguments or {argument: wish.key}} | ({} if agent is None else {"agent": agent})
        path, headers = f"/api/v1/tools/{tool}/execute", {"Idempotency-Key": wish.key}
        if whose is not None:
            headers["Authorization"] = f"Bearer {key_of(whose)}"

        async def is_made() -> bool:
            wish.asked += 1
            answer = await self._send("POST", path, json=body, headers=headers)
            if answer is None or answer.status_code not in (200, 202):
                await self._note_refusal(tool, answer)
                return False
            call = answer.json()
            self._note_call(wish, call["call_id"])
            waits_on = tool in ANSWERED_LATER and (call["error"] or {}).get("code") == "timeout"
            if answer.status_code == 202 or waits_on:  # nobody waits for it any more, and it can still be answered
                self._ledger.accepted[call["call_id"]] = wish.key
            else:
                self._ledger.tell(call, call_id=call["call_id"])
            return True

        async def is_over() -> bool:
            call_id = wish.calls[-1]
            if call_id in self._ledger.told:
                return True
            found = await self._send("GET", f"/api/v1/calls/{call_id}")
            if found is None or found.status_code != 200:
                return self._is_lost(found, f"call {call_id} of {wish.key}")
            self._ledger.tell(found.json()["call"], call_id=call_id)
            if found.json()["call"]["status"] == "pending_login" and self._logins is not None and whose is not None:
                self._ledger.seen["logins that calls waited for"] += await self._logins.log_in(whose)
            return call_id in self._ledger.told

        if await self._until(is_made, f"the wish {wish.key}"):
            wish.is_over = await self._until(is_over, f"the call of {wish.key}")

    def _note_call(self, wish: Wish, call_id: str) -> None:
        if call_id not in wish.calls:
            wish.calls.append(call_id)
        self._expect(len(wish.calls) == 1, f"{wish.key} is several calls: {wish.calls}")

    def _is_lost(self, answer: httpx2.Response | None, what: str) -> bool:
        """Whether something that was acknowledged is not there any more."""
        is_lost = answer is not None and answer.status_code == 404
        self._expect(not is_lost, f"{what} was acknowledged and is gone")
        return is_lost

    async def _note_refusal(self, what: str, answer: httpx2.Response | None) -> None:
        if answer is None:
            return
        self._ledger.seen[f"refused: {answer.status_code}"] += 1
        if answer.status_code not in BUSY:
            self._ledger.violations.append(f"{what} was refused with {answer.status_code}: {answer.text[:300]}")
        await asyncio.sleep(PAUSE)

    async def _until(self, act: Callable[[], Awaitable[bool]], what: str) -> bool:
        end = time.monotonic() + WISH_WITHIN
        while not await act():
            if time.monotonic() > end:
                self._ledger.hung(what, WISH_WITHIN)
                return False
            await asyncio.sleep(self._chance.uniform(PAUSE, 3 * PAUSE))
        return True

    async def _rpc(self, method: str, params: Json, *, takes_tasks: bool = False) -> Json | None:
        name = params.get("name") or params.get("uri") or params.get("taskId", "")
        headers = {"mcp-protocol-version": VERSION, "mcp-method": method, "mcp-name": name}
        headers["accept"] = "application/json, text/event-stream"
        meta = META if takes_tasks else {**META, CAPABILITIES: {}}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        answer = await self._send("POST", "/mcp", json=body, headers=headers)
        if answer is None:
            return None
        if answer.status_code != 200:
            await self._note_refusal(f"{method} {name}", answer)
            return None
        found = _message_of(answer)
        if "error" in found:
            self._ledger.seen[f"{method} answered with an error"] += 1
        return found

    async def _send(self, method: str, path: str, **more: Any) -> httpx2.Response | None:
        """None: it broke off, and nobody knows what became of it."""
        gateway = self._chance.choice(self._places)
        began, end = time.monotonic(), "cancelled"
        request = asyncio.create_task(self._clients[gateway].request(method, path, **more))
        self._open.add(request)
        try:
            await asyncio.wait((request,))
            if request.cancelled():
                return None
            answer = await request
        except (httpx2.ReadTimeout, httpx2.PoolTimeout) as fault:
            end = type(fault).__name__
            return None
        except httpx2.TransportError as fault:
            end = type(fault).__name__
            self._ledger.seen["requests broken off"] += 1
            await asyncio.sleep(PAUSE)
            return None
        else:
            end = str(answer.status_code)
            return answer
        finally:
            request.cancel()
            self._open.discard(request)
            what = f"{method} {path.partition('?')[0]}"
            self._ledger.waits.append(Wait(what, gateway, began, time.monotonic(), end))

    def _key(self, what: str) -> str:
        self._ledger.seen[f"wishes: {what}"] += 1
        return f"{what}-{next(self._numbers)}"

    def _maybe_agent(self) -> str | None:
        """Some calls are made in an agent's name: what comes too late is in its inbox."""
        return f"{AGENT}{self._chance.randrange(AGENTS)}" if self._chance.random() < 0.5 else None

    def _expect(self, holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads like an assertion
        if not holds:
            self._ledger.violations.append(otherwise)


CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def _message_of(answer: httpx2.Response) -> Json:
    """The response to a request over /mcp, as JSON or as the last event of a stream."""
    if "text/event-stream" not in answer.headers.get("content-type", ""):
        message: Json = answer.json()
        return message
    data = [line.removeprefix("data:").strip() for line in answer.text.splitlines() if line.startswith("data:")]
    return json.loads(data[-1]) if data else {}
