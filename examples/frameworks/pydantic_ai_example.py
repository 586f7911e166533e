# /// script
# requires-python = ">=3.11"
# dependencies = ["pydantic-ai-slim[mcp,openai]==2.66.0"]
# ///
"""An agent of Pydantic AI: its model is the gateway's /v1/responses, its tools are those of /mcp."""

import asyncio
import os

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

URL = os.environ.get("JACKFIELD_URL", "http://127.0.0.1:8420")
KEY = os.environ.get("JACKFIELD_KEY", "frameworks-example-key")


async def main() -> None:
    model = OpenAIResponsesModel("default", provider=OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY))
    tools = MCPToolset(f"{URL}/mcp", headers={"Authorization": f"Bearer {KEY}"})
    answer = await Agent(model, toolsets=[tools]).run("What is the weather in Oslo?")
    print(answer.output)


asyncio.run(main())
