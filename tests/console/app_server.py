"""An MCP server on stdio with apps, whose pages are in a folder. Run, not imported.

python app_server.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

APP_TYPE = "text/html;profile=mcp-app"
OBJECT: dict[str, Any] = {"type": "object", "properties": {"item": {"type": "string"}}}
REACHES = {"connectDomains": ["https://stock.example", "http://127.0.0.1:1", "https://intern.local"]}


def tool(name: str, **ui: Any) -> dict[str, Any]:
    return {"name": name, "description": f"{name}.", "inputSchema": OBJECT, "_meta": {"ui": ui}}


TOOLS = [
    tool("show_stock", resourceUri="ui://shop/stock.html"),
    tool("refresh_stock", visibility=["app"]),
    tool("order"),
    tool("for_models", visibility=["model"]),
    tool("attack", resourceUri="ui://shop/attack.html"),
    tool("flood", resourceUri="ui://shop/flood.html"),
]

LISTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": TOOLS},
    "resources/list": {"resources": []},  # apps need not be listed
    "resources/templates/list": {"resourceTemplates": []},
}


def answer(message: dict[str, Any], folder: Path) -> dict[str, Any]:
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        own = {"name": "shop", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}}, "serverInfo": own}
    if method in LISTS:
        return LISTS[method]
    if method == "resources/read":
        html = (folder / params["uri"].rpartition("/")[2]).read_text(encoding="utf-8")
        part = {"uri": params["uri"], "mimeType": APP_TYPE, "text": html}
        return {"contents": [{**part, "_meta": {"ui": {"csp": REACHES}}}]}
    if method == "tools/call":
        said = {"item": params["arguments"].get("item"), "left": 7, "tool": params["name"]}
        return {"content": [{"type": "text", "text": f"7 of {said['item']}"}], "structuredContent": said}
    return {}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer(message, Path(sys.argv[1]))}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
