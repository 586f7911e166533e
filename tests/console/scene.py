"""The stage that most stories of the console play on: a gateway with an agent that does what a word asks for.

A "story" makes Ada write a long message slowly, a "chart" makes her draw, an "invoice" want something that has to be
allowed, and so on; whatever comes back to her she repeats in the space.
"""

from typing import Any

import httpx2

from tests.harness.process import RunningGateway

READER_KEY, HUSAM_KEY, MIA_KEY = "reader-key-0123456789", "husam-key-0123456789", "mia-key-012345678901"
ADMIN = {"JACKFIELD_ADMIN_KEY": "admin-key-0123456789"}
STORY = " ".join(f"word{number}" for number in range(120))

CONFIG = f"""
[scenario]
name = "stage"

[auth.keys.reader]
key = "{READER_KEY}"
scopes = ["read"]

[auth.keys.husam]
key = "{HUSAM_KEY}"
scopes = ["call", "answer"]

[auth.keys.mia]
key = "{MIA_KEY}"
scopes = ["call", "answer"]

[models.mind]
provider = "scripted"
script = "mind.toml"

[agents.ada]
name = "Ada"
model = "mind"
instructions = "Do what is asked."
spaces = ["lobby", "hall", "garden", "cellar", "attic"]

[console]
tools = "tool-ui"

[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.poison]
visible = true

[sources.local.tools.get_weather]
visible = true

[sources.local.tools.send_invoice]
visible = true
metadata = {{ requires_approval = true }}

[[tools]]
name = "confirmAction"
description = "Ask a person to confirm an action."
executionType = "space"
isAsync = true
inputSchema = {{ type = "object", properties = {{ question = {{ type = "string" }} }}, required = ["question"] }}

[[tools]]
name = "chooseOption"
description = "Let a person choose."
executionType = "space"
isAsync = true
inputSchema = {{ type = "object", properties = {{ question = {{ type = "string" }}, options = {{ type = "array" }} }} }}

[[tools]]
name = "displayChart"
description = "Show a chart."
executionType = "internal"
visible = true
inputSchema = {{ type = "object", properties = {{ title = {{ type = "string" }}, data = {{ type = "array" }} }} }}

[[tools]]
name = "askForDetails"
description = "Ask a person for the details of a trip."
executionType = "space"
isAsync = true
inputSchema = {{ type = "object", properties = {{ question = {{ type = "string" }} }} }}

[tools.outputSchema]
type = "object"
required = ["name", "nights"]
additionalProperties = false

[tools.outputSchema.properties]
name = {{ type = "string", title = "Your name", minLength = 1 }}
nights = {{ type = "integer", title = "Nights", minimum = 1 }}
breakfast = {{ type = "boolean", title = "Breakfast" }}
"""

MIND = f"""
[[turns]]
when = {{ user = '\\n\\[Tool Result: (?P<tool>\\w+)\\](?P<what>[^\\n]*)' }}
calls = [
  {{ tool = "enter_space", arguments = {{ spaceId = "{{results.enter_space.spaceId|lobby}}" }} }},
  {{ tool = "send_message", arguments = {{ text = "{{tool}} came back:{{what}}" }} }},
]

[[turns]]
when = {{ user = '"[^\\n]*"\\] \\("[^\\n]*", spaceId: (?P<space>[\\w.-]+),' }}
calls = [{{ tool = "enter_space", arguments = {{ spaceId = "{{space}}" }} }}]

[[turns]]
when = {{ result = "enter_space", asked = '\\n\\[[^\\n]*: "[^\\n]*\\bstory\\b' }}
pace = 0.05
calls = [{{ tool = "send_message", arguments = {{ text = "{STORY}" }} }}]

[[turns]]
when = {{ result = "enter_space", asked = '\\n\\[[^\\n]*: "[^\\n]*\\bchart\\b' }}

[[turns.calls]]
tool = "displayChart"
arguments = {{ title = "Rain in mm", data = [{{ day = "Mon", rain = 3 }}, {{ day = "Tue", rain = 5 }}] }}

[[turns]]
when = {{ result = "enter_space", asked = '\\n\\[[^\\n]*: "[^\\n]*\\bconfirm\\b' }}
calls = [{{ tool = "confirmAction", arguments = {{ question = "Shall I?" }} }}]

[[turns]]
when = {{ result = "enter_space", asked = '\\n\\[[^\\n]*: "[^\\n]*\\bdetails\\b' }}
calls = [{{ tool = "askForDetails", arguments = {{ question = "Who travels?" }} }}]

[[turns]]
when = {{ result = "enter_space", asked = '\\n\\[[^\\n]*: "[^\\n]*\\binvoice\\b' }}
calls = [{{ tool = "send_invoice", arguments = {{ customer = "ACME", amount = 1200 }} }}]

[[turns]]
when = {{ result = "enter_space", asked = '\\n\\[[^\\n]*: "[^\\n]*\\bweather\\b' }}
calls = [{{ tool = "get_weather", arguments = {{ city = "Tokyo" }} }}]

[[turns]]
when = {{ result = "enter_space", asked = '\\n\\[[^\\n]*: "[^\\n]*\\bpoison\\b' }}
calls = [{{ tool = "poison", arguments = {{ text = "<b onclick=alert(1)>bold</b>" }} }}]

[[turns]]
when = {{ result = "enter_space" }}
calls = [{{ tool = "send_message", arguments = {{ text = "Hello." }} }}]

[otherwise]
say = "Done."
"""

TOOLS = '''
"""Tools of the stage."""

import asyncio

POISON = (
    "<img src=x onerror='window.poisoned=1'><script>window.poisoned=2</script>"
    "<iframe src='https://evil.example/'></iframe> [go](javascript:window.poisoned=3) ![i](https://evil.example/i.png)"
)


def get_weather(city: str) -> dict:
    """The weather."""
    return {"celsius": 21, "city": city}


def send_invoice(customer: str, amount: int) -> str:
    """Send an invoice."""
    return f"{amount} euros asked of {customer}"


def poison(text: str = "") -> dict:
    """<script>window.poisoned=4</script> [x](javascript:alert(1))"""
    return {"html": POISON, "turned": "pay \\u202e001\\u202c me", "huge": "A" * 300_000, "<b>key</b>": [POISON]}


def shapes(names: list, options: dict | None = None, free=None, tags: list[str] | None = None) -> dict:
    """Give every argument back."""
    return {"names": names, "options": options, "free": free, "tags": tags}


async def climb(ctx, steps: int = 2) -> int:
    """Say every step, and stay on the last one."""
    for step in range(steps):
        ctx.progress(step + 1, steps, f"step {step + 1} <b>up</b>")
    await asyncio.sleep(60)
    return steps


def roll(sides: int = 6) -> int:
    """Roll one die that has this many sides, all the same."""
    if sides == 0:
        raise ValueError("a die without sides")
    return sides
'''

WEATHER_UI = """
export default ({ React, registerTool }) => {
  registerTool("get_weather", ({ call }) =>
    React.createElement("p", { className: "sky" }, call.status === "complete" ? `${call.result.celsius} °C` : "…"));
};
"""

FILES = {
    "mind.toml": MIND,
    "tools/stage.py": TOOLS,
    "tool-ui/broken.js": "this is no JavaScript",
    "tool-ui/weather.js": WEATHER_UI,
    "tool-ui/notes.txt": "not for the page",
}


def post(gateway: RunningGateway, path: str, body: dict[str, Any], *, key: str | None = None) -> Any:
    answer = httpx2.post(gateway.url + path, headers={"x-api-key": key or gateway.key}, json=body, timeout=30)
    assert answer.status_code < 300, answer.text
    return answer.json()


def get(gateway: RunningGateway, path: str) -> Any:
    answer = httpx2.get(gateway.url + path, headers=gateway.headers, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def say(gateway: RunningGateway, space: str, content: str, *, by: str = "husam") -> None:
    post(gateway, f"/api/spaces/{space}/messages", {"entityId": by, "content": content})


def execute(gateway: RunningGateway, tool: str, arguments: dict[str, Any]) -> str:
    """Call a tool as nobody's agent; the call's id."""
    call_id: str = post(gateway, f"/api/v1/tools/{tool}/execute", {"arguments": arguments})["call_id"]
    return call_id


def call_of(gateway: RunningGateway, call_id: str) -> Any:
    return get(gateway, f"/api/v1/calls/{call_id}")["call"]


def messages(gateway: RunningGateway, space: str) -> list[Any]:
    found: list[Any] = get(gateway, f"/api/spaces/{space}/messages?limit=200")["messages"]
    return found
