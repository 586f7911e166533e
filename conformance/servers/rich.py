"""An MCP server on stdio with every field there is, and some of no revision: `-m conformance.servers.rich [modern]`.

It is written without an SDK, so that nothing leaves out what the SDK does not know. It speaks 2025-11-25, with `modern`
2026-07-28 and nothing else.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ICONS = [{"src": f"data:image/png;base64,{PNG}", "mimeType": "image/png", "sizes": ["1x1"], "theme": "dark"}]
META = {"example.com/key": {"deep": [1, 2.5, None, True]}}
ANNOTATED = {"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
EMPTY = {"type": "object"}
UNCACHED = ("tools/call", "prompts/get", "completion/complete")
PAUSE = 0.02
"""After each report: some clients drop those that come together with the result."""
METHOD_NOT_FOUND, INVALID_PARAMS, URL_REQUIRED = -32601, -32602, -32042

RICH: Json = {
    "name": "rich",
    "title": "A rich tool",
    "description": "Has every field.\nOn two lines.",
    "icons": ICONS,
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"text": {"type": "string", "title": "Text", "examples": ["a"]}, "n": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "integer", "minimum": 0, "x-of-ours": {"a": 1}}},
        "required": ["text"],
        "additionalProperties": False,
    },
    "outputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "half": {"type": "number"}},
        "required": ["text"],
    },
    "annotations": {
        "title": "Another title",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    },
    "execution": {"taskSupport": "forbidden"},
    "_meta": {**META, "ui": {"resourceUri": "ui://rich/app", "visibility": ["model", "app"]}},
    "example.com/of-no-revision": {"kept": True},
}
BARE = ("progress", "logs", "ask", "open", "open_first", "sample", "roots", "fail", "refuse", "many", "touch")
TOOLS = [RICH, *({"name": name, "inputSchema": EMPTY} for name in BARE)]
TEXT: Json = {
    "uri": "rich://text",
    "name": "text",
    "title": "A text",
    "description": "Has every field.",
    "mimeType": "text/markdown",
    "size": 5,
    "icons": ICONS,
    "annotations": ANNOTATED,
    "_meta": META,
}
RESOURCES: list[Json] = [
    TEXT,
    {"uri": "rich://blob", "name": "blob"},
    {"uri": "ui://rich/app", "name": "app", "_meta": META},
]
TEMPLATES: list[Json] = [
    {
        "uriTemplate": "rich://item/{id}",
        "name": "item",
        "title": "An item",
        "description": "Any item.",
        "mimeType": "text/plain",
        "icons": ICONS,
        "annotations": ANNOTATED,
        "_meta": META,
    },
    {"uriTemplate": "rich://folder/{+path}{?page}", "name": "folder"},
]
PROMPTS: list[Json] = [
    {
        "name": "rich",
        "title": "A rich prompt",
        "description": "Has every field.",
        "icons": ICONS,
        "arguments": [
            {"name": "topic", "title": "Topic", "description": "What about.", "required": True},
            {"name": "tone"},
        ],
        "_meta": META,
    },
    {"name": "bare"},
]
CONTENTS: dict[str, list[Json]] = {
    "rich://text": [{"uri": "rich://text", "mimeType": "text/markdown", "text": "# Wö\n", "_meta": META}],
    "rich://blob": [{"uri": "rich://blob", "mimeType": "image/png", "blob": PNG}, {"uri": "rich://more", "text": ""}],
    "ui://rich/app": [
        {"uri": "ui://rich/app", "mimeType": "text/html;profile=mcp-app", "text": "<p>App</p>", "_meta": {"ui": {}}}
    ],
}
BLOCKS: list[Json] = [
    {"type": "text", "text": "A text", "annotations": ANNOTATED, "_meta": META},
    {"type": "image", "data": PNG, "mimeType": "image/png", "annotations": {"priority": 1}},
    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
    {"type": "resource_link", **TEXT},
    {"type": "resource", "resource": CONTENTS["rich://text"][0], "annotations": {"audience": ["user"]}},
]
FORM: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Yours", "minLength": 1, "format": "email"},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        "many": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "maxItems": 2},
    },
    "required": ["name"],
}
URL = {"mode": "url", "message": "Please sign in", "url": "https://example.com/go?a=1", "elicitationId": "e-1"}
SAMPLING: Json = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Say something"}}],
    "modelPreferences": {"hints": [{"name": "small"}], "costPriority": 0.5},
    "systemPrompt": "Be brief.",
    "maxTokens": 50,
    "temperature": 0.5,
    "stopSequences": ["END"],
    "metadata": {"a": 1},
}


class RpcFault(Exception):
    """What a request is refused with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


class Asked(Exception):
    """The result of a request of 2026-07-28 that asks back."""

    def __init__(self, method: str, params: Json) -> None:
        super().__init__(method)
        self.result = {
            "resultType": "input_required",
            "inputRequests": {"question": {"method": method, "params": params}},
            "requestState": "opaque",
        }


class RichServer:
    """One connection. One request is answered after the other."""

    def __init__(self, *, modern: bool = False) -> None:
        self._modern = modern
        self._params: Json = {}
        """Of the request that is being answered."""
        self._asked = 0
        self._followed: dict[str, Json] = {}
        """By the URI that is subscribed to: what a notification has besides it."""
        self._tools: dict[str, Callable[[Json], Json]] = {
            "rich": self._rich,
            "progress": self._progress,
            "logs": self._logs,
            "ask": lambda _: self._told(self._ask("elicitation/create", {"message": "Who?", "requestedSchema": FORM})),
            "open": self._open,
            "open_first": self._open_first,
            "sample": lambda _: self._told(self._ask("sampling/createMessage", SAMPLING)),
            "roots": lambda _: self._told(self._ask("roots/list", {})),
            "fail": lambda _: {"content": [{"type": "text", "text": "It failed."}], "isError": True, "_meta": META},
            "refuse": self._refuse,
            "touch": self._touch,
            "many": lambda _: {"content": [{"type": "text", "text": text} for text in ("one", "two")]},
        }
        self._methods: dict[str, Callable[[Json], Json]] = {
            "server/discover" if modern else "initialize": self._introduce,
            "ping": lambda _: {},
            "logging/setLevel": lambda _: {},
            "tools/list": lambda params: _page(TOOLS, "tools", params),
            "resources/list": lambda params: _page(RESOURCES, "resources", params),
            "resources/templates/list": lambda params: _page(TEMPLATES, "resourceTemplates", params),
            "prompts/list": lambda params: _page(PROMPTS, "prompts", params),
            "tools/call": lambda params: self._tools[params["name"]](params),
            "resources/read": _read,
            "prompts/get": _get,
            "completion/complete": _complete,
            **({} if modern else {"resources/subscribe": self._subscribe, "resources/unsubscribe": lambda _: {}}),
        }

    def serve(self) -> None:
        for message in iter(_received, None):
            if self._modern and message.get("method") == "subscriptions/listen":
                self._listen(message)
            elif "id" in message and "method" in message:
                self._answer(message)

    def _answer(self, message: Json) -> None:
        self._params = message.get("params") or {}
        method = self._methods.get(message["method"], _unknown)
        try:
            result = method(self._params)
            if self._modern:
                caching = {} if message["method"] in UNCACHED else {"ttlMs": 1_000, "cacheScope": "public"}
                result = {"resultType": "complete", **caching, **result}
            _send({"id": message["id"], "result": result})
        except Asked as asked:
            _send({"id": message["id"], "result": asked.result})
        except RpcFault as fault:
            _send({"id": message["id"], "error": fault.error})

    def _introduce(self, params: Json) -> Json:
        able: Json = {} if self._modern else {"listChanged": True}
        capabilities = {
            "tools": able,
            "resources": {**able, "subscribe": True},
            "prompts": able,
            "logging": {},
            "completions": {},
        }
        if self._modern:
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        server = {"name": "rich", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": server}

    def _rich(self, params: Json) -> Json:
        structured = {"text": params["arguments"].get("text"), "half": 0.5}
        return {"content": BLOCKS, "structuredContent": structured, "_meta": META}

    def _progress(self, params: Json) -> Json:
        token = params.get("_meta", {}).get("progressToken")
        for done in (0.25, 0.5, 1):
            said = {"progressToken": token, "progress": done, "total": 1, "message": f"{done} done"}
            _send({"method": "notifications/progress", "params": said})
            time.sleep(PAUSE)
        return self._told({"progress": "told"}, indent=2)

    def _logs(self, _: Json) -> Json:
        for level, data in (("info", "words\nand more"), ("error", {"code": 7, "list": [1, None]}), ("debug", 5)):
            _send({"method": "notifications/message", "params": {"level": level, "logger": "rich", "data": data}})
        return self._told({"logs": "told"})

    def _open(self, _: Json) -> Json:
        url = {key: value for key, value in URL.items() if not (self._modern and key == "elicitationId")}
        answer = self._ask("elicitation/create", url)
        if not self._modern:
            _send({"method": "notifications/elicitation/complete", "params": {"elicitationId": URL["elicitationId"]}})
            time.sleep(PAUSE)
        return self._told(answer)

    def _open_first(self, _: Json) -> Json:
        raise RpcFault(URL_REQUIRED, "Please sign in first.", {"elicitations": [URL]})

    def _subscribe(self, params: Json) -> Json:
        self._followed[params["uri"]] = {}
        return {}

    def _listen(self, message: Json) -> None:
        """Open until the connection ends."""
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        wanted = message["params"]["notifications"].get("resourceSubscriptions", [])
        taken = {"notifications": {"resourceSubscriptions": wanted}, "_meta": meta}
        _send({"method": "notifications/subscriptions/acknowledged", "params": taken})
        self._followed |= {uri: {"_meta": meta} for uri in wanted}

    def _touch(self, _: Json) -> Json:
        for uri, more in self._followed.items():
            _send({"method": "notifications/resources/updated", "params": {"uri": uri, **more}})
        return self._told({"followed": sorted(self._followed)})

    def _refuse(self, _: Json) -> Json:
        raise RpcFault(INVALID_PARAMS, "Refused by the server", {"why": ["because"]})

    def _told(self, value: Json, *, indent: int | None = None) -> Json:
        text = json.dumps(value, indent=indent, separators=None if indent else (",", ":"), ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}], "structuredContent": value}

    def _ask(self, method: str, params: Json) -> Json:
        """What the client says to a request of ours."""
        if self._modern:
            if "inputResponses" not in self._params:
                raise Asked(method, params)
            answer: Json = self._params["inputResponses"]["question"]
            return answer
        self._asked += 1
        number = f"ask-{self._asked}"
        _send({"id": number, "method": method, "params": params})
        for message in iter(_received, None):
            if message.get("id") == number and "method" not in message:
                found: Json = message.get("result") or {"refused": message["error"]["code"]}
                return found
            if "method" in message and "id" in message:
                self._answer(message)
        sys.exit()


def _unknown(_: Json) -> Json:
    raise RpcFault(METHOD_NOT_FOUND, "Method not found")


def _page(entries: list[Json], member: str, params: Json) -> Json:
    """Two a page, so that pages are followed."""
    start = int(params.get("cursor") or 0)
    more = {"nextCursor": str(start + 2)} if start + 2 < len(entries) else {}
    return {member: entries[start : start + 2], **more}


def _read(params: Json) -> Json:
    uri = params["uri"]
    if uri.startswith("rich://item/"):
        return {"contents": [{"uri": uri, "text": f"Item {uri.rpartition('/')[2]}"}], "_meta": META}
    if uri not in CONTENTS:
        raise RpcFault(INVALID_PARAMS if "modern" in sys.argv else -32002, "Resource not found", {"uri": uri})
    return {"contents": CONTENTS[uri]}


def _get(params: Json) -> Json:
    text = {"type": "text", "text": f"About {params['arguments']['topic']}"}
    blocks = [text, *BLOCKS]
    messages = [{"role": "assistant" if n else "user", "content": block} for n, block in enumerate(blocks)]
    return {"description": "What it came to", "messages": messages, "_meta": META}


def _complete(params: Json) -> Json:
    value = params["argument"]["value"]
    return {"completion": {"values": [f"{value}{n}" for n in range(3)], "total": 30, "hasMore": True}, "_meta": META}


def _received() -> Json | None:
    line = sys.stdin.readline()
    message: Json | None = json.loads(line) if line else None
    return message


def _send(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    RichServer(modern="modern" in sys.argv[1:]).serve()
