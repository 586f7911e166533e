"""smolagents: its tools come from the gateway's /mcp; it asks chat-completions servers only, so the model directly."""

import json
import os

from smolagents import MCPClient, OpenAIServerModel, ToolCallingAgent

model = OpenAIServerModel(model_id="scripted", api_base=os.environ["MODEL_URL"], api_key="none")
server = {
    "url": f"{os.environ['JACKFIELD_URL']}/mcp",
    "transport": "streamable-http",
    "headers": {"Authorization": f"Bearer {os.environ['JACKFIELD_KEY']}"},
}
with MCPClient(server, structured_output=False) as tools:
    agent = ToolCallingAgent(tools=tools, model=model, max_steps=4)
    text = str(agent.run("How is the weather?"))
    shot = str(agent.run("What is on the screen?"))
    again = str(agent.run("What did you say?", reset=False))
    checks = {
        "lists the catalog": {"get_weather", "add", "screenshot"} <= {tool.name for tool in tools},
        "both results reach the model": "Lisbon: 20" in text and "Porto: 20" in text,
        "a tool's image": "All done." in shot,
        "second turn": "All done." in again,
    }
print(json.dumps(checks))
