"""An MCP server on stdio in plain Python, which starts at once and behaves as its first argument says.

    python plain.py good|silent|late|exits|crashes|mute|lying|huge|old|unknown|loud|modern|brittle|raises

`modern` is of 2026-07-28 alone; `brittle` ends when it is asked for that; `raises` ends with a long traceback.
START in the environment: seconds before it reads anything.

Run, not imported.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
REVISIONS = {"old": "2024-11-05", "unknown": "1999-01-01"}
LIES: list[Any] = [
    {"name": "fine", "description": "An honest tool", "inputSchema": TEXT},
    {"name": "fine", "description": "The same again", "inputSchema": TEXT},
    {"name": "no_schema"},
    {"name": "wrong_schema", "inputSchema": "anything"},
    {"name": "", "inputSchema": TEXT},
    "not even an object",
    {
        "name": "whispers",
        "title": "Whi\u200bspers",
        "description": "Adds\u202e two\u0007 numbers\U000e0041.\r\nReally.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "string", "description": "The fir\u200bst"}},
        },
    },
    {"name": "trap", "inputSchema": {"type": "object", "properties": {"pa\u200bth": {"type": "string"}}}},
    {"name": "big", "description": "x" * 300_000, "inputSchema": TEXT},
    {"name": "headers", "inputSchema": {"type": "object", "x-mcp-header": "Region"}},
]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools(mode: str) -> list[Any]:
    if mode == "lying":
        return LIES
    return [
        {"name": "echo", "inputSchema": TEXT},
        *(
            {"name": name, "inputSchema": NOTHING}
            for name in ("hang", "fail", "environment", "start_child", "die", "huge")
        ),
        {"name": "touch", "inputSchema": NOTHING, "annotations": {"idempotentHint": True}},
    ]


def called(number: Any, name: str, arguments: dict[str, Any]) -> None:
    if name == "echo":
        answer = arguments["text"]
    elif name == "environment":
        answer = json.dumps({"env": dict(os.environ), "cwd": str(Path.cwd())})
    elif name == "start_child":
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        answer = f"{os.getpid()} {child.pid}"
    elif name == "die":
        os._exit(3)
    elif name == "huge":
        answer = "x" * int(os.environ.get("HUGE", "1000000"))
    elif name == "fail":
        send({"id": number, "result": {"content": [{"type": "text", "text": "no luck"}], "isError": True}})
        return
    else:
        Path("hanging").touch()
        return
    send({"id": number, "result": {"content": [{"type": "text", "text": answer}]}})


def shook_hands(mode: str, number: Any, method: str) -> None:
    if mode == "brittle" and method == "server/discover":
        sys.exit(1)
    if method == "server/discover":
        send({"id": number, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}})
    elif mode == "modern":
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
    else:
        answered("good", {"id": number, "method": method})


def answered(mode: str, message: dict[str, Any]) -> None:
    number, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method in ("server/discover", "initialize") and mode in ("brittle", "modern"):
        shook_hands(mode, number, method)
    elif method == "initialize":
        revision = REVISIONS.get(mode, "2025-06-18")
        result = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": {"name": mode}}
        result["instructions"] = "Echo\u200b before you call."
        send({"id": number, "result": result})
    elif method == "tools/list":
        if mode == "crashes":
            os._exit(4)
        if mode != "mute":
            send({"id": number, "result": {"tools": tools(mode)}})
    elif method == "tools/call":
        called(number, params["name"], params["arguments"])
    elif method == "notifications/cancelled":
        Path("cancelled").write_text(str(params["requestId"]), encoding="utf-8")
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    mode = sys.argv[1]
    with Path("starts").open("a", encoding="utf-8") as starts:
        starts.write(f"{os.getpid()}\n")
    time.sleep(float(os.environ.get("START", "0")))
    if mode == "exits":
        sys.exit(7)
    if mode == "raises":
        sys.stderr.write("".join(f"  File 'x.py', line {number}\n" for number in range(200)))
        sys.exit(f"ValueError: no such account for {os.environ.get('TOKEN')}")
    if mode == "loud":
        sys.stderr.write("".join(f"line {number}\n" for number in range(1_000)) + "y" * 100_000 + "\n")
        sys.stderr.flush()
    for line in sys.stdin:
        if mode == "late":
            time.sleep(0.2)
        if mode != "silent":
            answered(mode, json.loads(line))


if __name__ == "__main__":
    main()
