"""The texts of the project that `jackfield init` writes."""

CONFIG = """\
# A Jackfield project. `jackfield serve` runs it; `jackfield doctor` checks it.

[scenario]
name = "hello"
description = "A first Jackfield project"

[[categories]]
id = "words"
name = "Words"

[sources.local]
kind = "files"                # every public function of these files is a tool
path = "tools/*.py"

[sources.local.tools.greet]   # what you say about one tool, over what its file says
category = "words"

# A tool that is an HTTP request. Take away the # signs and try: jackfield call zen
# [[tools]]
# name = "zen"
# description = "A short piece of wisdom from GitHub"
# inputSchema = { type = "object", properties = {} }
# executionType = "gateway"
# execution = { url = "https://api.github.com/zen", method = "GET" }
"""

TOOLS = '''\
"""Your first tools. Save this file and the running gateway has the new version."""

import asyncio
import random


def greet(name: str, excited: bool = False) -> str:
    """Greet somebody by name."""
    return f"Hello, {name}{'!' if excited else '.'}"


def roll(sides: int = 6, times: int = 1) -> dict:
    """Roll dice and add them up."""
    rolls = [random.randint(1, sides) for _ in range(times)]
    return {"rolls": rolls, "total": sum(rolls)}


async def countdown(seconds: int = 3) -> str:
    """Take some time, then answer. Other calls go on meanwhile."""
    await asyncio.sleep(seconds)
    return f"{seconds} seconds later: lift-off"


def inventory(ctx) -> list[str]:
    """Say which tools this gateway has. The argument `ctx` comes from the gateway, not from the caller."""
    return sorted(tool["name"] for tool in ctx.registry)
'''

README = """\
# hello: a Jackfield project

    jackfield serve                        # the gateway, at http://127.0.0.1:8420

and in another terminal, in this folder:

    jackfield tools                        # what there is
    jackfield tools greet                  # one tool whole
    jackfield call greet name=Ada          # → Hello, Ada.
    jackfield call roll sides=20 times=2
    jackfield tail                         # calls as they happen

The same over HTTP:

    curl -s http://127.0.0.1:8420/api/v1/tools/greet/execute \\
      -H "Authorization: Bearer $(cat .jackfield/admin.key)" \\
      -H 'Content-Type: application/json' -d '{"arguments": {"name": "Ada"}}'

and from Python:

    from jackfield.sdk import SyncClient

    with SyncClient() as client:
        print(client.tools.call("greet", name="Ada"))

Write a function into `tools/hello.py` and it is a tool: its type hints are the schema, its docstring the description.
`jackfield doctor` says what is wrong when something is.
"""

GITIGNORE = """\
.jackfield/
__pycache__/
"""

FILES = {
    "jackfield.toml": CONFIG,
    "tools/hello.py": TOOLS,
    "README.md": README,
    ".gitignore": GITIGNORE,
}
"""Path in the project to text."""
