"""A gateway whose model is a chat-completions server on loopback that says what a test wrote down, and its clients.

async with chat_scene(tmp_path, config) as scene:      # config(base_url)
    scene.plays(calls(("echo", {})))
    await scene.ask("Hello", tools=[…])
    scene.chat.bodies                                   # what the model was asked
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from openai import OpenAI

from jackfield.gateway.gateway import Gateway
from tests.harness.in_process import KEY, in_process_gateway, serve_on_port
from tests.llm.chat_server import END, USAGE, ChatServer, Play, call, chunk, says, text
from tests.waiting import eventually_async

CALLS_END = chunk(finish="tool_calls")


def calls(*made: tuple[str, dict[str, Any]]) -> Play:
    pieces = [
        call(index, id=f"call_{index}_{name}", name=name, arguments=msgspec.json.encode(arguments).decode())
        for index, (name, arguments) in enumerate(made)
    ]
    return says(*pieces, CALLS_END, USAGE)


def speaks(words: str = "Done.") -> Play:
    return says(text(words), END, USAGE)


def names(body: Any) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", ())]


class Scene:
    """A gateway on a port, its model, and OpenAI's client."""

    def __init__(self, gateway: Gateway, url: str, chat: ChatServer, client: httpx2.AsyncClient) -> None:
        self.gateway = gateway
        self.url = url
        self.chat = chat
        self.http = client
        self._sdk: Any = OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)

    def plays(self, *plays: Play) -> None:
        self.chat.received.clear()
        self.chat.plays = [*plays, speaks()]

    async def ask(self, said: Any = "Go.", *, client: Any = None, **fields: Any) -> Any:
        create = (client or self._sdk).responses.create
        return await asyncio.to_thread(create, **{"model": "tiny", "input": said, **fields})

    async def cycle(self, agent: str, number: int) -> None:
        """Wake the agent, until its cycle of that number is over."""
        body = {"serviceName": "clock", "payload": "Go."}
        answer = await self.http.post(f"/api/agents/{agent}/trigger", json=body)
        assert answer.status_code < 300, answer.text

        async def is_over() -> bool:
            found = (await self.http.get(f"/api/agents/{agent}")).json()["agent"]["lastCycle"]
            return found is not None and found["number"] == number and found["status"] == "done"

        await eventually_async(is_over)


@asynccontextmanager
async def chat_scene(folder: Path, config: Callable[[str], str]) -> AsyncIterator[Scene]:
    async with (
        ChatServer() as chat,
        in_process_gateway(folder, model_at(chat.base_url) + config(chat.base_url)) as (gateway, client),
        serve_on_port(gateway) as url,
    ):
        yield Scene(gateway, url, chat, client)


def model_at(base_url: str) -> str:
    return f'[models.tiny]\nprovider = "openai"\nbase_url = "{base_url}"\nmodel = "tiny-8b"\napi_key = "sk"\n'
