"""Hooks that misbehave: the call has an answer all the same, and so have the calls after it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.harness.in_process import KEY, serve_on_port
from tests.hooks.harness import execute, hook, hooked, notes, record
from tests.requirement import requirement
from tests.waiting import eventually_async

CODE = """
import asyncio, json, time, urllib.request

def hang(event):
    if event["call"]["arguments"]["text"] == "hang":
        while True:
            time.sleep(0.01)
    return {"decision": "allow"}

async def spin(event):
    while event["call"]["arguments"]["text"] == "hang":
        pass
    return {"decision": "allow"}

def raises(event):
    raise RuntimeError("out of order at /srv/hooks")

def dies(event):
    import os
    os._exit(3)

def garbage(event):
    return ["what", "ever"]

def nothing(event):
    pass

def foreign(event):
    return {"decision": "withhold" if event["event"] == "before_call" else "deny"}

def invalid(event):
    return {"decision": "allow", "arguments": {"text": 7}}

def huge(event):
    return {"decision": "deny", "reason": "x" * 10_000_000}

def slow(event):
    time.sleep(0.2)
    return {"decision": "allow"}

def calls_back(event):
    if event["call"]["tool"] == "echo":
        options = event["options"]
        body = json.dumps({"arguments": {"text": "from the hook"}}).encode()
        headers = {"x-api-key": options["key"], "content-type": "application/json"}
        url = open(options["url_file"]).read() + "/api/v1/tools/" + options["tool"] + "/execute"
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as answer:
            said = json.load(answer)
        return {"decision": "allow", "reason": said["status"]}
    return {"decision": "allow"}
"""
FAULTS = {
    "raises": "it failed",
    "dies": "it failed",
    "garbage": "not a decision",
    "nothing": "not a decision",
    "foreign": "no answer to",
    "huge": "more than 8 MB",
}


@requirement("HOOK-failure")
@pytest.mark.parametrize(("function", "said"), FAULTS.items())
async def test_a_hook_that_fails_closes_unless_it_may_not(tmp_path: Path, function: str, said: str) -> None:
    hooks = hook("before", function, tools=["echo"]) + hook("after", function, tools=["fail"], timeout=20_000)
    async with hooked(tmp_path, CODE, hooks) as (_, client):
        denied = await execute(client, "echo", text="a")
        withheld = (await execute(client, "fail", text="the tool's words")).json()
        shown = await record(client, withheld["call_id"])
        listed = (await client.get("/api/v1/hooks")).json()["hooks"]
    assert denied.status_code == 403
    assert denied.json()["error"]["code"] == "denied_by_hook"
    assert said in denied.json()["error"]["message"]
    assert "/srv/hooks" not in denied.text
    assert withheld["error"]["code"] == "withheld_by_hook"
    assert "the tool's words" not in withheld["error"]["message"]
    assert shown["result"] == {"error": {"code": "tool_error", "message": "ValueError: the tool's words"}}
    assert [one["failures"] for one in listed] == [1, 1]
    assert listed[0]["last_error"]


@requirement("HOOK-failure")
async def test_on_failure_allow_lets_calls_through(tmp_path: Path) -> None:
    both = [hook(on, "raises", tools=["echo"], on_failure="allow") for on in ("before", "after")]
    async with hooked(tmp_path, CODE, "".join(both)) as (_, client):
        made = (await execute(client, "echo", text="a")).json()
        shown = await record(client, made["call_id"])
    assert made["result"] == {"said": "a"}
    assert notes(shown) == [("raises", "allow", "The hook failed: it failed.")] * 2


@requirement("HOOK-failure")
async def test_arguments_changed_to_invalid_ones_are_a_failure(tmp_path: Path) -> None:
    closed = hook("before", "invalid", tools=["echo"])
    opened = hook("before", "invalid", tools=["fail"], name="open", on_failure="allow")
    async with hooked(tmp_path, CODE, closed + opened) as (_, client):
        denied = await execute(client, "echo", text="a")
        allowed = (await execute(client, "fail", text="as it was")).json()
    assert "does not take" in denied.json()["error"]["message"]
    assert allowed["error"]["message"].endswith("as it was")


@requirement("HOOK-failure")
@pytest.mark.parametrize("function", ["hang", "spin"])
async def test_a_hook_that_hangs_is_timed_out_and_does_not_stop_the_others(tmp_path: Path, function: str) -> None:
    async with hooked(tmp_path, CODE, hook("before", function, tools=["echo"], timeout=1000)) as (_, client):
        denied = await execute(client, "echo", text="hang")
        untouched = (await execute(client, "fail", text="x")).json()

        async def answered() -> dict[str, Any] | None:
            after = await execute(client, "echo", text="fine")
            return after.json() if after.status_code == 200 else None

        after = await eventually_async(answered, within=150)  # its process is replaced after a while
    assert "did not answer within 1000 ms" in denied.json()["error"]["message"]
    assert untouched["error"]["code"] == "tool_error"
    assert after["result"] == {"said": "fine"}


@requirement("HOOK-failure")
async def test_a_slow_hook_takes_many_calls_at_once(tmp_path: Path) -> None:
    async with hooked(tmp_path, CODE, hook("before", "slow", tools=["echo"])) as (_, client):
        made = await asyncio.gather(*(execute(client, "echo", text=str(number)) for number in range(64)))
    assert [one.json()["result"]["said"] for one in made] == [str(number) for number in range(64)]


@requirement("HOOK-failure")
@pytest.mark.parametrize(("tool", "status"), [("fail", 200), ("echo", 403)])
async def test_a_hook_may_call_back_and_its_circle_ends(tmp_path: Path, tool: str, status: int) -> None:
    url_file = tmp_path / "url"
    options = f'{{ key = "{KEY}", url_file = "{url_file}", tool = "{tool}" }}'
    hooks = hook("before", "calls_back", tools=["echo", "fail"], timeout=20_000 if status == 200 else 500)
    async with (
        hooked(tmp_path, CODE, f"{hooks}options = {options}\n") as (gateway, client),
        serve_on_port(gateway) as url,
    ):
        url_file.write_text(url)
        async with asyncio.timeout(60):
            made = await execute(client, "echo", text="a")
        health = await client.get("/healthz")
    assert made.status_code == status, made.text
    assert health.status_code == 200
