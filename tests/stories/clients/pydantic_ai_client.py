# /// script
# requires-python = ">=3.11"
# dependencies = ["pydantic-ai-slim[mcp]==2.66.0"]
# ///
"""A pydantic-ai agent with a gateway's tools: `pydantic_ai_client.py URL KEY` prints what it saw, as JSON.

Run by uv, not imported. Its model plays a written part: add, then fail, then take steps, then say what came back.
"""

import asyncio
import json
import sys
from typing import Any

from pydantic_ai import Agent  # type: ignore[import-not-found] # installed by uv for this file alone
from pydantic_ai.mcp import MCPToolset  # type: ignore[import-not-found] # the same
from pydantic_ai.messages import (  # type: ignore[import-not-found] # the same
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel  # type: ignore[import-not-found] # the same

PART = (
    ("add", {"a": 2, "b": 3}),
    ("boom", {"reason": "out of luck"}),
    ("steps", {"count": 2}),
)


async def main(url: str, key: str) -> None:
    names: list[str] = []
    told: list[str | None] = []

    def play(messages: list[Any], info: AgentInfo) -> Any:
        names[:] = [tool.name for tool in info.function_tools]
        answers = [
            part for message in messages for part in message.parts if isinstance(part, ToolReturnPart | RetryPromptPart)
        ]
        if len(answers) < len(PART):
            tool, arguments = PART[len(answers)]
            return ModelResponse(parts=[ToolCallPart(tool, arguments)])
        return ModelResponse(parts=[TextPart(json.dumps([part.content for part in answers]))])

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    toolset = MCPToolset(f"{url}/mcp", headers={"Authorization": f"Bearer {key}"}, progress_handler=tell)
    async with Agent(FunctionModel(play), toolsets=[toolset]) as agent:
        run = await agent.run("Play your part.")
    added, failed, stepped = json.loads(run.output)
    sys.stdout.write(json.dumps({"names": names, "added": added, "failed": failed, "stepped": [stepped, *told]}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
