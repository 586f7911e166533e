"""openai-agents: a streamed run with two calls at once, reasoning, a hosted MCP tool with an image, a second turn."""

import asyncio
import json
import os

from agents import (
    Agent,
    HostedMCPTool,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI


@function_tool
def get_weather(city: str) -> str:
    """How the weather is."""
    return f"{city}: 20 degrees"


async def main() -> None:
    set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(
        base_url=f"{os.environ['JACKFIELD_URL']}/v1", api_key=os.environ["JACKFIELD_KEY"], max_retries=0
    )
    model = OpenAIResponsesModel(model="default", openai_client=client)
    agent = Agent(name="Weather", model=model, tools=[get_weather], model_settings=ModelSettings(store=True))
    streamed = Runner.run_streamed(agent, "How is the weather?")
    kinds = [event.data.type async for event in streamed.stream_events() if event.type == "raw_response_event"]
    items = [item.type for item in streamed.new_items]
    again = [*streamed.to_input_list(), {"role": "user", "content": "What did you say?"}]
    second = await Runner.run(agent, again)
    image = [{"type": "input_text", "text": "Hello"}, {"type": "input_image", "image_url": os.environ["PIXEL"]}]
    seen = await Runner.run(agent, [{"role": "user", "content": image}])
    hosted = HostedMCPTool(
        tool_config={"type": "mcp", "server_label": "jackfield", "server_url": None, "require_approval": "never"}
    )
    looking = Agent(name="Looking", model=model, tools=[hosted])
    shot = await Runner.run(looking, "What is on the screen?")
    text = streamed.final_output
    checks = {
        "two calls at once": items.count("tool_call_output_item") == 2,
        "both results reach the model": "Lisbon: 20" in text and "Porto: 20" in text,
        "reasoning": "reasoning_item" in items and "response.reasoning_text.delta" in kinds,
        "second turn": second.final_output.startswith("I said: All done."),
        "an image": "I see 1 images" in seen.final_output,
        "a tool's image": "Images: 1." in shot.final_output,
    }
    print(json.dumps(checks))


asyncio.run(main())
