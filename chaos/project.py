"""What the gateways of a storm serve: tools of every kind, agents, a model that follows a script, programs.

Every tool writes its name and its `key` down when it starts, so that it can be counted how often anything ran. The
agents and their tasks are those of `stress.cycles`.
"""

import sys
from pathlib import Path

from msgspec import Struct

from stress import cycles
from stress.processes import Project
from stress.upstreams import SERVER

CALL_SECONDS = 5.0
KEYED = 'inputSchema = { type = "object", properties = { key = { type = "string" } }, required = ["key"] }'

CONFIG = """\
[programs]
enabled = true

[sources.plain]
kind = "files"
path = "plain/*.py"
call_timeout = {seconds:g}
tools.look_up.metadata = {{ idempotent = true }}
tools.charge.metadata = {{ requires_approval = true }}

[sources.heavy]
kind = "files"
path = "heavy/*.py"
call_timeout = {seconds:g}
processes = 2
tools.crunch_again.metadata = {{ idempotent = true }}

[sources.modern]
kind = "mcp"
url = "http://127.0.0.1:{modern}/mcp"
prefix = "modern_"
call_timeout = {seconds:g}

[sources.legacy]
kind = "mcp"
url = "http://127.0.0.1:{legacy}/mcp"
prefix = "legacy_"
call_timeout = {seconds:g}

[sources.stdio]
kind = "mcp"
command = ["{python}", "{server}", "stdio", "{stdio}", "{starts}"]
prefix = "stdio_"
call_timeout = {seconds:g}

[[tools]]
name = "job"
description = "Answered by a tool server, waited for."
executionType = "external"
visible = false
timeout = {milliseconds}
{keyed}

[[tools]]
name = "job_later"
description = "Answered by a tool server, some time."
executionType = "external"
visible = false
isAsync = true
{keyed}

[models.demo]
provider = "scripted"
script = "demo.toml"

[models.lends]
provider = "scripted"
script = "lends.toml"

[agents.helper]
model = "lends"
instructions = "Help."
"""
DEMO = r"""
pace = 0.002
[[turns]]
when = { user = 'job (?P<n>\S+)' }
say = "I begin with {n}."
calls = [{ tool = "look_up", arguments = { key = "{n}-a" } },
         { tool = "modern_echo", arguments = { token = "{n}-b" } },
         { tool = "write", arguments = { key = "{n}-c" } }]
[[turns]]
when = { result = "write", asked = 'job (?P<n>\S+)' }
say = "Somebody has to allow this."
calls = [{ tool = "job", arguments = { key = "{n}-d" } },
         { tool = "crunch", arguments = { key = "{n}-e" } },
         { tool = "charge", arguments = { key = "{n}-f" } }]
[otherwise]
say = "That was all."
"""
LENDS = r"""
[[turns]]
when = { user = 'say (?P<key>\S+)' }
calls = [{ tool = "caller_lent", arguments = { key = "{key}" } }]
[[turns]]
when = { result = "caller_lent" }
say = "I was told: {result}"
[otherwise]
say = "Good day to you."
"""
HEADER = '# /// script\n# requires-python = ">=3.11"\n# dependencies = []\n# ///\n'
TOOLS = '''\
"""Tools that write down that they started, and take a moment."""

import asyncio
from pathlib import Path

STARTS = Path({starts!r})


async def _work(name: str, key: str) -> dict:
    with STARTS.open("a") as file:
        file.write(f"{{name}}:{{key}}\\n")
    await asyncio.sleep(0.02 * (sum(key.encode()) % 8))
    return {{"key": key}}


'''
TOOL = '''\
async def {name}(key: str) -> dict:
    """{what}"""
    return await _work("{name}", key)


'''
PLAIN = {
    "write": "Not to be repeated.",
    "look_up": "May be repeated.",
    "charge": "Not to be repeated, and only with a person's consent.",
}
HEAVY = {"crunch": "Not to be repeated.", "crunch_again": "May be repeated."}
ONCE = frozenset({"write", "charge", "crunch", "job", "job_later", "modern", "legacy", "stdio", "lent"})
"""Of what writes down that it started, what may do so once for each key."""
AGAIN = frozenset({"look_up", "crunch_again"})
MOST_STARTS = 3

PROGRAM = """\
async def tried(tool, **arguments):
    try:
        return (await tool(**arguments))["key"]
    except ToolFailed as failure:
        return failure.code

first = await tried(tools.look_up, key=f"{name}-a")
some = await asyncio.gather(tried(tools.write, key=f"{name}-b"), tried(tools.crunch, key=f"{name}-c"),
                            tried(tools.job, key=f"{name}-d"))
allowed = await tried(tools.charge, key=f"{name}-e")
return [first, some, allowed, await tried(tools.write, key=f"{name}-f")]
"""


class Ports(Struct, frozen=True, kw_only=True):
    """Where the MCP servers are."""

    modern: int
    legacy: int


def project(starts: Path, ports: Ports, *, stdio_note: Path) -> Project:
    config = cycles.CONFIG + CONFIG.format(
        seconds=CALL_SECONDS,
        milliseconds=round(CALL_SECONDS * 1000),
        modern=ports.modern,
        legacy=ports.legacy,
        python=sys.executable,
        server=SERVER,
        stdio=stdio_note,
        starts=starts,
        keyed=KEYED,
    )
    head = TOOLS.format(starts=str(starts))
    return Project(
        config,
        {
            "mind.toml": cycles.SCRIPT,
            "tools/work.py": cycles.TOOLS,
            "plain/plain.py": head + "".join(TOOL.format(name=name, what=what) for name, what in PLAIN.items()),
            "heavy/heavy.py": HEADER
            + head
            + "".join(TOOL.format(name=name, what=what) for name, what in HEAVY.items()),
            "demo.toml": DEMO,
            "lends.toml": LENDS,
        },
    )
