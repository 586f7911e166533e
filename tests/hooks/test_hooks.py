"""Hooks before and after calls, through the HTTP API of a gateway in this process."""

from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from jackfield.cli.pending import next_steps
from jackfield.errors import ConfigError
from jackfield.sdk import CallRecord
from tests.hooks.harness import OTHER, execute, hook, hooked, notes, record
from tests.notify.receiver import receiving
from tests.requirement import requirement
from tests.waiting import eventually_async

DECIDING = """
def decide(event):
    text = event["call"]["arguments"].get("text")
    if text == "no":
        return {"decision": "deny", "reason": "nobody says no here"}
    if text == "hm":
        return {"decision": "ask", "reason": "somebody should look"}
    if text == "loud":
        return {"decision": "allow", "arguments": {"text": "LOUD"}, "reason": "louder"}
    return {"decision": "allow"}

def review(event):
    call = event["call"]
    if "error" in call:
        return {"decision": "replace", "result": "it did not work"}
    said = call["result"]["said"]
    if "secret" in said:
        return {"decision": "withhold", "reason": "it is a secret"}
    if "mail" in said:
        return {"decision": "replace", "result": {"said": "[mail]"}}
    return {"decision": "pass"}
"""
BEFORE = hook("before", "decide", tools=["echo", "ask_*"])
AFTER = hook("after", "review", tools=["echo", "fail", "ask_*"])


@requirement("HOOK-before")
async def test_a_call_is_allowed_denied_and_changed(tmp_path: Path) -> None:
    async with hooked(tmp_path, DECIDING, BEFORE) as (_, client):
        allowed = (await execute(client, "echo", text="yes")).json()
        denied = await execute(client, "echo", text="no")
        changed = (await execute(client, "echo", text="loud")).json()
        untouched = (await execute(client, "fail", text="no")).json()
        shown = await record(client, changed["call_id"])
        kept = await record(client, allowed["call_id"])
        [refused] = (await client.get("/api/v1/calls?status=refused")).json()["calls"]
    assert allowed["result"] == {"said": "yes"}
    assert denied.status_code == 403
    assert denied.json()["error"]["code"] == "denied_by_hook"
    assert "nobody says no here" in denied.json()["error"]["message"]
    assert notes(refused) == [("decide", "deny", "nobody says no here")]
    assert changed["result"] == {"said": "LOUD"}
    assert shown["arguments"] == {"text": "LOUD"}
    assert shown["asked_arguments"] == {"text": "loud"}
    assert notes(shown) == [("decide", "replace", "louder")]
    assert notes(kept) == [("decide", "allow", None)]
    assert kept["hooks"][0]["on"] == "before_call"
    assert kept["hooks"][0]["ms"] > 0
    assert untouched["error"]["code"] == "tool_error"


@requirement("HOOK-before")
async def test_a_person_is_asked_and_an_edit_passes_the_hooks_again(tmp_path: Path) -> None:
    async with hooked(tmp_path, DECIDING, BEFORE) as (_, client):
        asked = await execute(client, "echo", text="hm")
        call_id = asked.json()["call_id"]
        waiting = await record(client, call_id)
        refused = await client.post(f"/api/v1/calls/{call_id}/approve", json={"arguments": {"text": "no"}})
        still = await record(client, call_id)
        approved = await client.post(f"/api/v1/calls/{call_id}/approve", json={"arguments": {"text": "loud"}})
        ended = (await client.get(f"/api/v1/calls/{call_id}?wait=30")).json()["call"]
    assert asked.status_code == 202
    assert waiting["status"] == "pending_approval"
    assert notes(waiting) == [("decide", "ask", "somebody should look")]
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "denied_by_hook"
    assert still["status"] == "pending_approval"
    assert approved.status_code == 200
    assert ended["result"] == {"said": "LOUD"}
    assert ended["asked_arguments"] == {"text": "hm"}
    assert [decision for _, decision, _ in notes(ended)] == ["ask", "replace"]


@requirement("HOOK-before", "OPS-approval-page")
async def test_whoever_decides_is_told_why_a_hook_asks(tmp_path: Path) -> None:
    with receiving() as receiver:
        config = f'{BEFORE}\n[notify.ops]\nkind = "webhook"\nurl = "{receiver.url}"\non = ["call.pending_approval"]\n'
        async with hooked(tmp_path, DECIDING, config) as (_, client):
            call_id = (await execute(client, "echo", text="hm")).json()["call_id"]
            waiting = await record(client, call_id)
            link = waiting["approval_url"][waiting["approval_url"].index("/api/") :]
            page = await client.get(link, headers={"accept": "text/html", "x-api-key": ""})
            await eventually_async(lambda: receiver.attempts)
            told = [attempt.content["data"] for attempt in receiver.attempts]
    assert "<dt>Why</dt><dd>Hook &#x27;decide&#x27;: somebody should look</dd>" in page.text
    assert told[0]["reason"] == "Hook 'decide': somebody should look"
    shown = list(next_steps([msgspec.convert(waiting, CallRecord)]))
    assert f"  {call_id}  decide: somebody should look" in shown


@requirement("HOOK-before")
async def test_an_approval_without_an_edit_does_not_ask_the_hooks_again(tmp_path: Path) -> None:
    async with hooked(tmp_path, DECIDING, BEFORE) as (gateway, client):
        call_id = (await execute(client, "echo", text="hm")).json()["call_id"]
        await client.post(f"/api/v1/calls/{call_id}/approve", json={})
        ended = (await client.get(f"/api/v1/calls/{call_id}?wait=30")).json()["call"]
        runs = gateway.hooks.all[0].runs
    assert ended["result"] == {"said": "hm"}
    assert runs == 1


@requirement("HOOK-after")
async def test_results_are_passed_replaced_and_withheld(tmp_path: Path) -> None:
    async with hooked(tmp_path, DECIDING, AFTER) as (_, client):
        passed = (await execute(client, "echo", text="yes")).json()
        replaced = (await execute(client, "echo", text="mail")).json()
        failed = (await execute(client, "fail", text="a secret")).json()
        withheld = (await execute(client, "echo", key=OTHER, text="secret")).json()
        for_admin = await record(client, withheld["call_id"])
        for_other = await record(client, withheld["call_id"], key=OTHER)
        page = await client.get("/api/v1/calls")
        kept = await record(client, replaced["call_id"])
    assert passed["result"] == {"said": "yes"}
    assert replaced["result"] == {"said": "[mail]"}
    assert kept["result"] == {"said": "[mail]"}
    assert failed["error"] == {"code": "tool_error", "message": "it did not work"}
    assert withheld["status"] == "failed"
    assert withheld["result"] is None
    assert withheld["error"]["code"] == "withheld_by_hook"
    assert "it is a secret" in withheld["error"]["message"]
    assert for_admin["result"] == {"said": "secret"}
    assert notes(for_admin) == [("review", "withhold", "it is a secret")]
    assert for_other["result"] is None
    assert all(call["result"] != {"said": "secret"} for call in page.json()["calls"])


@requirement("HOOK-after")
async def test_what_somebody_answers_passes_the_hooks(tmp_path: Path) -> None:
    async with hooked(tmp_path, DECIDING, AFTER) as (_, client):
        call = (await client.post("/api/v1/tools/ask_person/execute", json={"arguments": {}})).json()
        answer = {"callId": call["call_id"], "result": {"said": "a secret"}}
        sent = await client.post(f"/api/runs/{call['run_id']}/tool-results", json=answer)
        for_admin = await record(client, call["call_id"])
        page = (await client.get("/api/v1/calls")).text
    assert sent.status_code == 200, sent.text
    assert for_admin["error"]["code"] == "withheld_by_hook"
    assert for_admin["result"] == {"said": "a secret"}
    assert '{"said":"a secret"}' not in page


@requirement("HOOK-before")
async def test_a_repeated_request_is_not_asked_about_again(tmp_path: Path) -> None:
    async with hooked(tmp_path, DECIDING, BEFORE + AFTER) as (gateway, client):
        first, again = [
            await client.post(
                "/api/v1/tools/echo/execute", json={"arguments": {"text": "secret"}}, headers={"Idempotency-Key": "k"}
            )
            for _ in range(2)
        ]
        runs = [one.runs for one in gateway.hooks.all]
    assert first.json()["call_id"] == again.json()["call_id"]
    assert again.json()["result"] is None
    assert runs == [1, 1]


@requirement("HOOK-list")
async def test_the_list_has_the_order_and_how_each_fared(tmp_path: Path) -> None:
    async with hooked(tmp_path, DECIDING, BEFORE + AFTER) as (_, client):
        await execute(client, "echo", text="yes")
        listed = (await client.get("/api/v1/hooks")).json()["hooks"]
        refused = await client.get("/api/v1/hooks", headers={"x-api-key": OTHER})
    assert [(one["position"], one["name"], one["on"], one["origin"]) for one in listed] == [
        (1, "decide", "before_call", "hooks.py:decide"),
        (2, "review", "after_call", "hooks.py:review"),
    ]
    assert [one["matches"] for one in listed] == [2, 3]
    assert [(one["runs"], one["failures"], one["last_error"]) for one in listed] == [(1, 0, None), (1, 0, None)]
    assert refused.status_code == 403


@requirement("HOOK-config")
@pytest.mark.parametrize(
    ("code", "hooks", "said"),
    [
        ("def decide(event:\n", BEFORE, "hooks.py, line 1"),
        ("x = 1\n", BEFORE, "has no function 'decide'"),
        ("def decide(a, b): ...\n", BEFORE, "must take one argument"),
        ("def decide(event): ...\n\n1 / 0\n", BEFORE, "line 3: ZeroDivisionError"),
        ("", '\n[[hooks]]\non = "before_call"\n', "none of url, python and use"),
        ("", '\n[[hooks]]\non = "before_call"\nuse = "nobodys"\n', "nothing installed offers"),
        ("", '\n[[hooks]]\non = "before_call"\nurl = "ftp://x"\n', "not a full URL"),
        ("", '\n[[hooks]]\non = "before_call"\nurl = "http://x/"\nsecret = "abc"\n', "secret is not a webhook secret"),
        ("def decide(event): ...\n", BEFORE + BEFORE, "is called 'decide'"),
    ],
)
async def test_a_hook_that_cannot_be_used_stops_the_start(tmp_path: Path, code: str, hooks: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", "\\(")):
        async with hooked(tmp_path, code, hooks):
            pass


@requirement("HOOK-config")
async def test_a_reload_is_whole_or_nothing_and_keeps_what_did_not_change(tmp_path: Path) -> None:
    after = hook("after", "review", tools=["echo"])
    at_url = '\n[[hooks]]\non = "after_call"\nurl = "http://127.0.0.1:9/"\ntools = ["fail"]\n'
    async with hooked(tmp_path, DECIDING, BEFORE + at_url) as (gateway, client):
        config = tmp_path / "jackfield.toml"
        plain = config.read_text().removesuffix(BEFORE + at_url)

        async def reload(hooks: str) -> httpx2.Response:
            config.write_text(plain + hooks)
            return await client.post("/api/v1/config/reload")

        async def said() -> Any:
            return (await execute(client, "echo", text="mail")).json()["result"]["said"]

        before = gateway.hooks.all
        broken = await reload(BEFORE + at_url + hook("after", "nobody"))
        assert (broken.status_code, "has no function 'nobody'" in broken.text) == (409, True)
        assert gateway.hooks.all == before
        assert await said() == "mail"

        assert (await reload(BEFORE + at_url + after)).json()["changed"] == ["hooks"]
        assert gateway.hooks.all[:2] == before
        assert await said() == "[mail]"

        (tmp_path / "hooks.py").write_text("1 / 0\n" + DECIDING)
        broken = await reload(BEFORE + at_url + after)
        assert (broken.status_code, "line 1: ZeroDivisionError" in broken.text) == (409, True)
        assert await said() == "[mail]"
        (worker,) = (await client.get("/api/v1/workers")).json()["workers"]
        assert worker["state"] == "running"

        (tmp_path / "hooks.py").write_text(DECIDING.replace("[mail]", "<mail>"))
        assert (await reload(BEFORE + at_url + after)).json()["changed"] == ["hooks"]
        assert await said() == "<mail>"
        assert (await reload(BEFORE + at_url + after)).json()["changed"] == []

        assert (await reload("")).json()["changed"] == ["hooks"]
        assert await said() == "mail"
        assert (await client.get("/api/v1/workers")).json()["workers"] == []
