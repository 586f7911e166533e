# /// script
# requires-python = ">=3.11"
# dependencies = ["openai-agents>=0.24"]
# ///
"""A program that uses openai-agents as its authors do, with a gateway in place of OpenAI. Not imported: run by uv.

    uv run --script agents_user.py URL KEY MODEL

Prints one JSON object: what each run came to. It knows nothing of this project but an address and a key.
"""

import asyncio
import json
import sys
from importlib.metadata import version
from typing import Any

from agents import (  # type: ignore[import-not-found]
    Agent,
    HostedMCPTool,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

ASKED: list[str] = []
"""What somebody had to allow."""


@function_tool  # type: ignore[untyped-decorator]
def get_weather(city: str) -> str:
    """Say how the weather is.

    Args:
        city: Where.
    """
    return f"sunny in {city}"


@function_tool  # type: ignore[untyped-decorator]
def locate() -> str:
    """Say where we are."""
    return "the attic"


def allow(request: Any) -> dict[str, Any]:
    ASKED.append(request.data.name)
    return {"approve": True}


def refuse(request: Any) -> dict[str, Any]:
    ASKED.append(request.data.name)
    return {"approve": False, "reason": "Too much."}


def catalog(**more: Any) -> Any:
    return HostedMCPTool(tool_config={"type": "mcp", "server_label": "jackfield", **more.pop("config", {})}, **more)


async def outcome(agent: Any, said: str, *, is_streamed: bool = False) -> dict[str, Any]:
    deltas = ""
    if is_streamed:
        result = Runner.run_streamed(agent, said)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                deltas += event.data.delta
    else:
        result = await Runner.run(agent, said)
    return {"says": result.final_output, "items": [item.type for item in result.new_items], "deltas": deltas}


async def allowed_elsewhere(client: AsyncOpenAI, run: Any) -> Any:
    """The run, while somebody allows what waits, in a console for example."""
    running = asyncio.create_task(run)
    while not running.done():
        await asyncio.sleep(0.05)
        waiting: Any = await client.get("../api/v1/calls?status=pending_approval", cast_to=object)
        for call in waiting["calls"]:
            await client.post(f"../api/v1/calls/{call['id']}/approve", cast_to=object, body={})
    return await running


async def main(url: str, key: str, model: str) -> dict[str, Any]:
    set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)

    def agent(*tools: Any, **more: Any) -> Any:
        answering = OpenAIResponsesModel(model=model, openai_client=client)
        return Agent(name="tester", model=answering, tools=list(tools), **more)

    later = {"model_settings": ModelSettings(extra_args={"background": True})}

    guarded = {"config": {"require_approval": "always"}}
    runs = {
        "function": outcome(agent(get_weather), "weather?"),
        "function streamed": outcome(agent(get_weather), "weather?", is_streamed=True),
        "hosted": outcome(agent(catalog()), "add 2 and 40"),
        "hosted streamed": outcome(agent(catalog()), "add 2 and 40", is_streamed=True),
        "allowed": outcome(agent(catalog(on_approval_request=allow)), "pay"),
        "allowed streamed": outcome(agent(catalog(on_approval_request=allow)), "pay", is_streamed=True),
        "refused": outcome(agent(catalog(on_approval_request=refuse)), "pay"),
        "asked by the request": outcome(agent(catalog(on_approval_request=allow, **guarded)), "add 2 and 40"),
        "mixed": outcome(agent(catalog(), locate), "add and locate"),
        "mixed streamed": outcome(agent(catalog(), locate), "add and locate", is_streamed=True),
        "background": outcome(agent(catalog(), **later), "add 2 and 40", is_streamed=True),
        "parked": allowed_elsewhere(
            client, outcome(agent(catalog(on_approval_request=allow), **later), "pay", is_streamed=True)
        ),
    }
    done = dict(zip(runs, [await run for run in runs.values()], strict=True))
    return {"version": version("openai-agents"), "asked": ASKED, "runs": done}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(*sys.argv[1:]))))
