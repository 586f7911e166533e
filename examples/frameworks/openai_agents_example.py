# /// script
# requires-python = ">=3.11"
# dependencies = ["openai-agents==0.24.0"]
# ///
"""An agent of the OpenAI Agents SDK: its model is the gateway's /v1/responses, its tools are those of /mcp."""

import asyncio
import os

from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI

URL = os.environ.get("JACKFIELD_URL", "http://127.0.0.1:8420")
KEY = os.environ.get("JACKFIELD_KEY", "frameworks-example-key")


async def main() -> None:
    set_tracing_disabled(disabled=True)
    model = OpenAIResponsesModel("default", AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY))
    server = {"url": f"{URL}/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}
    async with MCPServerStreamableHttp(server, name="jackfield") as tools:
        agent = Agent(name="Weather", model=model, mcp_servers=[tools])
        answer = await Runner.run(agent, "What is the weather in Oslo?")
    print(answer.final_output)


asyncio.run(main())
