"""The stage of the stories about sources, access and settings: a source that is down, one whose tools change, a model
that calls a tool, a hook, a target that takes nothing, and names that are markup.
"""

import sys
from pathlib import Path

import httpx2
from playwright.sync_api import Page, expect

from tests.harness.process import RunningGateway
from tests.waiting import eventually

READER_KEY = "reader-key-0123456789"
WRITTEN_OUT = "written-out-0123456789"
MARKUP = "<img src=x onerror='window.poisoned=1'>"
CHANGING = Path(__file__).parents[1] / "stories/changing_server.py"
PYTHON = sys.executable

CONFIG = f"""
[admin]
commands = true

[auth.keys.reader]
key = "{READER_KEY}"
scopes = ["read"]

[groups.dice]
tools = ["roll"]
description = "{MARKUP}"

[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.pay]
metadata = {{ requires_approval = true }}

[sources.changing]
kind = "mcp"
command = ["{PYTHON}", "{CHANGING}", "changing.txt"]
headers = {{}}

[sources.fickle]
kind = "mcp"
prefix = "fickle_"
command = ["{PYTHON}", "fickle.py"]

[sources.shelf]
kind = "mcp"
command = ["{PYTHON}", "shelf.py"]

[sources.broken]
kind = "mcp"
command = ["{PYTHON}", "broken.py"]
env = {{ PASSWORD = "{WRITTEN_OUT}" }}

[models.mind]
provider = "scripted"
script = "mind.toml"

[notify.team]
kind = "webhook"
url = "http://127.0.0.1:9/hook"
on = ["call.failed"]
give_up_after = 0.001

[[hooks]]
on = "before_call"
python = "hooks.py:check"
tools = ["roll"]

[[hooks]]
on = "after_call"
python = "hooks.py:look"
tools = ["roll"]
name = "look again"
"""
CONFIG = CONFIG.replace("headers = {}\n", "")

MIND = """
[[turns]]
when = { result = "roll" }
pace = 0.01
say = "It rolled <b>six</b>, and that is that."

[[turns]]
when = { user = 'pay' }
calls = [{ tool = "pay", arguments = { amount = 5 } }]

[[turns]]
when = { user = 'roll' }
calls = [{ tool = "roll", arguments = { sides = 6 } }]

[otherwise]
say = "Ready."
"""

TOOLS = '''
def roll(sides: int = 6) -> int:
    """Roll one die."""
    if sides == 0:
        raise ValueError("a die without sides")
    return sides


def pay(amount: int) -> str:
    """Pay somebody."""
    return f"{amount} paid"
'''

HOOKS = """
def check(event):
    return {"decision": "allow"}


def look(event):
    return {"decision": "allow"}
"""

BROKEN = f"""
import sys

print({MARKUP!r}, file=sys.stderr)
print("no database at db.internal", file=sys.stderr)
sys.exit(3)
"""

FICKLE = """
import json
import sys
from pathlib import Path

INFO = {"name": "fickle", "version": "1"}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": INFO}
    if message["method"] == "tools/list":
        said = Path("fickle.txt").read_text()
        names = ("one", "two")
        result = {"tools": [{"name": n, "description": said, "inputSchema": {"type": "object"}} for n in names]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
"""An MCP server with two tools, whose descriptions are what stands in a file."""

SHELF = f"""
import json
import sys

MARKUP = {MARKUP!r}
CAPABILITIES = {{"resources": {{}}, "prompts": {{}}}}
ANSWERS = {{
    "initialize": {{"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES, "serverInfo": {{"name": "shelf"}}}},
    "resources/list": {{"resources": [{{"uri": "shelf://book", "name": MARKUP, "mimeType": "text/plain"}}]}},
    "resources/templates/list": {{"resourceTemplates": []}},
    "resources/read": {{"contents": [{{"uri": "shelf://book", "mimeType": "text/plain", "text": "Read " + MARKUP}}]}},
    "prompts/list": {{"prompts": [{{"name": "sort", "arguments": [{{"name": "by", "required": True}}]}}]}},
}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = ANSWERS.get(message["method"], {{}})
    if message["method"] == "prompts/get":
        text = "Sort by " + message["params"]["arguments"]["by"] + " " + MARKUP
        result = {{"messages": [{{"role": "user", "content": {{"type": "text", "text": text}}}}]}}
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
"""
"""An MCP server with a resource and a prompt, in which there is markup."""

FILES = {
    "shelf.py": SHELF,
    "mind.toml": MIND,
    "hooks.py": HOOKS,
    "broken.py": BROKEN,
    "fickle.py": FICKLE,
    "tools/dice.py": TOOLS,
    "changing.txt": "Says something.",
    "fickle.txt": "Says something.",
}


def tools_of(gateway: RunningGateway) -> set[str]:
    """The names in the catalog."""
    answer = httpx2.get(f"{gateway.url}/api/v1/tools", headers=gateway.headers, timeout=30)
    return {tool["name"] for tool in answer.json()["tools"]}


def call(gateway: RunningGateway, tool: str, **arguments: object) -> httpx2.Response:
    path = f"{gateway.url}/api/v1/tools/{tool}/execute"
    return httpx2.post(path, headers=gateway.headers, json={"arguments": arguments}, timeout=30)


def quarantined(gateway: RunningGateway, source: str, description: str) -> None:
    """Have a source offer its tool with another description, and wait until it is held."""
    eventually(lambda: _status(gateway, source)["status"] == "up")
    (gateway.folder / f"{source}.txt").write_text(description)
    httpx2.post(f"{gateway.url}/api/v1/sources/{source}/restart", headers=gateway.headers, timeout=30)
    eventually(lambda: description in str(_diffs(gateway, source)))


def _status(gateway: RunningGateway, source: str) -> dict[str, object]:
    answer = httpx2.get(f"{gateway.url}/api/v1/sources/{source}", headers=gateway.headers, timeout=30)
    found: dict[str, object] = answer.json()["source"]
    return found


def _diffs(gateway: RunningGateway, source: str) -> list[object]:
    answer = httpx2.get(f"{gateway.url}/api/v1/sources/{source}/diff", headers=gateway.headers, timeout=30)
    found: list[object] = answer.json()["tools"]
    return found


def assert_unharmed(page: Page) -> None:
    assert page.evaluate("() => window.poisoned") is None
    assert page.locator("main img, main script, main iframe, main [onerror]").count() == 0


def expect_done(page: Page, words: str) -> None:
    """A message says that something was done."""
    expect(page.locator(".toast").filter(has_text=words)).to_be_visible()
