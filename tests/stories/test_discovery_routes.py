"""The consumer's routes and commands: bodies as seed 004's consumers know them."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.in_process import KEY
from tests.harness.process import run_cli
from tests.requirement import requirement
from tests.sources.manifest.scene import TOOLS
from tests.stories.services import execute, knows, neighbourhood, scenario, served, tool_file

ECHO = {"scenario": "far", "tool_name": "echo"}


@requirement("CON-consumer-routes")
async def test_the_consumers_routes_answer_with_their_bodies(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        says = {"name": "talker", "version": "3.2.1", "description": "Talks back"}
        at.service.more = {"categories": [{"id": "talk", "name": "Talk"}], "scenario": says}
        at.service.offer("echo", lambda arguments: arguments["text"], category="talk")
        async with at.gateway() as (_, client):
            whole = (await client.get(f"{TOOLS}/set", params={"chat_id": "c1"})).json()
            assert whole.keys() == {"scenarios", "tools", "categories", "generated_at"}
            [told] = whole["scenarios"]
            assert (told["name"], told["version"], told["description"]) == ("far", "3.2.1", "Talks back")
            assert [one["id"] for one in whole["categories"]] == ["talk"]
            [one] = whole["tools"]
            shown = one.pop("tool")
            assert (shown["name"], shown["source"]) == ("echo", "far")
            assert one == {
                "scenario": "far",
                "enabled": True,
                "source": "",
                "requires_approval": False,
                "approval_source": "",
                "approval_override": "",
            }
            state = await scenario(client)
            assert state.pop("last_checked").endswith("Z")
            assert state == {"scenario": "far", "available": True, "tool_count": 1, "error": None}
            assert (await client.post(f"{TOOLS}/refresh")).json() == {
                "success": True,
                "scenarios_count": 1,
                "tools_count": 1,
            }


@requirement("CON-consumer-routes", "CON-consumer-precedence")
async def test_a_chats_preference_is_that_chats_alone(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        at.service.offer("echo", lambda arguments: arguments["text"])
        async with at.gateway() as (_, client):
            await client.post(f"{TOOLS}/config", json={**ECHO, "chat_id": "c1", "enabled": False})
            approval = {**ECHO, "chat_id": "c2", "approval_override": "require"}
            await client.post(f"{TOOLS}/config/approval", json=approval)
            assert await standing(client, "c1") == (False, "chat", False, "")
            assert await standing(client, "c2") == (True, "", True, "chat")
            assert await standing(client, "") == await standing(client, "c3") == (True, "", False, "")
            await client.post(f"{TOOLS}/config", json={**ECHO, "chat_id": "c2", "enabled": True})
            assert await standing(client, "c2") == (True, "chat", True, "chat"), "switching keeps the approval"
            assert (await in_chat(client, "c1")).status_code == 403
            assert (await in_chat(client, "c2")).json()["status"] == "pending_approval"
            assert (await in_chat(client, "c3")).status_code == 200
            gone = await client.delete(f"{TOOLS}/config", params={**ECHO, "chat_id": "c1"})
            assert gone.json()["success"] is True
            assert (await in_chat(client, "c1")).status_code == 200


async def standing(client: httpx2.AsyncClient, chat: str) -> tuple[bool, str, bool, str]:
    [one] = (await client.get(f"{TOOLS}/set", params={"chat_id": chat})).json()["tools"]
    return one["enabled"], one["source"], one["requires_approval"], one["approval_source"]


async def in_chat(client: httpx2.AsyncClient, chat: str) -> httpx2.Response:
    return await client.post(f"{TOOLS}/echo/execute", json={"arguments": {"text": "x"}, "chat_id": chat})


@requirement("CON-consumer-routes")
async def test_a_tool_is_executed_by_its_scenario_and_name(tmp_path: Path) -> None:
    async with neighbourhood(tmp_path) as at:
        at.service.offer("echo", lambda arguments: arguments["text"])
        at.service.offer("boom", _boom)
        async with at.gateway() as (_, client):

            async def by_scenario(**body: Any) -> httpx2.Response:
                return await client.post(f"{TOOLS}/execute", json=body)

            done = (await by_scenario(**ECHO, arguments={"text": "hi"})).json()
            assert (done["success"], done["status"], done["result"], done["error"]) == (True, "completed", "hi", None)
            assert done["execution_time_ms"] > 0
            failed = await by_scenario(scenario="far", tool_name="boom", arguments={"text": "x"})
            assert (failed.status_code, failed.json()["success"], failed.json()["status"]) == (200, False, "failed")
            assert failed.json()["error"] == "no luck"
            assert (await by_scenario(scenario="far", tool_name="none", arguments={})).status_code == 404
            assert (await by_scenario(scenario="nowhere", tool_name="echo", arguments={})).status_code == 404
            await client.post(f"{TOOLS}/config", json={**ECHO, "chat_id": "c1", "enabled": False})
            assert (await by_scenario(**ECHO, arguments={"text": "hi"}, chat_id="c1")).status_code == 403


def _boom(_: dict[str, Any]) -> Any:
    raise ValueError("no luck")


async def test_sources_and_preferences_are_shown_and_set_from_the_command_line(tmp_path: Path) -> None:
    async with (
        served(tmp_path / "first", tool_file(tmp_path / "first", "greet")) as first,
        served(tmp_path / "last", knows("first", first.url)) as last,
    ):
        env = {"JACKFIELD_URL": last.url, "JACKFIELD_KEY": KEY}

        async def cli(*args: str) -> tuple[int, str]:
            done = await asyncio.to_thread(run_cli, *args, cwd=tmp_path, env=env)
            return done.returncode, done.stdout + done.stderr

        code, text = await cli("sources", "--refresh")
        header, line = text.splitlines()[:2]
        assert header.split() == ["NAME", "STATUS", "TOOLS", "CHECKED", "ERROR"]
        assert (code, line.split()[:3]) == (0, ["first", "up", "1"])
        assert await cli("prefer", "greet") == (0, "greet is enabled and needs no approval.\n")
        assert await cli("prefer", "greet", "--off") == (
            0,
            "greet is disabled (your preference) and needs no approval.\n",
        )
        assert (await execute(last.client, "greet")).status_code == 403
        assert await cli("prefer", "greet", "--on", "--approval", "require", "--chat", "c1") == (
            0,
            "greet is enabled (preference of this chat) and requires approval (preference of this chat).\n",
        )
        assert await cli("prefer", "greet", "--reset") == (0, "greet is enabled and needs no approval.\n")
        code, text = await cli("prefer", "greet", "--reset", "--approval", "skip")
        assert (code, "Remove --approval" in text) == (2, True)


@pytest.mark.parametrize("path", ["set", "scenarios"])
async def test_what_a_source_says_reaches_no_other_key(tmp_path: Path, path: str) -> None:
    """A key without rights sees nothing of the consumer's routes."""
    async with neighbourhood(tmp_path) as at, at.gateway() as (_, client):
        assert (await client.get(f"{TOOLS}/{path}", headers={"x-api-key": "wrong"})).status_code == 401
