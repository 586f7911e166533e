"""Notifications through a real gateway, to a receiver that checks signatures by the reference library."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from tests.harness.in_process import SwitchableSource, in_process_gateway
from tests.notify.receiver import SECRET, Receiver, receiving
from tests.requirement import requirement
from tests.waiting import eventually_async

TOOLS = """
[[tools]]
name = "confirm"
description = "Asks somebody."
executionType = "external"
isAsync = true
inputSchema = { type = "object" }

[[tools]]
name = "pay"
description = "Pays."
executionType = "external"
isAsync = true
inputSchema = { type = "object" }
[tools.metadata]
requires_approval = true
"""


def target(receiver: Receiver, name: str = "ops", *, on: str = '"call.pending"', more: str = "") -> str:
    return f"""
[notify.{name}]
kind = "webhook"
url = "{receiver.url}/{name}"
secret = "{SECRET}"
on = [{on}]
{more}
"""


async def call(client: httpx2.AsyncClient, tool: str, **arguments: Any) -> str:
    answer = await client.post(f"/api/v1/tools/{tool}/execute", json={"arguments": arguments})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["call_id"])


@requirement("OPS-notify-where")
async def test_a_target_is_told_of_what_fits_all_of_its_globs(tmp_path: Path) -> None:
    with receiving() as receiver:
        wanted = {"tool": '{ tool = "pa*" }', "list": '{ tool = ["x", "confirm"], source = "ext*" }'}
        wanted |= {"elsewhere": '{ tool = "*", source = "local" }', "agents": '{ agent = "*" }'}
        events = '"call.pending", "call.pending_approval"'
        targets = [target(receiver, name, on=events, more=f"where = {where}") for name, where in wanted.items()]
        async with in_process_gateway(tmp_path, TOOLS + "".join(targets) + target(receiver, "all", on=events)) as made:
            for tool in ("confirm", "pay"):
                await call(made[1], tool)
            await eventually_async(lambda: len(receiver.of("/all")) == 2 and len(receiver.taken) == 4)
            written = (await made[1].get("/api/v1/notifications")).json()["notifications"]
    told = {name: [one.content["data"]["tool"] for one in receiver.of(f"/{name}")] for name in (*wanted, "all")}
    assert told == {"tool": ["pay"], "list": ["confirm"], "elsewhere": [], "agents": [], "all": ["confirm", "pay"]}
    assert len(written) == 4, "nothing else is to be told"


@requirement("OPS-webhook-format")
async def test_a_webhook_is_signed_and_says_type_time_and_data(tmp_path: Path) -> None:
    with receiving() as receiver:
        config = TOOLS + target(receiver, on='"call.pending_approval"')
        async with in_process_gateway(tmp_path, config) as (_, client):
            call_id = await call(client, "pay", amount=7)
            [told] = await eventually_async(lambda: receiver.taken)
    told.verify()
    with pytest.raises(WebhookVerificationError):
        told.verify("whsec_" + "A" * 32)
    assert told.headers["content-type"] == "application/json"
    body = told.content
    assert body.keys() == {"type", "timestamp", "data"}
    assert body["type"] == "call.pending_approval"
    data = body["data"]
    assert (data["call_id"], data["tool"], data["status"]) == (call_id, "pay", "pending_approval")
    assert data["arguments"] == {"amount": 7}
    assert data["principal"] == "admin"
    assert data["approval_url"].startswith("http://127.0.0.1:8420/api/v1/callbacks/")


@requirement("OPS-outbox-order")
async def test_a_failing_target_gets_everything_in_order_with_the_same_ids(tmp_path: Path) -> None:
    failures = {"left": 5}

    def answer(path: str, _headers: dict[str, str]) -> int:
        if path == "/ops" and failures["left"] > 0:
            failures["left"] -= 1
            return (500, 429, 408, 503, 409)[failures["left"]]
        return 204

    with receiving() as receiver:
        receiver.answer = answer
        async with in_process_gateway(tmp_path, TOOLS + target(receiver) + target(receiver, "other")) as (_, client):
            ids = [await call(client, "confirm") for _ in range(5)]
            await eventually_async(lambda: len(receiver.of("/ops")) == 5 and len(receiver.of("/other")) == 5)
        for path in ("/ops", "/other"):
            assert [one.content["data"]["call_id"] for one in receiver.of(path)] == ids
        attempts = [one for one in receiver.attempts if one.path == "/ops"]
        assert len(attempts) == 10
        assert len({one.id for one in attempts}) == 5
        for one in attempts:
            one.verify()
        assert len({one.body for one in attempts}) == 5


@requirement("OPS-outbox-refusal", "OPS-outbox-retry")
async def test_a_refusal_is_given_up_at_once_listed_and_retried(tmp_path: Path) -> None:
    with receiving() as receiver:
        receiver.answer = lambda _path, _headers: 400 if len(receiver.attempts) < 1 else 204
        async with in_process_gateway(tmp_path, TOOLS + target(receiver)) as (_, client):
            first = await call(client, "confirm")
            second = await call(client, "confirm")
            await eventually_async(lambda: len(receiver.taken) == 1)
            assert receiver.taken[0].content["data"]["call_id"] == second

            async def failed() -> list[dict[str, Any]]:
                answer = await client.get("/api/v1/notifications?status=failed")
                return list(answer.json()["notifications"])

            [given_up] = await failed()
            assert (given_up["data"]["call_id"], given_up["attempts"]) == (first, 1)
            assert given_up["error"] == "The target answered 400."
            assert given_up["id"] == receiver.attempts[0].id
            answer = await client.post(f"/api/v1/notifications/{given_up['id']}/retry")
            assert answer.json()["notification"]["status"] == "pending"
            await eventually_async(lambda: len(receiver.taken) == 2)
            assert receiver.taken[1].id == given_up["id"]

            async def delivered() -> bool:
                answer = await client.get("/api/v1/notifications?status=delivered&limit=1")
                page = answer.json()
                return not await failed() and page["next_cursor"] is not None

            await eventually_async(delivered)
            assert (await client.post(f"/api/v1/notifications/{given_up['id']}/retry")).status_code == 409
            assert (await client.post("/api/v1/notifications/msg_x/retry")).status_code == 404
            assert (await client.get("/api/v1/notifications?cursor=x")).status_code == 400


async def test_what_is_not_taken_in_time_has_failed(tmp_path: Path) -> None:
    with receiving() as receiver:
        receiver.answer = lambda _path, _headers: 500
        config = TOOLS + target(receiver, more="give_up_after = 0.001")
        async with in_process_gateway(tmp_path, config) as (_, client):
            await call(client, "confirm")

            async def failed() -> bool:
                answer = await client.get("/api/v1/notifications?status=failed&target=ops")
                return len(answer.json()["notifications"]) == 1

            await eventually_async(failed)
            answer = await client.get("/api/v1/notifications/targets")
            [listed] = answer.json()["targets"]
            assert (listed["name"], listed["waiting"], listed["failed"]) == ("ops", 0, 1)


async def test_a_target_that_asks_for_a_pause_gets_one(tmp_path: Path) -> None:
    with receiving() as receiver:
        receiver.answer = lambda _path, _headers: (429, {"Retry-After": "600"})
        async with in_process_gateway(tmp_path, TOOLS + target(receiver)) as (_, client):
            await call(client, "confirm")

            async def tried() -> dict[str, Any] | None:
                answer = await client.get("/api/v1/notifications")
                [one] = answer.json()["notifications"]
                return dict(one) if one["attempts"] else None

            told = await eventually_async(tried)
            assert told["next_attempt_at"] > told["created_at"]
            assert len(receiver.attempts) == 1


@requirement("OPS-notify-sources")
async def test_a_source_that_goes_down_and_comes_up_is_told(tmp_path: Path) -> None:
    with receiving() as receiver:
        config = target(receiver, on='"source.down", "source.up"')
        async with in_process_gateway(tmp_path, config) as (gateway, _):
            source = SwitchableSource("lamp", "The lamp is off.")
            await gateway.source_registry.add(source)
            await gateway.source_registry.settled(within=10)
            source.is_down = True
            gateway.source_registry.request_refresh("lamp")
            await eventually_async(lambda: len(receiver.taken) == 1)
            source.is_down = False
            gateway.source_registry.request_refresh("lamp")
            await eventually_async(lambda: len(receiver.taken) == 2)
        down, up = (one.content for one in receiver.taken)
        assert (down["type"], down["data"]["source"]) == ("source.down", "lamp")
        assert "The lamp is off." in down["data"]["error"]
        assert (up["type"], up["data"]["source"]) == ("source.up", "lamp")


async def test_targets_can_be_tested_and_changed_while_the_gateway_runs(tmp_path: Path) -> None:
    with receiving() as receiver:
        async with in_process_gateway(tmp_path, TOOLS + target(receiver)) as (gateway, client):
            answer = await client.post("/api/v1/notifications/targets/ops/test")
            assert answer.json() == {"success": True, "error": None}
            assert receiver.taken[0].content["type"] == "notification.test"
            receiver.taken[0].verify()
            receiver.answer = lambda path, _headers: 404 if path == "/ops" else 204
            answer = await client.post("/api/v1/notifications/targets/ops/test")
            assert answer.json() == {"success": False, "error": "The target answered 404."}
            assert (await client.post("/api/v1/notifications/targets/none/test")).status_code == 404

            other = gateway.settings.notify["ops"]
            await gateway.notifications.apply(
                {"new": type(other)(kind="webhook", url=f"{receiver.url}/new", on=other.on)}
            )
            call_id = await call(client, "confirm")
            [told] = await eventually_async(lambda: receiver.of("/new"))
            assert told.content["data"]["call_id"] == call_id
            assert "webhook-signature" not in told.headers
            await gateway.notifications.apply({})
            assert gateway.store.recorder is None


async def test_secrets_are_not_in_what_is_told(tmp_path: Path) -> None:
    with receiving() as receiver:
        config = TOOLS + target(receiver)
        async with in_process_gateway(tmp_path, config) as (gateway, client):
            gateway.settings.secrets.add("hunter2hunter2")
            await call(client, "confirm", password="is hunter2hunter2", nested={"a": "hunter2hunter2"})
            [told] = await eventually_async(lambda: receiver.taken)
            listed = await client.get("/api/v1/notifications")
    assert b"hunter2" not in told.body
    assert "hunter2" not in listed.text


async def test_only_administrators_see_notifications(tmp_path: Path) -> None:
    config = '[auth.keys.me]\nkey = "key-of-me"\nscopes = ["call", "read", "answer"]\n'
    async with in_process_gateway(tmp_path, config) as (_, client):
        headers = {"x-api-key": "key-of-me"}
        assert (await client.get("/api/v1/notifications", headers=headers)).status_code == 403
        assert (await client.post("/api/v1/notifications/msg_x/retry", headers=headers)).status_code == 403
        assert (await client.post("/api/v1/notifications/targets/x/test", headers=headers)).status_code == 403


@requirement("OPS-notify-reload")
async def test_targets_of_a_config_that_is_read_anew_are_told_and_the_others_are_not_touched(tmp_path: Path) -> None:
    with receiving() as receiver:
        before = TOOLS + target(receiver, "kept") + target(receiver, "moved")
        after = TOOLS + target(receiver, "kept") + target(receiver, "added") + target(receiver, "moved")
        after = after.replace(f"{receiver.url}/moved", f"{receiver.url}/elsewhere")
        async with in_process_gateway(tmp_path, before) as (_, client):
            receiver.answer = lambda path, _headers: 503 if path == "/moved" else 204
            first = await call(client, "confirm")
            await eventually_async(lambda: any(attempt.path == "/moved" for attempt in receiver.attempts))
            (tmp_path / "jackfield.toml").write_text(after, encoding="utf-8")
            changes = (await client.post("/api/v1/config/reload")).json()
            assert (changes["added"], changes["changed"]) == (["notify.added"], ["notify.moved"])
            second = await call(client, "confirm")
            expected = {"/kept": [first, second], "/elsewhere": [first, second], "/added": [second]}
            await eventually_async(lambda: all(len(receiver.of(path)) >= len(told) for path, told in expected.items()))
            for path, told in expected.items():
                assert [one.content["data"]["call_id"] for one in receiver.of(path)] == told
            (tmp_path / "jackfield.toml").write_text(TOOLS, encoding="utf-8")
            changes = (await client.post("/api/v1/config/reload")).json()
            assert changes["removed"] == ["notify.added", "notify.kept", "notify.moved"]
            assert (await client.get("/api/v1/notifications/targets")).json() == {"targets": []}
