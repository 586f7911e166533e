"""`/mcp` as raw HTTP: what each message is answered with, and what is not one."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jackfield.calls import transactions as call_tx
from jackfield.calls.rows import CallFilter, call_page
from jackfield.mcp.api import accepts_events
from jackfield.protocol.jsonrpc import RpcError
from tests.mcp.scene import BOTH, META, VERSION, Scene, mcp_scene
from tests.requirement import requirement

MODERN = {"mcp-protocol-version": VERSION, "mcp-method": "tools/list"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}


def fault_of(answer: Any) -> tuple[int, int]:
    """The HTTP status and the code of the JSON-RPC error."""
    body = answer.json()
    assert body["jsonrpc"] == "2.0"
    assert body["error"]["message"]
    return answer.status_code, body["error"]["code"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32600),
        (b'{"a":' * 100_000, -32700),
        (b'"text"', -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),  # a batch, and no session
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_is_no_message_is_an_error_of_json_rpc(tmp_path: Path, body: bytes, code: int) -> None:
    async with mcp_scene(tmp_path) as scene:
        answer = await scene.post(body)
        assert fault_of(answer) == (400, code)
        assert answer.json()["id"] is None


async def test_a_message_that_is_nested_absurdly_deep_is_refused(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        deep = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 500 + b"]" * 500 + b"}}"
        assert (await scene.post(deep)).status_code == 400


async def test_a_body_that_is_not_declared_as_json_is_refused(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        assert (await scene.post(LIST, headers={**MODERN, "content-type": "text/plain"})).status_code == 415


async def test_a_client_must_take_json_and_need_not_take_events(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        assert fault_of(await scene.post(LIST, headers={**MODERN, "accept": "text/event-stream"})) == (406, -32600)
        assert (await scene.post(LIST, headers={**MODERN, "accept": "application/json"})).status_code == 200
        quiet = await scene.ask("tools/call", {"name": "steps"}, headers={"accept": "application/json"}, meta=TOKEN)
        assert quiet.headers["content-type"] == "application/json"
        assert quiet.json()["result"]["content"][0]["text"] == "there"


TOKEN = {"progressToken": "p"}


@pytest.mark.parametrize(
    ("accept", "events"),
    [
        (None, False),
        (BOTH.encode(), True),
        (b"*/*", True),
        (b"application/json", False),
        (b"text/*;q=0.1, Application/JSON", True),
    ],
)
def test_what_a_client_accepts(accept: bytes | None, *, events: bool) -> None:
    assert accepts_events(accept) is events


def test_a_client_that_takes_pictures_only_is_refused() -> None:
    with pytest.raises(RpcError):
        accepts_events(b"image/png")


@pytest.mark.parametrize(
    ("headers", "params", "expected"),
    [
        ({}, {"_meta": META}, -32020),
        ({"mcp-protocol-version": VERSION}, {"_meta": META}, -32020),
        ({"mcp-protocol-version": VERSION, "mcp-method": "tools/call"}, {"_meta": META}, -32020),
        ({"mcp-protocol-version": "2025-11-25", "mcp-method": "tools/list"}, {"_meta": META}, -32020),
        (MODERN, {}, -32602),
        (MODERN, {"_meta": {"io.modelcontextprotocol/protocolVersion": VERSION}}, -32602),
        (MODERN, {"_meta": {**META, "io.modelcontextprotocol/clientCapabilities": 1}}, -32602),
        ({**MODERN, "mcp-protocol-version": "2031-01-01"}, {"_meta": META}, -32020),
    ],
)
async def test_a_request_that_contradicts_itself_is_refused(
    tmp_path: Path, headers: dict[str, str], params: dict[str, Any], expected: int
) -> None:
    async with mcp_scene(tmp_path) as scene:
        answer = await scene.post({**LIST, "params": params}, headers=headers)
        assert fault_of(answer) == (400, expected)
        assert answer.json()["id"] == 1


async def test_a_revision_that_is_not_served_is_told_which_one_is(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        meta = {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
        headers = {**MODERN, "mcp-protocol-version": "2031-01-01"}
        answer = await scene.post({**LIST, "params": {"_meta": meta}}, headers=headers)
        assert fault_of(answer) == (400, -32022)
        assert answer.json()["error"]["data"] == {"supported": [VERSION], "requested": "2031-01-01"}


async def test_the_name_in_the_header_must_be_the_one_in_the_body(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        arguments = {"name": "echo", "arguments": {"text": "hi"}}
        assert fault_of(await scene.ask("tools/call", arguments, headers={"mcp-name": "shout"})) == (400, -32020)
        spaced = await scene.ask("tools/call", arguments, headers={"mcp-name": "  echo "})
        assert spaced.json()["result"]["content"] == [{"type": "text", "text": "hi"}]
        coded = await scene.ask("tools/call", arguments, headers={"mcp-name": "=?base64?ZWNobw==?="})
        assert coded.status_code == 200


@pytest.mark.parametrize(
    ("header", "argument", "status"),
    [
        ("eu", "eu", 200),
        (None, None, 200),
        ("=?base64?ZXU=?=", "eu", 200),
        (None, "eu", 400),
        ("eu", None, 400),
        ("us", "eu", 400),
        ("=?base64?!!?=", "eu", 400),
    ],
)
async def test_an_argument_that_stands_in_a_header_too_must_be_the_same_there(
    tmp_path: Path, header: str | None, argument: str | None, status: int
) -> None:
    async with mcp_scene(tmp_path) as scene:
        arguments = {} if argument is None else {"region": argument}
        headers = {} if header is None else {"mcp-param-region": header}
        answer = await scene.ask("tools/call", {"name": "located", "arguments": arguments}, headers=headers)
        assert answer.status_code == status
        if status == 400:
            assert answer.json()["error"]["code"] == -32020


async def test_an_unknown_method_is_404_from_2026_on_and_a_plain_error_before(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        assert fault_of(await scene.ask("no/such")) == (404, -32601)
        assert fault_of(await scene.ask("initialize")) == (404, -32601)
        assert fault_of(await scene.ask("ping")) == (404, -32601)
        session = await scene.shake_hands()
        assert (await scene.ask_in(session, "no/such"))["code"] == -32601
        assert (await scene.ask_in(session, "server/discover"))["code"] == -32601


async def test_an_unknown_tool_is_invalid_params_and_hints_at_the_right_one(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        answer = await scene.ask("tools/call", {"name": "ecko", "arguments": {}})
        assert fault_of(answer) == (400, -32602)
        assert "Did you mean 'echo'?" in answer.json()["error"]["message"]


@pytest.mark.parametrize("params", [{}, {"name": 5}, {"name": "echo", "arguments": [1]}])
async def test_parameters_of_the_wrong_kind_are_invalid_params(tmp_path: Path, params: dict[str, Any]) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        assert (await scene.ask_in(session, "tools/call", **params))["code"] == -32602


async def test_arguments_that_do_not_fit_are_a_result_that_a_model_can_use(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        result = await scene.ask_in(session, "tools/call", name="echo", arguments={"text": 5})
        assert result["isError"] is True
        assert "text must be a string" in result["content"][0]["text"]
        (call,) = (await scene.gateway.store.read(partial(call_page, CallFilter(), limit=5))).calls
        assert (call.tool, call.status.value, call.error and call.error.code) == (
            "echo",
            "refused",
            "invalid_arguments",
        )


async def test_a_notification_or_a_response_gets_no_answer(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        unknown = {"jsonrpc": "2.0", "id": "not asked", "result": {}}
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
        for body in (unknown, told):
            answer = await scene.post(body, headers=session)
            assert (answer.status_code, answer.content) == (202, b"")
        assert (await scene.post(told, headers=MODERN)).status_code == 202
        assert fault_of(await scene.post(unknown, headers=MODERN)) == (400, -32600)


async def test_a_batch_is_answered_as_one_in_the_revision_that_has_batches(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands(protocolVersion="2025-03-26")
        ping = {"jsonrpc": "2.0", "id": "a", "method": "ping"}
        call = {"name": "echo", "arguments": {"text": "hi"}}
        asked = {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": call}
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
        answer = (await scene.post([ping, told, asked], headers=session)).json()
        assert [one["id"] for one in answer] == ["a", "b"]
        assert answer[1]["result"]["content"] == [{"type": "text", "text": "hi"}]
        assert (await scene.post([told], headers=session)).status_code == 202
        for wrong in ([], [5], [ping] * 101, [{"jsonrpc": "2.0", "id": 1, "method": "initialize"}]):
            assert fault_of(await scene.post(wrong, headers=session)) == (400, -32600)
        newer = await scene.shake_hands()
        assert fault_of(await scene.post([ping], headers=newer)) == (400, -32600)


async def test_a_session_that_is_not_known_here_is_404_and_one_that_is_missing_400(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert fault_of(await scene.post(body)) == (400, -32600)
        assert fault_of(await scene.post(body, headers={"mcp-session-id": "other"})) == (404, -32600)
        for method in ("GET", "DELETE"):
            for session, status in ((None, 400), ("other", 404)):
                headers = {"x-api-key": "caller-key"} | ({} if session is None else {"mcp-session-id": session})
                assert fault_of(await scene.http.request(method, "/mcp", headers=headers)) == (status, -32600)


async def test_a_session_belongs_to_the_key_that_opened_it(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await scene.post(body, headers=session)).status_code == 200
        assert (await scene.post(body, key="caller-key", headers=session)).status_code == 404


async def test_a_session_that_was_ended_is_gone(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        ended = await scene.http.delete("/mcp", headers={"x-api-key": "key-of-the-scene", **session})
        assert ended.status_code == 204
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert (await scene.post(body, headers=session)).status_code == 404


async def test_there_is_no_get_from_2026_on(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        answer = await scene.http.get("/mcp", headers={"x-api-key": "caller-key", "mcp-protocol-version": VERSION})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("requested", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2019-01-01"])
async def test_a_handshake_comes_to_the_revision_that_is_asked_for_or_the_latest(
    tmp_path: Path, requested: str
) -> None:
    async with mcp_scene(tmp_path) as scene:
        params = {"protocolVersion": requested, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        answer = await scene.post({"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params})
        result = answer.json()["result"]
        assert result["protocolVersion"] == (requested if requested != "2019-01-01" else "2025-11-25")
        assert result["capabilities"]["tools"] == {"listChanged": True}
        assert result["serverInfo"]["name"] == "jackfield"


@requirement("CON-mcp-revisions")
async def test_a_result_is_spelled_as_its_revision_wants_it(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        call = {"name": "shout", "arguments": {"text": "hi"}}
        modern = (await scene.ask("tools/call", call)).json()["result"]
        assert modern["resultType"] == "complete"
        assert modern["structuredContent"] == {"loud": "HI"}
        assert modern["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "jackfield"
        newer = await scene.ask_in(await scene.shake_hands(), "tools/call", **call)
        assert "resultType" not in newer
        assert newer["structuredContent"] == {"loud": "HI"}
        older = await scene.ask_in(await scene.shake_hands(protocolVersion="2024-11-05"), "tools/call", **call)
        assert "structuredContent" not in older
        assert older["content"] == [{"type": "text", "text": '{"loud":"HI"}'}]


async def test_what_stands_in_for_a_large_result_never_passes_for_what_the_schema_promises(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path, "[store]\nlarge_result = 100\n") as scene:
        told = (await scene.ask("tools/call", {"name": "shout", "arguments": {"text": "x" * 200}})).json()["result"]
        assert (told["isError"], "structuredContent" in told) == (True, False)
        assert "too many to give at once" in told["content"][0]["text"]


async def test_small_methods_answer_in_the_era_that_has_them(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        session = await scene.shake_hands()
        assert await scene.ask_in(session, "ping") == {}
        assert await scene.ask_in(session, "logging/setLevel", level="warning") == {}
        assert (await scene.ask_in(session, "logging/setLevel", level="loud"))["code"] == -32602
        assert await scene.ask_in(session, "prompts/list") == {"prompts": []}
        found = (await scene.ask("server/discover")).json()["result"]
        assert found["supportedVersions"] == [VERSION]
        assert set(found["capabilities"]) == {"tools", "resources", "prompts", "completions", "extensions"}
        assert (await scene.ask("resources/list")).json()["result"]["resources"] == []


@requirement("CON-mcp-per-key")
async def test_a_key_lists_and_calls_what_it_may_see_and_nothing_else(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        assert await names(scene, "limited-key") == ["echo"]
        assert await names(scene, "reader-key") == sorted(await names(scene, "caller-key"))
        call = {"name": "echo", "arguments": {"text": "hi"}}
        assert fault_of(await scene.ask("tools/call", call, key="reader-key")) == (403, -32003)
        assert (await scene.ask("tools/call", call, key="limited-key")).status_code == 200
        other = {"name": "shout", "arguments": {"text": "hi"}}
        assert fault_of(await scene.ask("tools/call", other, key="limited-key")) == (400, -32602)


async def names(scene: Scene, key: str) -> list[str]:
    listed = (await scene.ask("tools/list", key=key)).json()["result"]
    assert (listed["cacheScope"], listed["ttlMs"] > 0) == ("private", True)
    return [tool["name"] for tool in listed["tools"]]


async def test_without_a_key_or_from_a_foreign_page_nobody_gets_in(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        assert (await scene.post(LIST, key="wrong", headers=MODERN)).status_code == 401
        assert (await scene.post(LIST, headers={**MODERN, "origin": "https://evil.example"})).status_code == 403
        assert (await scene.post(LIST, headers={**MODERN, "host": "evil.example"})).status_code == 421


async def test_a_call_that_a_person_must_allow_is_answered_with_how_to_follow_it(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        result = (await scene.ask("tools/call", {"name": "guarded"})).json()["result"]
        waits = result["structuredContent"]
        assert waits["status"] == "pending_approval"
        assert "isError" not in result
        call_id = waits["pendingToolCallId"]
        assert result["_meta"]["jackfield/callId"] == call_id
        assert f"/api/v1/calls/{call_id}" in result["content"][1]["text"]
        record = await scene.gateway.store.read(partial(call_tx.get_call, call_id))
        assert record is not None
        assert record.status.value == "pending_approval"


async def test_an_agent_that_got_its_answer_does_not_find_it_in_its_inbox_too(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        result = await scene.ask("tools/call", {"name": "echo", "arguments": {"text": "hi"}}, key="ada-key")
        call_id = result.json()["result"]["_meta"]["jackfield/callId"]
        record = await scene.gateway.store.read(partial(call_tx.get_call, call_id))
        assert record is not None
        assert (record.agent, record.delivery and record.delivery.value) == ("ada", "inline")
        assert record.sent_at is not None


async def test_a_call_belongs_to_the_trace_that_its_client_names(tmp_path: Path) -> None:
    async with mcp_scene(tmp_path) as scene:
        named, other = (f"00-{digit * 32}-{digit * 16}-01" for digit in "ab")

        async def trace(**how: Any) -> Any:
            result = (await scene.ask("tools/call", {"name": "trace"}, **how)).json()["result"]
            return result["content"][0]["text"]

        assert await trace() == "null"
        assert await trace(headers={"traceparent": other}) == other
        assert await trace(headers={"traceparent": other}, meta={"traceparent": named}) == named


async def test_a_fault_inside_is_told_without_details(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with mcp_scene(tmp_path) as scene:
        monkeypatch.setattr(type(scene.gateway.catalog), "view", lambda *_: 1 / 0)
        answer = await scene.ask("tools/list")
        assert fault_of(answer) == (200, -32603)
        assert "division" not in answer.text
        assert "reference" in answer.json()["error"]["message"]
