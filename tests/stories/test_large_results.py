"""Results of megabytes through the real doors: the caller gets a small object, and the whole by pages."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from jackfield.sdk import CallNotFound, Client, Conflict, SyncClient
from tests.harness.process import RunningGateway, run_cli, running_gateway

SIZE = 5_000_000
CONFIG = """\
[store]
large_result = 100000

[sources.local]
kind = "files"
path = "tools/*.py"

[[tools]]
name = "report"
description = "Somebody else answers."
inputSchema = { type = "object" }
executionType = "external"
visible = false
isAsync = true

[auth.keys.caller]
key = "caller-key"
scopes = ["call"]

[auth.keys.stranger]
key = "stranger-key"
scopes = ["call"]
"""
TOOLS = '''\
"""Tools that say much."""

import time


def rows(size: int, wait: float = 0) -> list[str]:
    """Many bytes of text, after a while."""
    time.sleep(wait)
    line = "zwölf Boxkämpfer 😀 jagen"
    return [line] * (size // len(line.encode()))


def fail(size: int) -> str:
    """Fail with many words."""
    raise ValueError("no " * (size // 3))


async def count(ctx, size: int) -> int:
    """How many rows another tool gives."""
    return len(await ctx.call_tool("rows", size=size))
'''
ROWS = ["zwölf Boxkämpfer 😀 jagen"] * (SIZE // len("zwölf Boxkämpfer 😀 jagen".encode()))
BODY = json.dumps(ROWS, ensure_ascii=False, separators=(",", ":")).encode()
DIGEST = f"sha256:{hashlib.sha256(BODY).hexdigest()}"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder, files = tmp_path_factory.mktemp("large"), {"tools/large.py": TOOLS}
    with running_gateway(folder, CONFIG, files=files, env={"JACKFIELD_ADMIN_KEY": "ops-key"}) as running:
        yield running


@pytest.fixture
def http(gateway: RunningGateway) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=gateway.url, headers={"x-api-key": "caller-key"}, timeout=30) as client:
        yield client


def execute(http: httpx2.Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = http.post(f"/api/v1/tools/{tool}/execute", json={"arguments": arguments})
    assert answer.status_code == 200, answer.text
    assert len(answer.content) < 5_000
    told: dict[str, Any] = answer.json()
    return told


def read_by_pages(http: httpx2.Client, url: str, **query: int) -> bytes:
    texts, offset = [], 0
    while True:
        page = http.get(url, params={"offset": offset, **query}).json()
        assert (page["offset"], page["size"], page["digest"]) == (offset, len(BODY), DIGEST)
        texts.append(page["text"])
        if page["next_offset"] is None:
            return "".join(texts).encode()
        offset = page["next_offset"]


@pytest.mark.parametrize("wait", [0, 0.2], ids=["written once", "recorded while it ran"])
def test_the_caller_gets_a_digest_and_a_handle_and_reads_pages(http: httpx2.Client, wait: float) -> None:
    told = execute(http, "rows", size=SIZE, wait=wait)
    assert (told["success"], told["status"]) == (True, "completed")
    notice = told["result"]
    assert notice["call_id"] == told["call_id"]
    assert (notice["large_result"], notice["size"], notice["digest"]) == (True, len(BODY), DIGEST)
    assert 990 < len(notice["preview"].encode()) <= 1_000
    assert BODY.startswith(notice["preview"].encode())
    assert notice["url"] == f"/api/v1/calls/{told['call_id']}/result"
    assert read_by_pages(http, notice["url"], limit=777_777) == BODY
    record = http.get(f"/api/v1/calls/{told['call_id']}").json()["call"]
    assert record["result"] == notice


@pytest.mark.parametrize(("size", "large"), [(99_000, False), (101_000, True)])
def test_the_config_says_what_is_large(http: httpx2.Client, size: int, *, large: bool) -> None:
    result = http.post("/api/v1/tools/rows/execute", json={"arguments": {"size": size * 29 // 32}}).json()["result"]
    assert isinstance(result, dict) is large


def test_a_page_is_as_long_as_it_was_asked_to_be_and_may_begin_anywhere(http: httpx2.Client) -> None:
    url = execute(http, "rows", size=SIZE)["result"]["url"]
    usual = http.get(url).json()
    assert 99_990 < len(usual["text"].encode()) <= 100_000
    tail = http.get(url, params={"offset": len(BODY) - 50, "limit": 1_000}).json()
    assert tail["next_offset"] is None
    assert BODY.endswith(tail["text"].encode())


def test_a_small_result_is_served_by_the_same_route(http: httpx2.Client) -> None:
    call_id = execute(http, "count", size=3_000)["call_id"]
    page = http.get(f"/api/v1/calls/{call_id}/result").json()
    assert page == {
        "call_id": call_id,
        "digest": f"sha256:{hashlib.sha256(b'103').hexdigest()}",
        "size": 3,
        "offset": 0,
        "next_offset": None,
        "text": "103",
    }


def test_a_tool_that_calls_a_tool_gets_the_whole(http: httpx2.Client) -> None:
    assert execute(http, "count", size=SIZE)["result"] == len(ROWS)


def test_a_failure_of_many_words_is_small_and_whole_by_pages(http: httpx2.Client) -> None:
    told = execute(http, "fail", size=3_000_000)
    assert told["status"] == "failed"
    assert told["error"]["message"].endswith("…")
    whole = http.get(told["result"]["url"], params={"limit": 1_000_000}).json()
    assert whole["size"] > 3_000_000
    assert whole["text"].startswith('{"error":')


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"offset": SIZE * 2}, "offset"),
        ({"offset": -1}, "offset"),
        ({"offset": "x"}, "offset"),
        ({"offset": 10**30}, "offset"),
        ({"limit": 0}, "limit"),
        ({"limit": 10_000_000}, "limit"),
        ({"page": 1}, "page"),
    ],
)
def test_what_is_no_page_is_refused_by_name(http: httpx2.Client, query: dict[str, Any], param: str) -> None:
    url = f"/api/v1/calls/{execute(http, 'rows', size=100)['call_id']}/result"
    answer = http.get(url, params=query)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_who_may_not_see_the_call_finds_no_result(http: httpx2.Client) -> None:
    url = execute(http, "rows", size=SIZE)["result"]["url"]
    stranger = http.get(url, headers={"x-api-key": "stranger-key"})
    unknown = http.get("/api/v1/calls/call_x/result")
    assert [answer.status_code for answer in (stranger, unknown)] == [404, 404]
    assert http.get(url, headers={"x-api-key": "ops-key"}).status_code == 200
    assert http.get(url, headers={"x-api-key": "wrong"}).status_code == 401


def test_the_call_is_streamed_with_the_small_object(http: httpx2.Client) -> None:
    headers = {"Accept": "text/event-stream"}
    body = {"arguments": {"size": SIZE}}
    answer = http.post("/api/v1/tools/rows/execute", json=body, headers=headers)
    last = answer.text.strip().rpartition("data: ")[2]
    assert len(answer.content) < 5_000
    assert json.loads(last)["result"]["digest"] == DIGEST


async def test_a_submitted_result_is_kept_whole_and_the_agents_inbox_gets_the_small_object(
    gateway: RunningGateway,
) -> None:
    async with Client(gateway.url, "ops-key") as client:
        started = await client.tools.start("report", {}, agent="ada")
        assert started.status == "pending"
        with pytest.raises(Conflict, match="has no result yet"):
            await client.calls.result(started.call_id)
        receipt = await client.calls.answer(started.call_id, ROWS)
        assert receipt.delivery == "inbox"
        [event] = (await client.agents.inbox("ada")).events
        assert event.data["toolCallId"] == started.call_id
        assert event.data["result"]["digest"] == DIGEST
        assert len(json.dumps(event.data)) < 5_000
        assert (await client.calls.get(started.call_id)).result == event.data["result"]
        assert await client.calls.result(started.call_id) == ROWS


async def test_the_sdk_reads_it_whole_and_checks_it(gateway: RunningGateway) -> None:
    async with Client(gateway.url, "caller-key") as client:
        told = await client.tools.call("rows", size=SIZE)
        assert await client.calls.result(told["call_id"]) == ROWS
        with pytest.raises(CallNotFound):
            await client.calls.result("call_x")


def test_the_blocking_client_does_too(gateway: RunningGateway) -> None:
    with SyncClient(gateway.url, "caller-key") as client:
        told = client.tools.call("rows", size=SIZE)
        assert client.calls.result(told["call_id"]) == ROWS
        page = client.calls.result_page(told["call_id"], offset=1, limit=10)
        assert (page.offset, page.text, page.next_offset) == (1, '"zwölf Bo', 11)


def test_the_command_line_says_how_to_read_it_and_does(gateway: RunningGateway) -> None:
    env = gateway.environment
    called = run_cli("call", "rows", f"size={SIZE}", cwd=gateway.folder, env=env)
    assert called.returncode == 0
    call_id = json.loads(called.stdout)["call_id"]
    assert f"'jackfield result {call_id}' prints it." in called.stderr
    whole = run_cli("result", call_id, cwd=gateway.folder, env=env)
    assert (whole.returncode, json.loads(whole.stdout)) == (0, ROWS)
    first = run_cli("result", call_id, "--limit", "20", cwd=gateway.folder, env=env)
    assert first.stdout == BODY[:20].decode()
    assert f"Bytes 0 to 20 of {len(BODY)}; continue with --offset 20." in first.stderr
    last = run_cli("result", call_id, "--offset", str(len(BODY) - 2), "--json", cwd=gateway.folder, env=env)
    assert json.loads(last.stdout)["text"] == '"]'
    unknown = run_cli("result", "call_x", cwd=gateway.folder, env=env)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "There is no call 'call_x'" in unknown.stderr
