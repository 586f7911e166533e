"""The demo's concierge on a real model: the same project, with a chat-completions server that the environment names."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

from tests.harness.process import RunningGateway, run_cli, start_gateway
from tests.llm.chat_server import ChatServer, call, chunk, says, text

DEMO = Path(__file__).parents[2] / "examples/demo"
KEY = "sk-of-the-environment-0001"
CALLS_END = chunk(finish="tool_calls")


def wants(name: str, arguments: str) -> list[Any]:
    return [call(0, id=f"c_{name}", name=name), call(0, arguments=arguments), CALLS_END]


async def served(folder: Path, server: ChatServer) -> RunningGateway:
    shutil.copytree(DEMO, folder, ignore=shutil.ignore_patterns(".jackfield", "__pycache__"))
    env = {"JACKFIELD_MODEL_URL": server.base_url, "JACKFIELD_MODEL": "qwen3-8b", "JACKFIELD_MODEL_KEY": KEY}
    return await asyncio.to_thread(start_gateway, folder, env=env)


async def test_with_a_model_in_the_environment_the_concierge_thinks_with_it(tmp_path: Path) -> None:
    async with ChatServer() as server:
        server.plays = [
            says(*wants("enter_space", '{"spaceId": "lobby"}')),
            says(*wants("hotel_search", '{"city": "Bergen"}')),
            says(*wants("send_message", '{"text": "Bryggen Loft, by the water."}')),
            says(text("I named a hotel."), chunk(finish="stop")),
        ]
        gateway = await served(tmp_path / "demo", server)
        try:
            done = await asyncio.to_thread(
                run_cli, "chat", "lobby", cwd=gateway.folder, stdin="Something by the water?\n"
            )
        finally:
            await asyncio.to_thread(gateway.stop)
    assert done.stdout == "admin: Something by the water?\nConcierge: Bryggen Loft, by the water.\n", done.stderr
    first, *_, last = server.bodies
    assert [body["model"] for body in server.bodies] == ["qwen3-8b"] * 4
    assert {request.headers["authorization"] for request in server.received} == {f"Bearer {KEY}"}
    assert "ask with confirmAction" in first["messages"][0]["content"]
    assert first["messages"][1]["content"].startswith("INBOX (1 events, now=")
    offered = {tool["function"]["name"] for tool in first["tools"]}
    assert offered >= {"enter_space", "send_message", "hotel_search", "book_hotel", "displayChart", "confirmAction"}
    assert "roll_dice" not in offered
    assert [message["role"] for message in last["messages"]][-2:] == ["assistant", "tool"]
    assert KEY not in gateway.printed + gateway.log
