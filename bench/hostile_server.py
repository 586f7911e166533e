"""An MCP server on stdio that means no good: its schemas, its results and its list cost as much as they can.

    python hostile_server.py

Above: `hostile.py`. Run, not imported by the gateway; plain JSON lines, so that it costs nothing itself.
"""

import json
import sys
from typing import Any

OBJECT: dict[str, Any] = {"type": "object"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "backtracks": {"properties": {"x": {"items": {"not": {"pattern": r"^(a|a)*\1b$"}}}}},
    "matches": {"properties": {"x": {"items": {"pattern": "(a|b)*a(a|b){400}c"}}}},
    "compiles": {"properties": {f"p{n}": {"pattern": rf"\p{{L}}{{1,64}}{n}"} for n in range(10)}},
    "lists": {"properties": {"x": {"enum": [{"a": n} for n in range(10_000)]}}},
    "doubles": {"properties": {"x": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
    "compares": {"properties": {"x": {"uniqueItems": True, "items": {"type": "array"}}}},
    "counts": {"properties": {"x": {"items": {"type": "integer", "maximum": 3}}}},
}
TOOLS = [
    *({"name": name, "inputSchema": {**OBJECT, **schema}} for name, schema in SCHEMAS.items()),
    {
        "name": "answers",
        "inputSchema": OBJECT,
        "outputSchema": {**OBJECT, "properties": {"x": {"items": {"type": "integer"}}}},
    },
    {"name": "escapes", "inputSchema": OBJECT},
]


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answer = {"jsonrpc": "2.0", "id": request["id"], **_answer(request["method"], request.get("params") or {})}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        about = {"name": "hostile", "version": "1"}
        return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}}
    if method == "tools/list":
        return {"result": {"tools": TOOLS}}
    if method == "tools/call":
        return {"result": _result(params["name"])}
    return {"error": {"code": -32601, "message": "no such method"}}


def _result(name: str) -> dict[str, Any]:
    if name == "answers":
        return {"content": [], "structuredContent": {"x": ["wrong"] * 50_000}}
    if name == "escapes":
        return {"content": [{"type": "text", "text": "\\u0061\\" * 50_000}]}
    return {"content": [{"type": "text", "text": "fine"}]}


if __name__ == "__main__":
    main()
