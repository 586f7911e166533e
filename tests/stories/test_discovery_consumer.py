"""The consumer's side of discovery: services found, read, kept while they are away, and their metadata enforced."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.gateway.gateway import Gateway
from jackfield.identity.keys import ADMIN
from jackfield.settings import load_settings
from tests.harness.in_process import in_process_gateway
from tests.requirement import requirement
from tests.sources.manifest.scene import TOOLS, manifest, published, tool
from tests.sources.manifest.test_parser import PROTOJSON, SEED
from tests.sources.upstream import Received, Upstream, json_reply
from tests.stories.services import execute, names, neighbourhood, scenario, settled
from tests.waiting import eventually_async


@requirement("DISC-seed-example-consumed", "DISC-any-provider", "DISC-client-fetches")
@pytest.mark.parametrize("example", [SEED, PROTOJSON], ids=["snake_case", "protojson"])
async def test_the_seeds_example_is_consumed_and_its_tool_listed_and_usable(
    tmp_path: Path, example: dict[str, Any]
) -> None:
    async with Upstream() as upstream:
        upstream.answers[TOOLS] = json_reply(example)
        upstream.answers[f"{TOOLS}/spawn_coding_agent/execute"] = json_reply(
            {"success": True, "status": "completed", "result": {"run": "r1"}}
        )
        config = f'[sources.agent-manager]\nkind = "manifest"\nurl = "{upstream.url}"\n'
        async with in_process_gateway(tmp_path, config) as (_, client):
            shown = (await client.get(f"{TOOLS}/spawn_coding_agent")).json()
            assert shown["description"] == "Spawn a coding agent"
            assert shown["parameters"] == SEED["tools"][0]["parameters"]  # type: ignore[index]
            assert shown["metadata"]["cost_estimate"] == "high"
            assert shown["source"] == "agent-manager"
            whole = (await client.get(TOOLS)).json()
            assert [one["id"] for one in whole["categories"]] == ["agent_lifecycle"]
            answer = (await execute(client, "spawn_coding_agent", task="Fix it")).json()
            assert (answer["status"], answer["result"]) == ("completed", {"run": "r1"})


@requirement("DISC-consumer-fetch-each", "DISC-version-major", "DISC-version-unknown", "DISC-consumer-discover-running")
async def test_one_services_failure_spoils_no_other(tmp_path: Path) -> None:
    """Another major version, no version, no JSON, nobody there: each is a fault of that source, said in words."""
    async with Upstream() as good, Upstream() as two, Upstream() as none, Upstream() as html:
        good.answers[TOOLS] = json_reply(SEED)
        two.answers[TOOLS] = json_reply({**SEED, "protocol_version": "2.0"})
        none.answers[TOOLS] = json_reply({key: value for key, value in SEED.items() if key != "protocol_version"})
        html.answers[TOOLS] = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>"
        async with Upstream() as dead:
            port = dead.port
        urls = {"good": good.url, "two": two.url, "none": none.url, "html": html.url}
        urls["dead"] = f"http://127.0.0.1:{port}"
        config = "".join(f'[sources.{name}]\nkind = "manifest"\nurl = "{url}"\n' for name, url in urls.items())
        async with in_process_gateway(tmp_path, config) as (_, client):
            assert await names(client) == ["spawn_coding_agent"]
            states = {one["scenario"]: one for one in (await client.get(f"{TOOLS}/scenarios")).json()}
            assert [name for name, state in states.items() if state["available"]] == ["good"]
            assert "speaks version 2.0 of the discovery protocol; this gateway reads 1.x" in states["two"]["error"]
            assert "protocol_version is missing" in states["none"]["error"]
            assert "no manifest" in states["html"]["error"]
            assert states["dead"]["error"]
            assert (await execute(client, "spawn_coding_agent", task="x")).status_code == 200


async def test_whatever_bytes_a_service_sends_only_that_source_is_touched(tmp_path: Path) -> None:
    dice = random.Random(7)
    whole = json.dumps(SEED).encode()
    bodies = [dice.randbytes(dice.randrange(200)) for _ in range(15)]
    bodies += [whole[:cut] + dice.randbytes(2) + whole[cut + 1 :] for cut in dice.sample(range(len(whole)), 15)]
    async with Upstream() as good, neighbourhood(tmp_path) as at:
        good.answers[TOOLS] = json_reply(SEED)
        at.service.offer("echo")
        async with at.gateway(f'[sources.good]\nkind = "manifest"\nurl = "{good.url}"\n') as (_, client):
            for body in bodies:
                at.service.say(body)
                assert (await client.post(f"{TOOLS}/refresh")).status_code == 200
                assert "spawn_coding_agent" in await names(client), body
                assert (await scenario(client, "good"))["available"] is True
                state = await scenario(client)
                assert state["available"] is True or state["error"], body
            at.service.recover()
            await client.post(f"{TOOLS}/refresh")
            assert (await execute(client, "echo", text="x")).status_code == 200


@requirement("DISC-version-minor", "DISC-version-patch")
async def test_a_later_version_of_the_same_major_is_used_like_any_other(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        at.service.more = {"version": "1.7.3", "signature": "s", "categories": [{"id": "new", "colour": "red"}]}
        at.service.offer("echo", lambda arguments: arguments["text"], category="new", reviewed=True)
        async with at.gateway() as (_, client):
            assert await scenario(client) | {"last_checked": ""} == {
                "scenario": "far",
                "available": True,
                "last_checked": "",
                "tool_count": 1,
                "error": None,
            }
            assert [one["id"] for one in (await client.get(TOOLS)).json()["categories"]] == ["new"]
            assert (await execute(client, "echo", text="hi")).json()["result"] == "hi"


@requirement("DISC-cache-60s", "DISC-consumer-cache-ttl")
async def test_a_service_is_not_asked_again_within_sixty_seconds_unless_a_refresh_calls_for_it(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        at.service.offer("echo", lambda arguments: arguments["text"])
        async with at.gateway() as (gateway, client):
            first = at.service.reads
            for _ in range(20):
                await names(client)
                await execute(client, "echo", text="x")
            assert at.service.reads == first
            [due] = [timer.when() for source in gateway._sources if (timer := _timer(source)) is not None]
            assert 50 < due - asyncio.get_running_loop().time() <= 60
            at.service.offer("later")
            assert await names(client) == ["echo"]
            refreshed = (await client.post(f"{TOOLS}/refresh")).json()
            assert refreshed == {"success": True, "scenarios_count": 1, "tools_count": 2}
            assert await names(client) == ["echo", "later"]
            assert at.service.reads == first + 1


def _timer(source: Any) -> asyncio.TimerHandle | None:
    fetcher = getattr(source, "_fetcher", None)
    return None if fetcher is None else fetcher._timer


async def test_a_configured_time_to_live_is_kept(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at, at.gateway(options="cache_ttl = 0.1") as (_, client):
        at.service.offer("later")
        await eventually_async(lambda: _has(client, "later"))


async def _has(client: httpx2.AsyncClient, name: str) -> bool:
    return name in await names(client)


@requirement("DISC-error-503-peer", "CON-manifest-stale")
async def test_a_service_that_is_away_keeps_its_tools_listed_even_through_a_refresh(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        at.service.offer("echo")
        async with at.gateway() as (_, client):
            at.service.say(b"restarting", 503)
            answer = (await client.post(f"{TOOLS}/refresh")).json()
            assert answer == {"success": False, "scenarios_count": 1, "tools_count": 1}
            state = await scenario(client)
            assert (state["available"], state["tool_count"]) == (False, 1)
            assert "503" in state["error"]
            assert await names(client) == ["echo"]
            refused = await execute(client, "echo", text="x")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "source_unavailable")
            at.service.recover()
            await eventually_async(lambda: _is_up(client))
            assert (await execute(client, "echo", text="x")).status_code == 200


async def _is_up(client: httpx2.AsyncClient, name: str = "far") -> bool:
    return bool((await scenario(client, name))["available"])


# Finding services


@requirement("DISC-client-discovers", "DISC-consumer-discover-running")
async def test_services_are_found_in_the_environment(tmp_path: Path) -> None:
    async with Upstream() as upstream:
        upstream.answers[TOOLS] = json_reply(SEED)
        config = tmp_path / "jackfield.toml"
        config.write_text('[discovery]\nenv = ["agent-manager", "not-running"]\n')
        environment = {
            "JACKFIELD_ADMIN_KEY": "k",
            "JACKFIELD_STORE": "memory:",
            "AGENT_MANAGER_API_URL": upstream.url,
            "OTHER_API_URL": "http://127.0.0.1:9",
        }
        async with Gateway(load_settings(config, environment=environment)) as gateway:
            states = {
                status.name: status.status.value for status in gateway.source_statuses() if status.kind == "manifest"
            }
            assert states == {"agent-manager": "up"}
            assert gateway.catalog.entry("spawn_coding_agent") is not None


@requirement("DISC-client-discovers", "DISC-consumer-discover-running")
async def test_a_service_is_found_by_the_file_it_drops_and_gone_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "services.d"
    folder.mkdir()
    (folder / "broken.json").write_text("{")
    (folder / "open.json").write_text("{}")
    (folder / "open.json").chmod(0o666)
    async with Upstream() as upstream:
        upstream.answers[TOOLS] = json_reply(SEED)
        async with in_process_gateway(tmp_path, '[discovery]\nfolder = "services.d"\n') as (_, client):
            assert "broken.json cannot be used" in (await scenario(client, "broken"))["error"]
            assert "everybody may write it" in (await scenario(client, "open"))["error"]
            assert await names(client) == []
            (folder / "manager.json").write_text(json.dumps({"name": "agent-manager", "url": upstream.url}))
            await eventually_async(lambda: _has(client, "spawn_coding_agent"))
            assert (await scenario(client, "agent-manager"))["available"] is True
            (folder / "manager.json").unlink()
            await eventually_async(lambda: _lacks(client, "spawn_coding_agent"))
            states = [state["scenario"] for state in (await client.get(f"{TOOLS}/scenarios")).json()]
            assert states == ["broken", "open"]


async def _lacks(client: httpx2.AsyncClient, name: str) -> bool:
    return name not in await names(client)


# Metadata is enforced


@requirement("DISC-meta-enabled-acts", "CON-exec-disabled", "DISC-client-merges", "DISC-consumer-merge-preferences")
async def test_a_tool_that_is_off_by_default_is_refused_until_somebody_enables_it(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        at.service.offer("quiet", metadata={"enabled_by_default": False})
        async with at.gateway() as (_, client):
            refused = await execute(client, "quiet", text="x")
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "disabled")
            assert at.service.calls == []
            [before] = (await client.get(f"{TOOLS}/set")).json()["tools"]
            assert (before["enabled"], before["source"]) == (False, "")
            body = {"scenario": "far", "tool_name": "quiet", "enabled": True}
            assert (await client.post(f"{TOOLS}/config", json=body)).status_code == 200
            [after] = (await client.get(f"{TOOLS}/set")).json()["tools"]
            assert (after["enabled"], after["source"]) == (True, "global")
            assert (await execute(client, "quiet", text="x")).status_code == 200


@requirement("DISC-meta-approval-acts")
async def test_a_tool_that_wants_approval_runs_only_after_a_person_said_yes(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        at.service.offer("spend", lambda arguments: arguments["text"], metadata={"requires_approval": True})
        async with at.gateway() as (_, client):
            asked = await execute(client, "spend", text="much")
            assert (asked.status_code, asked.json()["status"]) == (202, "pending_approval")
            assert at.service.calls == []
            call_id = asked.json()["call_id"]
            assert (await client.post(f"/api/v1/calls/{call_id}/approve", json={})).status_code == 200
            done = await settled(client, call_id)
            assert (done["status"], done["result"]) == ("completed", "much")
            assert at.service.calls == [("spend", {"text": "much"})]


@requirement("DISC-meta-timeout-acts", "DISC-meta-rate-limit-acts")
async def test_a_services_timeout_and_rate_limit_hold_here(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        at.service.offer("slow", lambda _: asyncio.sleep(30), metadata={"timeout_seconds": 1})
        at.service.offer("scarce", metadata={"rate_limit_per_minute": 2})
        async with at.gateway() as (_, client):
            late = (await execute(client, "slow", text="x")).json()
            assert (late["status"], late["error"]["code"]) == ("failed", "timeout")
            statuses = [(await execute(client, "scarce", text="x")).status_code for _ in range(3)]
            assert statuses == [200, 200, 429]
            assert len([call for call in at.service.calls if call[0] == "scarce"]) == 2


@requirement("DISC-meta-cost-acts")
async def test_what_a_tool_costs_counts_against_the_keys_budget(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        at.service.offer("dear", metadata={"cost_estimate": "high"})
        at.service.offer("cheap", metadata={"cost_estimate": "low"})
        at.service.offer("free")
        keys = '[auth.keys.poor]\nkey = "poor-key-1"\nscopes = ["call"]\nbudget = 26\n'
        async with at.gateway(keys) as (_, client):
            poor = {"x-api-key": "poor-key-1"}

            async def call(name: str) -> httpx2.Response:
                return await client.post(f"{TOOLS}/{name}/execute", json={"arguments": {"text": "x"}}, headers=poor)

            assert (await call("dear")).status_code == 200
            refused = await call("dear")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
            assert "costs 25 points (high), more than is left of the 26" in refused.json()["error"]["message"]
            assert 3500 < int(refused.headers["retry-after"]) <= 3600
            assert [(await call(name)).status_code for name in ("cheap", "free", "cheap")] == [200, 200, 429]
            assert (await execute(client, "dear", text="x")).status_code == 200, "another key has its own"


@requirement("DISC-meta-long-running-acts")
@pytest.mark.parametrize("by_service", [True, False], ids=["the service says so", "the operator says so"])
async def test_a_long_running_tool_goes_on_as_a_pending_call_when_its_caller_has_waited_long_enough(
    tmp_path: Path, *, by_service: bool
) -> None:
    release = asyncio.Event()

    async def work(_: dict[str, Any]) -> str:
        await release.wait()
        return "built"

    async with neighbourhood(tmp_path) as at:
        at.service.offer("build", work, metadata={"long_running": by_service})
        more = "" if by_service else "metadata = { long_running = true }\n"
        async with at.gateway(options=f"[sources.far.tools.build]\ntimeout = 100\n{more}") as (_, client):
            told = (await execute(client, "build", text="x")).json()
            assert told["error"]["code"] == "timeout"
            pending = (await client.get(f"/api/v1/calls/{told['call_id']}")).json()["call"]
            assert pending["status"] == "pending"
            release.set()
            done = await settled(client, told["call_id"])
            assert (done["status"], done["result"]) == ("completed", "built")


async def test_what_a_sensitive_tool_says_is_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "tools.py").write_text(
        'def leak(ctx) -> str:\n    """Leak."""\n    ctx.progress(1, 2, "the-progress")\n'
        '    raise ValueError("the-output")\n'
    )
    config = '[sources.local]\nkind = "files"\npath = "tools.py"\n'
    sensitive = "[sources.local.tools.leak]\nmetadata = { sensitive_output = true }\n"
    for more, is_told in (("", True), (sensitive, False)):
        caplog.clear()
        async with (
            in_process_gateway(tmp_path, config + more) as (gateway, client),
            gateway.pipeline.events.follow(None) as events,
        ):
            answer = (await execute(client, "leak")).json()
            assert "the-output" in answer["error"]["message"], "its caller is told"
            told = ""
            async for event in events:
                told += f"{event.progress}"
                if event.type == "call.settled":
                    break
        assert ("the-output" in caplog.text) is is_told
        assert ("the-progress" in told) is is_told


@requirement("DISC-consumer-pass-enabled", "DISC-meta-enabled-acts")
async def test_a_model_is_offered_the_enabled_tools_and_no_others(tmp_path: Path) -> None:
    """Over MCP, and in what a response's model is given."""
    async with neighbourhood(tmp_path) as at:
        at.service.offer("loud")
        at.service.offer("quiet", metadata={"enabled_by_default": False})
        script = '[models.demo]\nprovider = "scripted"\nscript = "demo.toml"\n'
        (tmp_path / "demo.toml").write_text('[[turns]]\nsay = "Hello."\n')
        async with at.gateway(script) as (gateway, client):
            assert await _listed(client) == ["loud"]
            offered = gateway.pipeline.offered(gateway.catalog.view(ADMIN).entries, principal=ADMIN)
            assert [entry.name for entry in offered] == ["loud"]
            body = {"scenario": "far", "tool_name": "quiet", "enabled": True}
            await client.post(f"{TOOLS}/config", json=body)
            await client.post(f"{TOOLS}/config", json=body | {"tool_name": "loud", "enabled": False})
            assert await _listed(client) == ["quiet"]


async def _listed(client: httpx2.AsyncClient) -> list[str]:
    """The tools that an MCP client is told of, and those of a response's `mcp_list_tools`."""
    answer = await client.post(
        "/v1/responses",
        json={"model": "demo", "input": "Hi", "tools": [{"type": "mcp", "server_label": "jackfield"}]},
    )
    listed = next(item for item in answer.json()["output"] if item["type"] == "mcp_list_tools")
    return [one["name"] for one in listed["tools"]]


@requirement("CON-manifest-base-url")
async def test_a_peers_tool_is_executed_at_the_configured_url_and_never_at_its_base_url(tmp_path: Path) -> None:
    async with Upstream() as service, Upstream() as elsewhere:
        scenario_info = {"name": "far", "version": "1.0.0", "description": "", "base_url": elsewhere.url}
        service.answers[TOOLS] = published(manifest(tool(), scenario=scenario_info))
        for upstream, word in ((service, "configured"), (elsewhere, "elsewhere")):
            upstream.answers[f"{TOOLS}/echo/execute"] = json_reply({"success": True, "result": word})
        config = f'[sources.far]\nkind = "manifest"\nurl = "{service.url}"\n[outgoing]\nallow = ["127.0.0.1"]\n'
        async with in_process_gateway(tmp_path, config) as (_, client):
            assert (await execute(client, "echo", text="hi")).json()["result"] == "configured"
        assert elsewhere.received == []


@requirement("DISC-meta-idempotent-acts")
@pytest.mark.parametrize(("idempotent", "sent"), [(True, 3), (False, 1)])
async def test_only_an_idempotent_tool_is_sent_again_when_the_connection_broke(
    tmp_path: Path, *, idempotent: bool, sent: int
) -> None:
    path = f"{TOOLS}/echo/execute"

    def breaks(_: Received) -> bytes:
        raise ConnectionError

    async with Upstream() as service:
        service.answers |= {TOOLS: published(manifest(tool(metadata={"idempotent": idempotent}))), path: breaks}
        async with in_process_gateway(tmp_path, f'[sources.far]\nkind = "manifest"\nurl = "{service.url}"\n') as (
            _,
            client,
        ):
            answer = (await execute(client, "echo", text="hi")).json()
        assert (answer["status"], answer["error"]["code"]) == ("failed", "unreachable")
        assert service.targets.count(path) == sent


@requirement("DISC-cache-generated-at")
async def test_a_manifest_that_was_generated_earlier_does_not_replace_a_later_one(tmp_path: Path) -> None:
    async with Upstream() as service:
        service.answers[TOOLS] = published(manifest(tool("later"), at="2026-02-01T00:00:00Z"))
        async with in_process_gateway(tmp_path, f'[sources.far]\nkind = "manifest"\nurl = "{service.url}"\n') as (
            _,
            client,
        ):
            assert await names(client) == ["later"]
            stale = published(manifest(tool("earlier"), at="2026-01-01T00:00:00Z"))
            fresh = published(manifest(tool("latest"), at="2026-03-01T00:00:00Z"))
            answers = [stale, fresh]
            service.answers[TOOLS] = lambda _: answers.pop(0) if len(answers) > 1 else answers[0]
            await client.post(f"{TOOLS}/refresh")
            assert await eventually_async(lambda: _told(client, "latest")) == ["latest"]
            assert answers == [fresh], "the stale one was read, and not believed"


async def _told(client: httpx2.AsyncClient, wanted: str) -> list[str]:
    """The names once `wanted` is among them. An older manifest's name must never be."""
    found = await names(client)
    assert "earlier" not in found
    return found if wanted in found else []
