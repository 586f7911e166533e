"""LangChain's ChatOpenAI over the Responses API: a streamed call with tools, reasoning, an image, a second turn."""

import json
import os
from functools import reduce
from operator import add

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


@tool
def get_weather(city: str) -> str:
    """How the weather is."""
    return f"{city}: 20 degrees"


model = ChatOpenAI(
    model="default",
    base_url=f"{os.environ['JACKFIELD_URL']}/v1",
    api_key=os.environ["JACKFIELD_KEY"],
    use_responses_api=True,
    output_version="responses/v1",
    reasoning={"summary": "auto"},
    max_retries=0,
)
with_tools = model.bind_tools([get_weather])
messages: list = [HumanMessage("How is the weather?")]
asked = reduce(add, with_tools.stream(messages))
messages += [asked, *(ToolMessage(get_weather.invoke(c["args"]), tool_call_id=c["id"]) for c in asked.tool_calls)]
told = with_tools.invoke(messages)
second = with_tools.invoke([*messages, told, HumanMessage("What did you say?")])
image = [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": os.environ["PIXEL"]}}]
seen = model.invoke([HumanMessage(image)])
blocks = [block for block in asked.content if isinstance(block, dict) and block["type"] == "reasoning"]
checks = {
    "two calls at once": len(asked.tool_calls) == 2,
    "both results reach the model": "Lisbon: 20" in told.text and "Porto: 20" in told.text,
    "reasoning": bool(blocks) and blocks[0]["summary"][0]["text"].startswith("Two"),
    "second turn": second.text.startswith("I said: All done."),
    "an image": "I see 1 images" in seen.text,
}
print(json.dumps(checks))
