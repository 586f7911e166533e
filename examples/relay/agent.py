"""An agent program for a sandbox: finds its caller's tools over MCP, and calls the first one for every message.

It speaks to `jackfield bridge`, an MCP server on stdio, as any MCP client would; forty lines of standard library are
enough for that. A real agent has a model where this one has `arguments_for`.
"""

import json
import subprocess
import sys


class Mcp:
    """A client of one MCP server that runs as a child."""

    def __init__(self, command):
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._last_id = 0
        self.request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "agent"})
        self._send({"method": "notifications/initialized"})

    def request(self, method, **params):
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        while True:
            message = json.loads(self._server.stdout.readline())
            if message.get("id") == self._last_id:
                if "error" in message:
                    raise RuntimeError(message["error"]["message"])
                return message["result"]

    def _send(self, message):
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._server.stdin.flush()


def arguments_for(tool, message):
    """Every argument that the tool wants is the message itself."""
    return dict.fromkeys(tool["inputSchema"].get("properties", {}), message)


bridge = Mcp(["jackfield", "bridge"])
for line in sys.stdin:
    tool = bridge.request("tools/list")["tools"][0]
    result = bridge.request("tools/call", name=tool["name"], arguments=arguments_for(tool, line.strip()))
    said = "It failed" if result.get("isError") else "It said"
    print(f"I called {tool['name']}. {said}: {result['content'][0]['text']}", flush=True)
