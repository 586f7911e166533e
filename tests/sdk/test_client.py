import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from jackfield.sdk import (
    CallEvent,
    CallPending,
    CallRecord,
    Client,
    GatewayFault,
    GatewayUnreachable,
    NoAnswer,
    RateLimited,
    SourceUnavailable,
    SyncClient,
    ToolFailed,
    ToolInfo,
    ToolNotFound,
    ToolsChanged,
)
from tests.harness.process import free_port
from tests.sdk.server import BreakingServer, ScriptedGateway, refuses, says, streams

EXECUTE = "/api/v1/tools/add/execute"
DONE = {
    "success": True,
    "call_id": "call_1",
    "run_id": "run_1",
    "status": "completed",
    "result": 3,
    "error": None,
    "execution_time_ms": 1.5,
}
FAILED = {**DONE, "success": False, "status": "failed", "result": None, "error": {"code": "boom", "message": "Bang."}}
ADD = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}, "source": "local", "version": "v1"}
RECORD = {"id": "call_1", "tool": "add", "status": "completed", "result": 3, "arguments": {"a": 1}}


def event(kind: str, data: object, number: int | None = None) -> bytes:
    identity = f"id: {number}\n" if number is not None else ""
    return f"{identity}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


@pytest.fixture
async def client(scripted: ScriptedGateway) -> AsyncIterator[Client]:
    async with Client(scripted.url, "the-key", retries=2) as client:
        yield client


class TestCalling:
    async def test_arguments_come_as_a_mapping_as_keywords_or_both(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on(EXECUTE, says(DONE))
        assert await client.tools.call("add", {"a": 1}, b=2) == 3
        assert json.loads(scripted.seen[0].body) == {"arguments": {"a": 1, "b": 2}}

    async def test_an_argument_given_twice_is_a_mistake_of_the_program(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        with pytest.raises(TypeError, match="'a' is given twice"):
            await client.tools.call("add", {"a": 1}, a=2)
        assert scripted.seen == []

    async def test_a_call_says_whose_it_is_and_carries_its_key(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on(EXECUTE, says(DONE))
        await client.tools.call(
            "add", agent="ann", space_id="lobby", chat_id="chat", run_id="run_1", idempotency_key="once"
        )
        request = scripted.seen[0]
        assert json.loads(request.body) == {
            "arguments": {},
            "agent": "ann",
            "space_id": "lobby",
            "chat_id": "chat",
            "run_id": "run_1",
        }
        assert request.headers["idempotency-key"] == "once"
        assert request.headers["authorization"] == "Bearer the-key"
        assert request.headers["content-type"] == "application/json"

    async def test_a_foreign_spelling_stays_one_part_of_the_path(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on("/api/v1/tools/a%2Fb%20c%3F/execute", says(DONE))
        assert await client.tools.call("a/b c?") == 3

    async def test_a_failed_tool_raises_and_start_does_not(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on(EXECUTE, says(FAILED))
        with pytest.raises(ToolFailed, match="Bang") as raised:
            await client.tools.call("add")
        assert (raised.value.code, raised.value.call_id) == ("boom", "call_1")
        answer = await client.tools.start("add")
        assert (answer.success, answer.status, answer.is_settled) == (False, "failed", True)

    async def test_a_pending_call_raises_and_start_does_not(self, scripted: ScriptedGateway, client: Client) -> None:
        waiting = {**DONE, "success": False, "status": "pending_approval", "result": {"status": "pending_approval"}}
        scripted.on(EXECUTE, says(waiting, status=202))
        with pytest.raises(CallPending, match="call_1"):
            await client.tools.call("add")
        answer = await client.tools.start("add")
        assert (answer.status, answer.is_settled) == ("pending_approval", False)

    async def test_a_refusal_is_the_class_of_its_code(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on(EXECUTE, refuses(404, "tool_not_found", "There is no tool 'add'."))
        with pytest.raises(ToolNotFound, match="There is no tool 'add'"):
            await client.tools.call("add")

    async def test_waiting_ends_when_the_given_time_is_over(self, scripted: ScriptedGateway, client: Client) -> None:
        async def never(_request: Request) -> Response:
            await asyncio.to_thread(scripted.ended.wait, 30)
            return Response()

        scripted.on(EXECUTE, never)
        with pytest.raises(NoAnswer, match=r"within 0\.2 s"):
            await client.tools.call("add", timeout=0.2)
        with pytest.raises(TimeoutError):
            await client.tools.call("add", timeout=0.1, on_event=print)
        scripted.ended.set()

    async def test_events_are_told_while_the_call_runs_and_the_answer_ends_it(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        told: list[CallEvent] = []
        scripted.on(
            EXECUTE,
            streams(
                event("call.started", {"type": "call.started", "call_id": "call_1", "tool": "add"}),
                b": ping\n\n",
                event("call.progress", {"type": "call.progress", "progress": {"progress": 1, "total": 2}}),
                event("call.result", DONE),
            ),
        )
        assert await client.tools.call("add", on_event=told.append) == 3
        assert [(e.type, e.progress and e.progress.total) for e in told] == [
            ("call.started", None),
            ("call.progress", 2),
        ]
        assert scripted.seen[0].headers["accept"] == "text/event-stream"

    async def test_a_refusal_of_a_watched_call_is_the_same_class(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on(EXECUTE, refuses(503, "source_unavailable", "'local' is down."))
        with pytest.raises(SourceUnavailable, match="'local' is down"):
            await client.tools.call("add", on_event=print)

    async def test_a_stream_that_ends_without_the_answer_is_a_fault(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on(EXECUTE, streams(b": nothing\n\n"))
        with pytest.raises(GatewayFault, match="without its answer"):
            await client.tools.call("add", on_event=print)


class TestReading:
    async def test_a_newer_gateways_fields_are_ignored_and_an_older_ones_have_defaults(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on("/api/v1/tools/add", says({"name": "add", "tomorrow": 1, "metadata": {"also": 2}}))
        assert await client.tools.get("add") == ToolInfo(name="add")

    async def test_a_list_that_has_not_changed_is_not_sent_again(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        not_modified = Response(status_code=304)

        async def second(_request: Request) -> Response:
            return not_modified

        scripted.on("/api/v1/tools", says({"tools": [ADD]}, headers={"ETag": '"one"'}), second)
        first = await client.tools.list()
        assert await client.tools.list() == first
        assert [tool.name for tool in first] == ["add"]
        assert [request.headers.get("if-none-match") for request in scripted.seen] == [None, '"one"']

    async def test_search_sends_its_words_and_its_limit(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on("/api/v1/tools/search", says({"tools": [ADD]}))
        assert [tool.name for tool in await client.tools.search("ad & d", limit=3)] == ["add"]
        assert scripted.seen[0].query == {"q": "ad & d", "limit": "3"}

    async def test_all_pages_are_walked_and_only_what_is_asked_is_sent(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on(
            "/api/v1/calls",
            says({"calls": [RECORD], "next_cursor": "c2"}),
            says({"calls": [{**RECORD, "id": "call_2"}], "next_cursor": None}),
        )
        assert [call.id async for call in client.calls.iterate(tool="add", page_size=1)] == ["call_1", "call_2"]
        assert [request.query for request in scripted.seen] == [
            {"tool": "add", "limit": "1"},
            {"tool": "add", "limit": "1", "cursor": "c2"},
        ]

    async def test_one_record_and_cancel_come_out_of_their_envelope(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on("/api/v1/calls/call_1", says({"call": RECORD}))
        scripted.on("/api/v1/calls/call_1/cancel", says({"call": {**RECORD, "status": "cancelled"}}))
        assert await client.calls.get("call_1") == CallRecord(
            id="call_1", tool="add", status="completed", result=3, arguments={"a": 1}
        )
        assert (await client.calls.cancel("call_1")).status == "cancelled"
        assert [request.method for request in scripted.seen] == ["GET", "POST"]

    async def test_readiness_is_an_answer_also_when_it_is_no(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on("/readyz", says({"status": "starting", "store": "ok", "sources": []}, status=503))
        readiness = await client.ready()
        assert (readiness.status, readiness.is_ready) == ("starting", False)

    async def test_an_answer_of_another_shape_is_a_fault(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on("/api/v1/calls", says([1, 2]))
        with pytest.raises(GatewayFault, match="not a valid CallPage"):
            await client.calls.list()

    async def test_a_redirect_is_not_followed_with_the_key(self, scripted: ScriptedGateway, client: Client) -> None:
        async def elsewhere(_request: Request) -> Response:
            return RedirectResponse("http://127.0.0.1:9/api/v1/calls")

        scripted.on("/api/v1/calls", elsewhere)
        with pytest.raises(GatewayFault, match=r"http://127\.0\.0\.1:9/api/v1/calls"):
            await client.calls.list()


class TestLostConnections:
    async def test_nobody_there_is_said_with_the_url_and_the_cure(self) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        async with Client(url, "k") as client:
            with pytest.raises(GatewayUnreachable, match=f"{url}.*jackfield serve"):
                await client.tools.list()

    async def test_a_get_is_sent_again_after_a_lost_connection(self, breaking: BreakingServer) -> None:
        async with Client(breaking.url, "k", retries=2) as client:
            assert [tool.name for tool in await client.tools.list()] == ["add"]
        assert breaking.connections == 3

    async def test_a_get_is_given_up_after_the_last_try(self, breaking: BreakingServer) -> None:
        async with Client(breaking.url, "k", retries=1) as client:
            with pytest.raises(GatewayUnreachable, match="broke"):
                await client.tools.list()
        assert breaking.connections == 2

    async def test_a_call_is_never_sent_twice_unless_it_has_an_idempotency_key(self, breaking: BreakingServer) -> None:
        async with Client(breaking.url, "k", retries=2) as client:
            with pytest.raises(GatewayUnreachable):
                await client.tools.start("add")
            assert breaking.connections == 1
            breaking.connections = 0
            await client.tools.start("add", idempotency_key="once")
        assert breaking.connections == 3


class TestBusyGateways:
    async def test_a_refusal_is_final_unless_waiting_was_asked_for(
        self, scripted: ScriptedGateway, client: Client
    ) -> None:
        scripted.on(EXECUTE, refuses(429, "rate_limited", headers={"Retry-After": "1"}), says(DONE))
        with pytest.raises(RateLimited):
            await client.tools.call("add")
        assert len(scripted.seen) == 1

    async def test_a_busy_gateway_is_asked_again_when_it_said(self, scripted: ScriptedGateway) -> None:
        scripted.on(
            EXECUTE,
            refuses(429, "rate_limited", headers={"Retry-After": "0.01"}),
            refuses(503, "store_busy", headers={"Retry-After": "0.01"}),
            says(DONE),
        )
        async with Client(scripted.url, "k", retry_after=1, retries=2) as client:
            assert await client.tools.call("add") == 3
        assert len(scripted.seen) == 3

    async def test_a_wait_beyond_the_bound_is_not_waited(self, scripted: ScriptedGateway) -> None:
        scripted.on(EXECUTE, refuses(429, "rate_limited", headers={"Retry-After": "60"}))
        async with Client(scripted.url, "k", retry_after=5) as client:
            with pytest.raises(RateLimited) as raised:
                await client.tools.call("add")
        assert raised.value.retry_after == 60
        assert len(scripted.seen) == 1


class TestFollowing:
    async def test_a_stream_goes_on_after_a_break_from_its_last_id(
        self, scripted: ScriptedGateway, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def hold() -> None:
            await asyncio.to_thread(scripted.ended.wait, 30)

        first, second = ({"added": [name], "removed": [], "changed": [], "version": name} for name in "ab")
        scripted.on(
            "/api/v1/tools/changes",
            streams(b"retry: 1\n\n", event("tools.changed", first, 1), b"id: 2\ndata: ha", breaks=True),
            refuses(503, "not_ready"),
            streams(event("connected", {}), event("tools.changed", second, 2), then=hold),
        )
        seen = []
        async with asyncio.timeout(20), aclosing(client.tools.follow()) as changes:
            async for change in changes:
                seen.append(change)
                if len(seen) == 2:
                    break
        scripted.ended.set()
        assert seen == [ToolsChanged(added=("a",), version="a"), ToolsChanged(added=("b",), version="b")]
        assert [request.headers.get("last-event-id") for request in scripted.seen] == [None, "1", "1"]
        assert "Reconnecting" in caplog.text

    async def test_a_wrong_key_is_said_at_once(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on("/api/v1/calls/stream", refuses(401, "unauthenticated", "That key is unknown."))
        with pytest.raises(Exception, match="That key is unknown"):
            await anext(client.calls.follow())
        assert len(scripted.seen) == 1

    async def test_a_gateway_that_is_away_from_the_start_is_said_at_once(self) -> None:
        async with Client(f"http://127.0.0.1:{free_port()}", "k") as client:
            with pytest.raises(GatewayUnreachable):
                await anext(client.tools.follow())

    async def test_a_refusal_after_a_break_ends_the_stream(self, scripted: ScriptedGateway, client: Client) -> None:
        scripted.on(
            "/api/v1/calls/stream",
            streams(b"retry: 1\n\n", event("call.started", {"type": "call.started", "call_id": "c"})),
            refuses(403, "forbidden", "The key was taken away."),
        )
        async with asyncio.timeout(20), aclosing(client.calls.follow(tool="add", agent="ann")) as events:
            assert (await anext(events)).call_id == "c"
            with pytest.raises(Exception, match="The key was taken away"):
                await anext(events)
        assert scripted.seen[0].query == {"tool": "add", "agent": "ann"}


class TestSyncClient:
    def test_the_same_surface_blocks(self, scripted: ScriptedGateway) -> None:
        scripted.on("/api/v1/tools", says({"tools": [ADD]}))
        scripted.on("/api/v1/tools/add", says(ADD))
        scripted.on("/api/v1/tools/search", says({"tools": [ADD]}))
        scripted.on(EXECUTE, says(DONE))
        scripted.on("/api/v1/calls", says({"calls": [RECORD], "next_cursor": None}))
        scripted.on("/api/v1/calls/call_1", says({"call": RECORD}))
        scripted.on("/api/v1/calls/call_1/cancel", says({"call": RECORD}))
        with SyncClient(scripted.url, "k") as client:
            assert client.tools.call("add", a=1, b=2) == 3
            assert client.tools.start("add").status == "completed"
            assert client.tools.list()[0] == client.tools.get("add") == client.tools.search("add")[0]
            assert client.calls.get("call_1") == client.calls.cancel("call_1") == client.calls.list().calls[0]
            assert [call.id for call in client.calls.iterate()] == ["call_1"]

    def test_failures_are_the_same_classes(self, scripted: ScriptedGateway) -> None:
        scripted.on(EXECUTE, says(FAILED), refuses(404, "tool_not_found"))
        with SyncClient(scripted.url, "k") as client:
            with pytest.raises(ToolFailed):
                client.tools.call("add")
            with pytest.raises(ToolNotFound):
                client.tools.call("add")

    def test_leaving_a_stream_closes_it(self, scripted: ScriptedGateway) -> None:
        scripted.on(
            "/api/v1/calls/stream",
            streams(event("call.started", {"type": "call.started", "call_id": "c", "tool": "add"}), b": ping\n\n"),
        )
        with SyncClient(scripted.url, "k") as client:
            events = client.calls.follow()
            assert next(events).call_id == "c"
            events.close()
            assert list(events) == []

    def test_a_closed_client_says_so_and_closing_twice_is_fine(self, scripted: ScriptedGateway) -> None:
        client = SyncClient(scripted.url, "k")
        client.close()
        client.close()
        with pytest.raises(RuntimeError, match="closed"):
            client.tools.list()


def test_no_repr_shows_the_key(scripted: ScriptedGateway) -> None:
    with SyncClient(scripted.url, "secret-key") as client:
        assert "secret-key" not in repr(client) + repr(client._client) + repr(client.tools._tools._connection)


async def test_another_transport_is_another_road_to_the_gateway() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"tools": [{"name": request.headers["authorization"]}]})

    async with Client("http://127.0.0.1:1", "k", transport=httpx2.MockTransport(answer)) as client:
        assert [tool.name for tool in await client.tools.list()] == ["Bearer k"]
