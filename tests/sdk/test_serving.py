"""A tool server against a scripted gateway: for breaks, lost replies and repeats that a healthy one seldom shows."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jackfield.protocol.backoff import RetryDelays, backoff
from jackfield.sdk import Client, Forbidden, GatewayFault, ServedTool, progress
from jackfield.sdk import serving as serving_module
from jackfield.sdk.serving import FIRST_PAUSE, INTERRUPTED, LONGEST_PAUSE, NOT_BEGUN
from tests.sdk.server import Handler, ScriptedGateway, refuses, says, streams, until
from tests.waiting import TIMEOUT

STREAM = "/api/tools/stream"
RESULTS = "/api/runs/run_1/tool-results"
RECORD = "/api/v1/calls/call_1"
BEGIN = f"{RECORD}/progress"
TAKEN = {"success": True, "callId": "call_1", "agentEntityId": None, "delivery": "inline"}
WITHIN = TIMEOUT


def frame(**data: Any) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def offer(call_id: str = "call_1", tool: str = "add", *, attempt: int = 1, **args: Any) -> bytes:
    return frame(
        type="tool.call",
        toolCallId=call_id,
        toolName=tool,
        args=args,
        runId="run_1",
        agentEntityId=None,
        deadline=None,
        ts="2026-01-01T12:00:00.000Z",
        attempt=attempt,
    )


CONNECTED = frame(type="connected", client="c", ts="2026-01-01T12:00:00.000Z")


def record(*, created_at: str = "2026-01-01T11:00:00.000Z", status: str = "waiting") -> Handler:
    call = {"id": "call_1", "tool": "add", "status": status, "run_id": "run_1", "created_at": created_at}
    return says({"call": call})


class Scene:
    """A scripted gateway with one client serving at it."""

    def __init__(self, gateway: ScriptedGateway, client: Client) -> None:
        self.gateway = gateway
        self.client = client

    def offers(self, *rounds: tuple[bytes, ...]) -> None:
        """Each connection of the server gets one round of frames and breaks; the last one stays open."""
        *early, last = rounds
        self.gateway.on(STREAM, *(streams(CONNECTED, *frames) for frames in early), self.stays_open(*last))

    def stays_open(self, *frames: bytes) -> Handler:
        async def hold() -> None:
            await asyncio.to_thread(self.gateway.ended.wait, 30)

        return streams(CONNECTED, *frames, then=hold)

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in self.gateway.seen if request.path == RESULTS]

    def asked(self, path: str) -> int:
        return sum(request.path == path for request in self.gateway.seen)

    @asynccontextmanager
    async def serving(self, functions: Any, **options: Any) -> AsyncIterator["asyncio.Task[None]"]:
        task = asyncio.create_task(self.client.tools.serve(functions, **{"grace": 5.0, **options}))
        try:
            yield task
        finally:
            self.gateway.ended.set()
            task.cancel()
            await asyncio.wait((task,), timeout=WITHIN)


@pytest.fixture
async def scene(scripted: ScriptedGateway, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(serving_module, "FIRST_PAUSE", 0.01)
    scripted.on(RESULTS, says(TAKEN))
    for number in range(8):
        scripted.on(f"/api/v1/calls/call_{number}/progress", says({}))
    async with Client(scripted.url, "k", retries=0) as client:
        yield Scene(scripted, client)
        scripted.ended.set()


def add(a: int, b: int = 2) -> int:
    return a + b


async def test_a_call_is_answered_with_its_run_and_its_id(scene: Scene) -> None:
    scene.offers((offer(a=1),))
    async with scene.serving([add], client_id="adder", concurrency=30):
        await until(lambda: scene.answers)
    assert scene.answers == [{"callId": "call_1", "result": 3}]
    first = scene.gateway.seen[0]
    assert (first.query, first.headers["authorization"]) == (
        {"tools": "add", "client": "adder", "limit": "30"},
        "Bearer k",
    )


async def test_a_failure_is_answered_as_an_error_and_a_tool_that_is_not_served_too(scene: Scene) -> None:
    def fail() -> None:
        raise ValueError("too hot")

    scene.offers((offer(tool="fail"), offer("call_2", tool="other")))
    async with scene.serving([fail]):
        await until(lambda: len(scene.answers) == 2)
    said = {answer["callId"]: answer["error"] for answer in scene.answers}
    assert said == {"call_1": "ValueError: too hot", "call_2": "This tool server does not serve 'other'."}


async def test_a_call_that_is_offered_again_while_it_runs_is_begun_once(scene: Scene) -> None:
    release = threading.Event()
    begun: list[int] = []

    def slow(a: int) -> int:
        begun.append(a)
        release.wait(WITHIN)
        return a

    again = offer(tool="slow", attempt=2, a=1)
    scene.offers((offer(tool="slow", a=1), again), (again,), (again, again))
    async with scene.serving([slow]):
        await until(lambda: scene.asked(STREAM) == 3)
        release.set()
        await until(lambda: scene.answers)
    assert (begun, scene.answers) == ([1], [{"callId": "call_1", "result": 1}])


async def test_an_answer_whose_reply_is_lost_is_sent_again_and_a_409_ends_it(scene: Scene) -> None:
    scene.offers((offer(a=1),))
    scene.gateway.on(RESULTS, streams(b"", breaks=True), refuses(503, "store_busy"), refuses(409, "already_resolved"))
    async with scene.serving([add]):
        await until(lambda: len(scene.answers) == 3)
    assert scene.answers == [{"callId": "call_1", "result": 3}] * 3


async def test_an_unsent_answer_goes_out_at_once_when_the_call_is_offered_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    class FirstForever(RetryDelays):
        def next(self) -> float:
            pauses.append(0.01 if pauses else 600.0)
            return pauses[-1]

    async def answer_was_lost() -> None:
        await until(lambda: pauses)

    monkeypatch.setattr(serving_module, "RetryDelays", FirstForever)
    scene.gateway.on(RESULTS, streams(b"", breaks=True), says(TAKEN))
    scene.gateway.on(
        STREAM, streams(CONNECTED, offer(a=1), then=answer_was_lost), scene.stays_open(offer(attempt=2, a=1))
    )
    async with scene.serving([add]):
        await until(lambda: len(scene.answers) == 2)
    assert scene.answers == [{"callId": "call_1", "result": 3}] * 2


async def test_a_result_that_is_not_taken_is_answered_as_an_error(scene: Scene) -> None:
    scene.offers((offer(a=1),))
    scene.gateway.on(RESULTS, refuses(400, "invalid_request", "It must be text."), says(TAKEN))
    async with scene.serving([add]):
        await until(lambda: len(scene.answers) == 2)
    assert scene.answers[1] == {"callId": "call_1", "error": "The result of 'add' was not taken: It must be text."}


class TestCallsOfAServerBefore:
    """A second offer of a call that this process has not begun."""

    @pytest.mark.parametrize(
        ("created_at", "answer"),
        [
            ("2026-01-01T11:00:00.000Z", {"callId": "call_1", "error": INTERRUPTED}),
            ("2026-01-01T12:00:00.000Z", {"callId": "call_1", "result": 3}),
        ],
    )
    async def test_one_that_is_older_than_this_process_is_not_run(
        self, scene: Scene, created_at: str, answer: dict[str, Any]
    ) -> None:
        scene.offers((offer(attempt=2, a=1),))
        scene.gateway.on(RECORD, record(created_at=created_at))
        scene.gateway.on("/api/v1/tools/add", says({"name": "add", "metadata": {"idempotent": False}}))
        async with scene.serving([add]):
            await until(lambda: scene.answers)
        assert scene.answers == [answer]

    async def test_one_whose_age_is_not_told_is_not_run(self, scene: Scene) -> None:
        scene.offers((offer(attempt=2, a=1),))
        scene.gateway.on(RECORD, refuses(404, "call_not_found"))
        async with scene.serving([add]):
            await until(lambda: scene.answers)
        assert scene.answers == [{"callId": "call_1", "error": INTERRUPTED}]

    @pytest.mark.parametrize("by", ["the gateway", "the server", "the declaration"])
    async def test_an_idempotent_one_is_run(self, scene: Scene, by: str) -> None:
        scene.offers((offer(attempt=2, a=1),))
        scene.gateway.on(RECORD, record())
        scene.gateway.on("/api/v1/tools/add", says({"name": "add", "metadata": {"idempotent": by == "the gateway"}}))
        scene.gateway.on("/api/v1/sources/maths/tools", says({"source": "maths", "tools": [], "count": 0}))
        tool = add if by == "the gateway" else ServedTool(function=add, idempotent=True)
        async with scene.serving([tool], declare="maths" if by == "the declaration" else None):
            await until(lambda: scene.answers)
        assert scene.answers == [{"callId": "call_1", "result": 3}]


class TestBeginning:
    """What may not run twice is begun after the gateway has said that nobody else has it."""

    @staticmethod
    def claims(scene: Scene) -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in scene.gateway.seen if request.path == BEGIN]

    async def test_a_call_that_another_server_has_is_not_begun_and_may_come_back(self, scene: Scene) -> None:
        refused = asyncio.Event()

        async def first_refused() -> None:
            await until(lambda: scene.asked(BEGIN) == 1)
            refused.set()

        scene.gateway.on(BEGIN, refuses(409, "conflict"), says({}))
        scene.gateway.on(RECORD, record(created_at="2026-01-01T12:00:00.000Z"))
        scene.gateway.on(
            STREAM, streams(CONNECTED, offer(a=1), then=first_refused), scene.stays_open(offer(attempt=3, a=1))
        )
        async with scene.serving([add]):
            await asyncio.wait_for(refused.wait(), WITHIN)
            await until(lambda: scene.answers)
        assert self.claims(scene) == [{"progress": 0, "attempt": 1}, {"progress": 0, "attempt": 3}]
        assert scene.answers == [{"callId": "call_1", "result": 3}]

    async def test_a_lost_reply_is_asked_for_again_under_the_same_offer(self, scene: Scene) -> None:
        scene.offers((offer(a=1),))
        scene.gateway.on(BEGIN, streams(b"", breaks=True), refuses(503, "store_busy"), says({}))
        async with scene.serving([add]):
            await until(lambda: scene.answers)
        assert self.claims(scene) == [{"progress": 0, "attempt": 1}] * 3

    async def test_an_offer_that_was_not_taken_is_followed_by_the_newest(self, scene: Scene) -> None:
        offered_again = asyncio.Event()

        async def asked_once() -> None:
            await until(lambda: scene.asked(BEGIN) == 1)

        async def lost_until_the_next_offer(request: Request) -> Response:
            """The first request never arrives, and the stream breaks with it."""
            await asyncio.wait_for(offered_again.wait(), WITHIN)
            return await refuses(503, "store_busy")(request)

        async def hold() -> None:
            offered_again.set()
            await asyncio.to_thread(scene.gateway.ended.wait, 30)

        # The second offer may arrive before the refusal or after it.
        scene.gateway.on(RECORD, record(created_at="2026-01-01T12:00:00.000Z"))
        scene.gateway.on(BEGIN, lost_until_the_next_offer, refuses(409, "conflict"), says({}))
        again = streams(CONNECTED, offer(attempt=2, a=1), then=hold)
        scene.gateway.on(STREAM, streams(CONNECTED, offer(a=1), then=asked_once), again)
        async with scene.serving([add]):
            await until(lambda: scene.answers)
        assert [claim["attempt"] for claim in self.claims(scene)] == [1, 1, 2]

    async def test_one_that_is_over_is_not_begun(self, scene: Scene) -> None:
        begun: list[int] = []

        def note(a: int) -> None:
            begun.append(a)

        scene.gateway.on(BEGIN, refuses(409, "already_resolved"))
        scene.offers((offer(tool="note", a=1), offer("call_2", tool="note", a=2)))
        async with scene.serving([note]):
            await until(lambda: scene.answers)
        assert begun == [2]

    async def test_what_may_run_twice_is_begun_without_asking(self, scene: Scene) -> None:
        scene.offers((offer(a=1),))
        async with scene.serving([ServedTool(function=add, idempotent=True)]):
            await until(lambda: scene.answers)
        assert scene.asked(BEGIN) == 0


class TestConnecting:
    async def test_a_server_that_could_run_nothing_is_refused(self, scene: Scene) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            await scene.client.tools.serve([add], concurrency=0)

    async def test_a_gateway_that_refuses_ends_the_serving_with_its_error(self, scene: Scene) -> None:
        scene.gateway.on(STREAM, refuses(403, "forbidden", "Key 'k' may not serve 'add'."))
        with pytest.raises(Forbidden, match="may not serve"):
            await scene.client.tools.serve([add])

    async def test_what_is_no_gateway_is_said_at_once_but_a_fault_later_is_waited_out(self, scene: Scene) -> None:
        scene.gateway.on(STREAM, says("hello", status=500))
        with pytest.raises(GatewayFault):
            await scene.client.tools.serve([add])
        scene.gateway.on(
            STREAM,
            streams(CONNECTED),
            says("oops", status=500),
            refuses(503, "not_ready"),
            scene.stays_open(offer(a=1)),
        )
        async with scene.serving([add]):
            await until(lambda: scene.answers)

    async def test_the_tools_are_declared_before_each_connection(self, scene: Scene) -> None:
        scene.gateway.on("/api/v1/sources/maths/tools", says({"source": "maths", "tools": [], "count": 1}))
        scene.offers((), ())
        async with scene.serving([add], declare="maths"):
            await until(lambda: scene.asked(STREAM) == 2)
        declared = [request for request in scene.gateway.seen if request.path == "/api/v1/sources/maths/tools"]
        assert [request.path for request in scene.gateway.seen][:4] == [declared[0].path, STREAM] * 2
        (tool,) = json.loads(declared[0].body)["tools"]
        assert (tool["name"], tool["inputSchema"]["required"], declared[0].method) == ("add", ["a"], "PUT")

    async def test_the_program_is_told_when_it_is_connected(self, scene: Scene) -> None:
        connected = asyncio.Event()
        scene.offers((), ())
        async with scene.serving([add], on_connected=connected.set):
            await asyncio.wait_for(connected.wait(), WITHIN)

    def test_pauses_double_from_half_a_second_to_thirty(self) -> None:
        pauses = [backoff(attempt, first=FIRST_PAUSE, longest=LONGEST_PAUSE) for attempt in range(12)]
        tops = [min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE) for attempt in range(12)]
        assert all(top / 2 <= pause <= top for pause, top in zip(pauses, tops, strict=True))
        assert (tops[0], tops[-1]) == (0.5, 30.0)


async def test_a_server_is_not_held_up_by_the_calls_that_its_own_client_waits_for(scene: Scene) -> None:
    answered = threading.Event()

    async def held(_request: Request) -> Response:
        await until(answered.is_set, within=60)
        return JSONResponse({"success": True, "call_id": "call_1", "status": "completed", "result": 3})

    async def taken(request: Request) -> Response:
        answered.set()
        return await says(TAKEN)(request)

    scene.gateway.on("/api/v1/tools/add/execute", held)
    scene.gateway.on(RESULTS, taken)
    scene.offers((offer(a=1),))
    calls = [asyncio.create_task(scene.client.tools.call("add")) for _ in range(300)]
    await until(lambda: scene.asked("/api/v1/tools/add/execute") >= 250, within=60)
    async with scene.serving([add]), asyncio.timeout(120):
        assert await asyncio.gather(*calls) == [3] * 300


async def test_no_more_than_the_given_number_run_at_once(scene: Scene) -> None:
    running, most = 0, 0
    gate = asyncio.Event()

    async def count(a: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1
        return a

    scene.offers(tuple(offer(f"call_{number}", "count", a=number) for number in range(7)))
    async with scene.serving([count], concurrency=3):
        await until(lambda: running == 3)
        gate.set()
        await until(lambda: len(scene.answers) == 7)
    assert most == 3


async def test_a_call_that_queued_long_is_not_begun_when_it_is_settled_by_then(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_module, "LONG_QUEUE", 0.0)
    begun: list[int] = []

    async def count(a: int) -> int:
        begun.append(a)
        return a

    scene.offers((offer(tool="count", a=1), offer("call_2", "count", a=2)))
    scene.gateway.on(RECORD, record(status="cancelled"))
    scene.gateway.on("/api/v1/calls/call_2", record())
    async with scene.serving([count]):
        await until(lambda: scene.answers)
    assert (begun, [answer["callId"] for answer in scene.answers]) == ([2], ["call_2"])


async def test_progress_is_sent_before_the_answer(scene: Scene) -> None:
    def work() -> str:
        progress(1, 2, "half way")
        return "done"

    scene.offers((offer(tool="work"),))
    async with scene.serving([work]):
        await until(lambda: scene.answers)
    posted = [(request.path, json.loads(request.body)) for request in scene.gateway.seen if request.method == "POST"]
    assert posted == [
        (BEGIN, {"progress": 0, "attempt": 1}),
        (BEGIN, {"progress": 1.0, "total": 2.0, "message": "half way", "attempt": 1}),
        (RESULTS, {"callId": "call_1", "result": "done"}),
    ]


class TestStopping:
    async def test_a_running_call_may_end_within_the_grace(self, scene: Scene) -> None:
        begun, release = asyncio.Event(), asyncio.Event()

        async def slow() -> str:
            begun.set()
            await release.wait()
            return "done"

        scene.offers((offer(tool="slow"),))
        task = asyncio.create_task(scene.client.tools.serve([slow], grace=WITHIN))
        await asyncio.wait_for(begun.wait(), WITHIN)
        task.cancel()
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert scene.answers == [{"callId": "call_1", "result": "done"}]

    @pytest.mark.parametrize("kind", ["async", "thread"])
    async def test_calls_that_are_given_up_are_answered_so_and_those_not_begun_too(
        self, scene: Scene, kind: str
    ) -> None:
        begun, release = threading.Event(), threading.Event()

        async def slow() -> None:
            begun.set()
            await asyncio.sleep(60)

        def stuck() -> None:
            begun.set()
            release.wait(WITHIN)

        function: Callable[[], Awaitable[None] | None] = slow if kind == "async" else stuck
        scene.gateway.on("/api/v1/tools/work", says({"name": "work"}))
        scene.offers((offer(tool="work") + offer("call_2", tool="work"),))  # in one piece: it has both
        task = asyncio.create_task(scene.client.tools.serve({"work": function}, concurrency=1, grace=0))
        await asyncio.to_thread(begun.wait, WITHIN)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        said = {answer["callId"]: answer["error"] for answer in scene.answers}
        assert said == {"call_1": INTERRUPTED, "call_2": NOT_BEGUN}

    async def test_an_idempotent_call_is_left_to_another_server(self, scene: Scene) -> None:
        begun = asyncio.Event()

        async def slow() -> None:
            begun.set()
            await asyncio.sleep(60)

        scene.offers((offer(tool="slow"),))
        tool = ServedTool(function=slow, idempotent=True)
        task = asyncio.create_task(scene.client.tools.serve([tool], grace=0))
        await asyncio.wait_for(begun.wait(), WITHIN)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert scene.answers == []
