"""Real doors over a real port, and behind them an engine that plays what a test tells it.

async with scene(tmp_path) as here:
    here.engine.plays(says("Hello."))
    answer = await here.client.post("/v1/responses", json={"model": "demo", "input": "Hi"})
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from jackfield.gateway.gateway import Gateway
from jackfield.gateway.server import build_app
from jackfield.http.streams import Streams
from jackfield.model.items import FunctionCall, Item, Message, OutputText, Usage
from jackfield.model.principal import Principal
from jackfield.model.response_request import CreateResponse
from jackfield.responses.run import ResumedRun
from jackfield.runs import events
from jackfield.runs.events import Emit, Ended, OutputTextDelta, RunItemAdded, RunItemDone, RunStarted
from jackfield.runs.state import LoopJournal
from jackfield.settings import load_settings
from tests.waiting import TIMEOUT, eventually_async

WITHIN = TIMEOUT
ADMIN_KEY = "admin-key"
CONFIG = """\
[models.demo]
provider = "scripted"
script = "demo.toml"

[auth.keys.ada]
key = "ada-key"
scopes = ["call"]

[auth.keys.rival]
key = "rival-key"
scopes = ["call"]

[auth.keys.reader]
key = "reader-key"
scopes = ["read"]
"""

Play = Callable[[Emit], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the engine was asked to do."""

    request: CreateResponse
    response_id: str
    principal: Principal
    history: tuple[Item, ...]


@dataclass
class FakeEngine:
    """Plays one play after the other."""

    asked: list[Asked] = field(default_factory=list)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: list[Play] = field(default_factory=list)

    def plays(self, *plays: Play) -> None:
        self.waiting += plays

    async def respond(
        self,
        request: CreateResponse,
        *,
        response_id: str,
        principal: Principal,
        history: tuple[Item, ...],
        emit: Emit,
        journal: LoopJournal | None = None,
        resumed: ResumedRun | None = None,
    ) -> None:
        del journal, resumed
        self.asked.append(Asked(request=request, response_id=response_id, principal=principal, history=history))
        self.was_asked.set()
        try:
            await self.waiting.pop(0)(emit)
        except asyncio.CancelledError:
            self.stopped.set()
            raise

    async def with_resources(
        self, request: CreateResponse, *, response_id: str, principal: Principal
    ) -> CreateResponse:
        del response_id, principal
        return request

    async def check(self, request: CreateResponse, *, principal: Principal, history: tuple[Item, ...]) -> None:
        del request, principal, history

    async def measure(self, request: CreateResponse, *, principal: Principal, history: tuple[Item, ...]) -> int:
        del principal
        return len(history) + len(request.input)


@dataclass(frozen=True, kw_only=True)
class Scene:
    gateway: Gateway
    engine: FakeEngine
    client: httpx2.AsyncClient
    """With Ada's key."""
    url: str
    streams: Streams

    async def stop(self) -> None:
        """What a server does with its streams when it stops."""
        self.streams.close()
        await self.streams.finish(within=0.05)

    async def create(self, status: int = 200, **body: Any) -> dict[str, Any]:
        answer = await self.client.post("/v1/responses", json={"model": "demo", "input": "Hi", **body})
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def stream(self, *, names: str | None = None, **body: Any) -> list[dict[str, Any]]:
        """All events of a streamed response; that the stream ends as it must is checked. `names`: whose names."""
        body = {"model": "demo", "input": "Hi", "stream": True, **body}
        headers = {} if names is None else {"jackfield-events": names}
        async with self.client.stream("POST", "/v1/responses", json=body, headers=headers) as answer:
            assert answer.status_code == 200
            return events_of((await answer.aread()).decode())

    async def again(self, response_id: str, after: int | None = None) -> list[dict[str, Any]]:
        query = "?stream=true" + ("" if after is None else f"&starting_after={after}")
        answer = await self.client.get(f"/v1/responses/{response_id}{query}")
        assert answer.status_code == 200, answer.text
        return events_of(answer.text)

    async def get(self, path: str, status: int = 200, key: str | None = None) -> dict[str, Any]:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        answer = await self.client.get(f"/v1/responses/{path}", headers=headers)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def until_ended(self, response_id: str) -> dict[str, Any]:
        """Poll, as clients of background responses do."""

        async def ended() -> dict[str, Any] | None:
            found = await self.get(response_id)
            return None if found["status"] in ("queued", "in_progress") else found

        return await eventually_async(ended)


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a stream, each `event:` the same as its body's type, ended by `[DONE]`."""
    *blocks, done, rest = text.split("\n\n")
    assert rest == ""
    assert done == "data: [DONE]"
    assert "\r" not in text
    found = []
    for block in blocks:
        if block.startswith(":"):
            continue
        event, data = block.split("\n")
        body = json.loads(data.removeprefix("data: "))
        assert event == f"event: {body['type']}"
        found.append(body)
    return found


def gateway_in(folder: Path, *, store: str) -> Gateway:
    (folder / "jackfield.toml").write_text(CONFIG)
    (folder / "demo.toml").write_text('[[turns]]\nsay = "Hello."\n')
    environment = {"JACKFIELD_ADMIN_KEY": ADMIN_KEY, "JACKFIELD_STORE": store}
    return Gateway(load_settings(folder / "jackfield.toml", environment=environment))


@asynccontextmanager
async def scene(folder: Path, *, store: str = "memory:", plays: Sequence[Play] = ()) -> AsyncIterator[Scene]:
    """`plays` are there before anything begins: what a gateway before has left goes on at once."""
    engine = FakeEngine()
    engine.plays(*plays)
    streams = Streams()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with gateway_in(folder, store=store) as gateway:
            app = build_app(gateway, streams=streams, engine=engine)
            settings = uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, ws="websockets-sansio")
            server = uvicorn.Server(settings)
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0)
            headers = {"authorization": "Bearer ada-key"}
            # Without TLS there is nothing to verify, and reading the certificates of the world takes its time.
            async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=WITHIN, verify=False) as client:
                yield Scene(gateway=gateway, engine=engine, client=client, url=url, streams=streams)
            streams.close()
            await server.shutdown([listener])
            serving.cancel()
            await asyncio.wait((serving,))
            await streams.finish(within=0.05)


def message(text: str, *, number: int = 0) -> list[events.LoopEvent]:
    """A message at `number`, said in two pieces."""
    begun = Message(id=f"msg_{number}", role="assistant", status="in_progress")
    done = Message(id=f"msg_{number}", role="assistant", content=(OutputText(text=text),))
    middle = len(text) // 2
    return [
        RunItemAdded(number, begun),
        OutputTextDelta(number, text[:middle]),
        OutputTextDelta(number, text[middle:]),
        RunItemDone(number, done),
    ]


def function_call(name: str, call_id: str, arguments: str = "{}", *, number: int = 0) -> list[events.LoopEvent]:
    begun = FunctionCall(id=f"fc_{call_id}", call_id=call_id, name=name, arguments="", status="in_progress")
    done = FunctionCall(id=f"fc_{call_id}", call_id=call_id, name=name, arguments=arguments)
    return [RunItemAdded(number, begun), events.ArgumentsDelta(number, arguments), RunItemDone(number, done)]


def tells(*told: events.LoopEvent, status: events.EndStatus = "completed") -> Play:
    """A run that tells these and ends."""

    async def play(emit: Emit) -> None:
        for event in (
            RunStarted(),
            *told,
            Ended(status=status, usage=Usage(input_tokens=3, output_tokens=4, total_tokens=7)),
        ):
            emit(event)
            await asyncio.sleep(0)

    return play


def says(text: str) -> Play:
    return tells(*message(text))


def held(gate: asyncio.Event, *before: events.LoopEvent, after: tuple[events.LoopEvent, ...] = ()) -> Play:
    """A run that tells something, waits until the gate is open, tells the rest and ends."""

    async def play(emit: Emit) -> None:
        for event in (RunStarted(), *before):
            emit(event)
        await gate.wait()
        for event in (*after, Ended(status="completed")):
            emit(event)

    return play


def refuses(error: Exception) -> Play:
    """A run that is refused before it begins."""

    async def play(_emit: Emit) -> None:
        raise error

    return play
