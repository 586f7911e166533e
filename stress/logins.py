"""Logins at a server behind: everybody's own, refreshed once for all, and whole or gone when a gateway is killed.

Real gateway processes, two on one PostgreSQL, and `login_server.py` behind them, which writes down whose token each
call came with.

- **interleaved**: two people call at both gateways, all at once, with keys and with tokens; the server sees each call
  with its caller's own login.
- **expiry**: no access token is good any more, and everybody calls at once; each person's login is refreshed once.
- **kills**: a gateway is killed while the authorization server makes tokens, in a login or in a refresh; no call runs
  twice, and the login is there, or the next call waits for one.
"""

import asyncio
import base64
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from conformance.browser import Browser, Page, follow
from conformance.tokens import granted
from stress.login_server import Seen
from stress.processes import Project, Victim, victims
from stress.report import Report, progress_of
from tests.harness.process import free_port

NAMES = ("ada", "bob")
VAULT_KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
AT_ONCE = 40
START_SECONDS = 20.0
SETTLES_WITHIN = 60.0
"""A dead gateway's lease is over after 15 s, then the others take over."""
OVER_MCP = 0.5
"""The share of calls that are made at `/mcp`, with a token; the others are made with a key."""
BETWEEN_SECONDS = 11.0
"""A login whose fresh tokens are refused again within 10 s is over, so expiries are further apart."""
VERSION = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}}
FINAL = ("completed", "failed", "rejected", "expired", "cancelled")
CONFIG = """\
[server]
public_url = "http://127.0.0.1:{port}"

[auth.keys.ada]
key = "key-of-ada-in-this-run"

[auth.keys.bob]
key = "key-of-bob-in-this-run"

[sources.notes]
kind = "mcp"
url = "{server}/mcp"
auth = "user"
"""


def key_of(name: str) -> str:
    return f"key-of-{name}-in-this-run"


class LoginServer:
    """`login_server.py`, running."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx2.Client(base_url=url, timeout=30)

    @property
    def seen(self) -> Seen:
        return msgspec.json.decode(self._http.get("/test/seen").content, type=Seen)

    @property
    def secrets(self) -> list[str]:
        """Every token, code, verifier and client secret that passed."""
        return msgspec.json.decode(self._http.get("/test/secrets").content, type=list[str])

    def close(self) -> None:
        self._http.close()

    def expire(self) -> None:
        self._http.post("/test/expire").raise_for_status()

    def hold(self, grant: str | None) -> None:
        self._http.post("/test/hold", params={} if grant is None else {"grant": grant}).raise_for_status()


@contextmanager
def running_login_server() -> Iterator[LoginServer]:
    """Start it, and end it by its pid."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "stress.login_server", str(port)], stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.01)
        with closing(LoginServer(f"http://127.0.0.1:{port}")) as server:
            yield server
    finally:
        process.kill()
        process.wait()


class Person:
    """Somebody with a key and a browser, at every gateway."""

    def __init__(self, name: str, running: list[Victim]) -> None:
        self.name = name
        self._browser = Browser()
        headers = {"x-api-key": key_of(name)}
        self.doors = [httpx2.AsyncClient(base_url=each.url, headers=headers, timeout=60) for each in running]
        self.token = ""
        self._tokens = [httpx2.AsyncClient(base_url=each.url, timeout=60) for each in running]

    async def call(self, text: str, *, at: int) -> dict[str, Any]:
        answer = await self.doors[at].post("/api/v1/tools/note/execute", json={"arguments": {"text": text}})
        told: dict[str, Any] = answer.json()
        return told

    async def call_over_mcp(self, text: str, *, at: int) -> str:
        """The same with a token of the gateway's authorization server; the text of the result."""
        params = {"name": "note", "arguments": {"text": text}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "authorization": f"Bearer {self.token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": "tools/call",
            "mcp-name": "note",
        }
        answer = await self._tokens[at].post("/mcp", json=message, headers=headers)
        lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith(("data: ", "{"))]
        return str(msgspec.json.decode(lines[-1])["result"]["content"][0]["text"])

    async def consent(self) -> None:
        """Let a program have a token."""
        url = str(self.doors[0].base_url).rstrip("/")
        answer = await asyncio.to_thread(granted, url, {"key": key_of(self.name)})
        self.token = answer.access_token

    async def record(self, call: str, *, at: int) -> dict[str, Any]:
        found: dict[str, Any] = (await self.doors[at].get(f"/api/v1/calls/{call}")).json()["call"]
        return found

    async def connect(self, *, at: int = 0) -> Page:
        """Log in before any call."""
        answer = await self.doors[at].post("/api/v1/connections/notes", json={})
        answer.raise_for_status()
        return await self.log_in(answer.json()["login_url"])

    async def log_in(self, url: str) -> Page:
        """With a link of the gateway, at the server's own page, under the same name."""
        answers = {"key": key_of(self.name), "login": self.name}
        return await asyncio.to_thread(follow, self._browser, url, answers)

    async def close(self) -> None:
        self._browser.close()
        for door in (*self.doors, *self._tokens):
            await door.aclose()


@asynccontextmanager
async def scene(
    store_url: str, folder: Path, *, gateways: int
) -> AsyncIterator[tuple[LoginServer, list[Victim], list[Person]]]:
    """The server, the gateways, and the people, who are not logged in yet."""
    with running_login_server() as server:
        port = free_port()
        config = CONFIG.format(port=port, server=server.url)
        project = Project(config, {}, {"JACKFIELD_VAULT_KEY": VAULT_KEY})
        async with victims(folder, store_url, count=gateways, project=project, first_port=port) as running:
            people = [Person(name, running) for name in NAMES]
            yield server, running, people
            for person in people:
                await person.close()


async def interleave(store_url: str, folder: Path, *, calls: int, seed: int, gateways: int = 2) -> Report:
    """So many calls by both, over all gateways."""
    report = Report(part=f"interleaved logins, {gateways} gateway(s)", seed=seed)
    chance = random.Random(seed)
    async with scene(store_url, folder, gateways=gateways) as (server, _, people):
        for person in people:
            await person.connect()
            await _is_offered(person, gateways)
            await person.consent()
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(person: Person, number: int) -> None:
            async with slots:
                text, at = f"{person.name} {number}", chance.randrange(gateways)
                if chance.random() < OVER_MCP:
                    told = await person.call_over_mcp(text, at=at)
                else:
                    told = (answer := await person.call(text, at=at)).get("result", str(answer))
            report.expect(told == f"{person.name}: {text}", f"{text} got {told}")

        made = [(people[number % len(people)], number) for number in range(calls)]
        chance.shuffle(made)
        await asyncio.gather(*(one(person, number) for person, number in made))
        _judge_calls(report, server.seen, Counter(f"{person.name} {number}" for person, number in made))
    return report


async def expire_under_load(store_url: str, folder: Path, *, rounds: int, seed: int, gateways: int = 2) -> Report:
    """Two hundred calls at once, each time after every access token has ended."""
    report = Report(part=f"calls at expiry, {gateways} gateway(s)", seed=seed)
    async with scene(store_url, folder, gateways=gateways) as (server, _, people):
        ada = people[0]
        await ada.connect()
        await _is_offered(ada, gateways)
        for number in range(rounds):
            if number:
                await asyncio.sleep(BETWEEN_SECONDS)
            server.expire()
            before = server.seen.refreshes
            texts = [f"ada {number} {each}" for each in range(200)]
            told = await asyncio.gather(*(ada.call(text, at=each % gateways) for each, text in enumerate(texts)))
            for text, answer in zip(texts, told, strict=True):
                report.expect(answer.get("result") == f"ada: {text}", f"{text} got {answer}")
            refreshes = server.seen.refreshes - before
            report.expect(refreshes == 1, f"{refreshes} refreshes in round {number}")
            report.seen["rounds"] += 1
        report.expect(server.seen.refused == 0, f"{server.seen.refused} refresh tokens or codes were used twice")
        _judge_calls(report, server.seen, Counter(text for _, text in server.seen.calls))
    return report


async def kill_with_logins(store_url: str, folder: Path, *, kills: int, seed: int, gateways: int = 2) -> Report:
    """So many kills, in turn while a login is made and while one is refreshed."""
    report = Report(part=f"logins under kill -9, {gateways} gateway(s)", seed=seed)
    tell = progress_of(report, kills)
    async with scene(store_url, folder, gateways=gateways) as (server, running, people):
        ada = people[0]
        await ada.connect()
        await _is_offered(ada, gateways)
        for number in range(kills):
            if number % 2:
                await _killed_in_refresh(report, server, running, ada, number)
            else:
                await _killed_in_login(report, server, running, ada, number)
            tell(number)
        _judge_calls(report, server.seen, Counter(text for _, text in server.seen.calls))
    return report


async def _killed_in_login(
    report: Report, server: LoginServer, running: list[Victim], person: Person, number: int
) -> None:
    """A call waits for a login; the gateway that redeems the code is killed while it waits for the tokens."""
    await person.doors[0].delete("/api/v1/connections/notes")
    text = f"{person.name} login {number}"
    told = await person.call(text, at=0)
    report.expect(told.get("status") == "pending_login", f"{text} without a login got {told}")
    server.hold("authorization_code")
    held = server.seen.held
    login = asyncio.create_task(_tried(person.log_in(told["login_url"])))
    await _until(lambda: server.seen.held > held)
    await running[0].kill()
    server.hold(None)
    await login
    await running[0].start()
    await _goes_on(report, person, told["call_id"], text, at=len(running) - 1)


async def _killed_in_refresh(
    report: Report, server: LoginServer, running: list[Victim], person: Person, number: int
) -> None:
    """The access token has ended; the gateway that refreshes it is killed while it waits for the new one."""
    server.expire()
    server.hold("refresh_token")
    held = server.seen.held
    text = f"{person.name} refresh {number}"
    calling = asyncio.create_task(_tried(person.call(text, at=0)))
    await _until(lambda: server.seen.held > held)
    await running[0].kill()
    server.hold(None)
    await calling
    await running[0].start()
    report.seen["killed in a refresh"] += 1
    after = f"{person.name} after {number}"
    told = await person.call(after, at=len(running) - 1)
    if told.get("status") != "pending_login":
        report.expect(told.get("result") == f"{person.name}: {after}", f"{after} got {told}")
        return
    report.seen["the login was lost"] += 1
    await _goes_on(report, person, told["call_id"], after, at=len(running) - 1)


async def _goes_on(report: Report, person: Person, call: str, text: str, *, at: int) -> None:
    """A call that waits for a login gets one if it still needs it, and ends well."""

    async def settled() -> dict[str, Any] | None:
        found = await person.record(call, at=at)
        return found if found["status"] in (*FINAL, "pending_login") else None

    now = await _until(settled)
    if now["status"] == "pending_login":
        report.seen["logged in again"] += 1
        page = await person.log_in(now["login_url"])
        report.expect(not page.is_fault, f"the login for {text} ended with {page.status}: {page.text[-300:]}")
        now = await _until(lambda: _when_final(person, call, at=at))
    report.seen["calls that waited"] += 1
    report.expect(now["status"] == "completed", f"{text} is {now}")


async def _when_final(person: Person, call: str, *, at: int) -> dict[str, Any] | None:
    found = await person.record(call, at=at)
    return found if found["status"] in FINAL else None


async def _is_offered(person: Person, gateways: int) -> None:
    """Until every gateway has read the server's tools."""
    for door in person.doors[:gateways]:

        async def offered(door: httpx2.AsyncClient = door) -> bool:
            return any(tool["name"] == "note" for tool in (await door.get("/api/v1/tools")).json()["tools"])

        await _until(offered)


async def _until(ask: Callable[[], Any]) -> Any:
    """Poll until `ask` says something true; it may be a coroutine function."""
    end = time.monotonic() + SETTLES_WITHIN
    while True:
        asked = ask()
        answer = await asked if isinstance(asked, Awaitable) else asked
        if answer:
            return answer
        if time.monotonic() > end:
            raise TimeoutError(f"{ask} was still {answer!r} after {SETTLES_WITHIN:g} s")
        await asyncio.sleep(0.02)


async def _tried(asked: Awaitable[Any]) -> None:
    """Whatever comes of it: the gateway may be dead."""
    with suppress(httpx2.HTTPError, RuntimeError, msgspec.DecodeError, ValueError):
        await asked


def _judge_calls(report: Report, seen: Seen, expected: Counter[str]) -> None:
    """Each call came once, with its caller's token."""
    for whose, text in seen.calls:
        report.expect(text.startswith(f"{whose} "), f"the call '{text}' came with the token of {whose}")
    counts = Counter(text for _, text in seen.calls)
    report.seen["calls"] += len(seen.calls)
    report.violations += [f"'{text}' ran {count} times" for text, count in counts.items() if count > 1]
    report.violations += [f"'{text}' never ran" for text in expected if text not in counts]
