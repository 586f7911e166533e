# /// script
# requires-python = ">=3.11"
# dependencies = ["langchain==1.4.7", "langchain-mcp-adapters==0.3.2", "langchain-openai==1.7.3"]
# ///
"""An agent of LangChain: its model is the gateway's /v1/responses, its tools are those of /mcp."""

import asyncio
import os

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI

URL = os.environ.get("JACKFIELD_URL", "http://127.0.0.1:8420")
KEY = os.environ.get("JACKFIELD_KEY", "frameworks-example-key")


async def main() -> None:
    model = ChatOpenAI(model="default", base_url=f"{URL}/v1", api_key=KEY, use_responses_api=True)
    server = {"transport": "streamable_http", "url": f"{URL}/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}
    tools = await MultiServerMCPClient({"jackfield": server}).get_tools()
    answer = await create_agent(model, tools).ainvoke({"messages": "What is the weather in Oslo?"})
    print(answer["messages"][-1].text)


asyncio.run(main())
