"""The agent program of the stories, run in the sandbox: does what it is told, with the SDK's MCP client and the bridge.

Each line on stdin is a command as JSON; each line on stdout what came of it, with the command's `n`.
"""

import asyncio
import json
import os
import socket
import sys
from typing import Any

from mcp import Client, StdioServerParameters


async def main() -> None:
    bridge = StdioServerParameters(command="jackfield", args=["bridge"], env=dict(os.environ))
    changed = asyncio.Event()

    async with Client(bridge, mode="auto") as client:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group, client.listen(tools_list_changed=True) as events:
            group.create_task(listen(events, changed))
            say({"ready": True})
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                group.create_task(act(client, json.loads(line), changed))


async def listen(events: Any, changed: asyncio.Event) -> None:
    """How changes are told from 2026-07-28 on."""
    async for _ in events:
        changed.set()


async def act(client: Client, command: dict[str, Any], changed: asyncio.Event) -> None:
    told: dict[str, Any] = {"n": command["n"]}
    if command["do"] == "list":
        listed = await client.list_tools()
        told["tools"] = [[tool.name, tool.description, tool.input_schema] for tool in listed.tools]
    elif command["do"] == "call":
        result = await client.session.call_tool(command["name"], command["arguments"])
        told |= {"is_error": bool(result.is_error), "text": getattr(result.content[0], "text", "")}
        told["structured"] = result.structured_content
    elif command["do"] == "changed":
        await asyncio.wait_for(changed.wait(), 10)
    elif command["do"] == "nothing":
        return
    elif command["do"] == "network":
        told["reached"] = reached(command["host"], command["port"])
    elif command["do"] == "env":
        told["names"] = sorted(name for name in os.environ if name.startswith("JACKFIELD"))
    say(told)


def reached(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


def say(told: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


asyncio.run(main())
