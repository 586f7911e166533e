"""pydantic-ai with its Responses model: a streamed run with two calls at once, reasoning, an image, a second turn."""

import asyncio
import base64
import json
import os

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ThinkingPart, ToolReturnPart
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


async def main() -> None:
    provider = OpenAIProvider(base_url=f"{os.environ['JACKFIELD_URL']}/v1", api_key=os.environ["JACKFIELD_KEY"])
    agent = Agent(OpenAIResponsesModel("default", provider=provider))

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """How the weather is."""
        return f"{city}: 20 degrees"

    @agent.tool_plain
    def screenshot() -> BinaryContent:
        """Show the screen."""
        return pixel

    kind, _, data = os.environ["PIXEL"].removeprefix("data:").partition(";base64,")
    pixel = BinaryContent(base64.b64decode(data), media_type=kind)
    async with agent.run_stream("How is the weather?") as streamed:
        text = await streamed.get_output()
        messages = streamed.all_messages()
    parts = [part for message in messages for part in message.parts]
    second = await agent.run("What did you say?", message_history=messages)
    seen = await agent.run(["Hello", pixel])
    shot = await agent.run("What is on the screen?")
    checks = {
        "two calls at once": sum(isinstance(part, ToolReturnPart) for part in parts) == 2,
        "both results reach the model": "Lisbon: 20" in text and "Porto: 20" in text,
        "reasoning": any(isinstance(part, ThinkingPart) and _thought(part).startswith("Two") for part in parts),
        "second turn": second.output.startswith("I said: All done."),
        "an image": "I see 1 images" in seen.output,
        "a tool's image": "Images: 1." in shot.output,
    }
    print(json.dumps(checks))


def _thought(part: ThinkingPart) -> str:
    """The words, wherever this version keeps those that came as raw reasoning."""
    raw = (part.provider_details or {}).get("raw_content") or [""]
    return part.content or raw[0]


asyncio.run(main())
