"""An MCP server with tasks, on a port, inside the test's process: of 2026-07-28, or of 2025-11-25 with core tasks.

The SDK has no tasks, so its messages are written by hand. A test decides when a task goes on:

    async with task_upstream() as upstream:                # or CORE
        …
        upstream.task.finish("done")
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.waiting import eventually_async

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
NEEDED: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SCHEMA = {"type": "object", "properties": {}}
AT = "2026-07-28T10:00:00Z"
MODERN, CORE = "2026-07-28", "2025-11-25"
ELICIT = "elicitation/create"
QUESTION = {
    "method": ELICIT,
    "params": {
        "mode": "form",
        "message": "Really?",
        "requestedSchema": {
            "type": "object",
            "properties": {"sure": {"type": "boolean"}, "why": {"type": "string", "default": "because"}},
            "required": ["sure"],
        },
    },
}


class RpcFault(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


class UpstreamTask:
    """One task, moved by the test."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.status = "working"
        self.message: str | None = None
        self.result: Any = None
        self.error: Any = None
        self.asked: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        self.looks = 0

    def finish(self, text: str, *, is_error: bool = False, structured: Any = None) -> None:
        self.result = {"content": [{"type": "text", "text": text}], "isError": is_error}
        if structured is not None:
            self.result["structuredContent"] = structured
        self.status = "completed"

    def fail(self, code: int, message: str) -> None:
        self.status, self.error = "failed", {"code": code, "message": message}

    def reply(self, key: str, given: Any) -> None:
        if self.asked.pop(key, None) is not None:
            self.answers[key] = given
        if self.status == "input_required" and not self.asked:
            self.status = "working"

    def ask(self, *keys: str) -> None:
        self.status, self.asked = "input_required", dict.fromkeys(keys, QUESTION)


class TaskUpstream:
    """The server. Tools: `plain`, `may` (a task if the client takes one), `must` (only a task)."""

    def __init__(self, *, core: bool, output: bool = False) -> None:
        self.core = core
        self.output = output
        self.url = ""
        self.tasks: dict[str, UpstreamTask] = {}
        self.forgotten = False
        self.calls: list[str] = []
        self.poll = 20
        self.id_prefix = "task-"

    @property
    def config(self) -> str:
        return f'[sources.far]\nkind = "mcp"\nurl = "{self.url}"\n'

    @property
    def task(self) -> UpstreamTask:
        """The newest."""
        return list(self.tasks.values())[-1]

    async def answer(self, request: Request) -> Response:
        message = await request.json()
        if "method" not in message:
            self.task.reply(message["id"], message["result"])
        if "id" not in message or "method" not in message:
            return Response(status_code=202)
        if message["method"] == "tasks/result" and self.core and not self.forgotten:
            return StreamingResponse(self._asked_and_told(message), media_type="text/event-stream")
        try:
            result = await self._result(message["method"], message.get("params", {}))
        except RpcFault as fault:
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": fault.error})
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def _asked_and_told(self, message: dict[str, Any]) -> AsyncIterator[bytes]:
        """The result of a task of 2025-11-25; what it asks comes before, as requests."""
        task = self.tasks[message["params"]["taskId"]]
        related = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": task.id}}}
        for key, question in list(task.asked.items()):
            yield _event({"jsonrpc": "2.0", "id": key, "method": ELICIT, "params": {**question["params"], **related}})
        await eventually_async(lambda: task.status not in ("working", "input_required"))
        told = {"error": task.error} if task.error is not None else {"result": {**task.result, **related}}
        yield _event({"jsonrpc": "2.0", "id": message["id"], **told})

    async def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "tools/call":
            self.calls.append(params["name"])
            return self._call(params)
        if method == "tools/list":
            return self._whole({"tools": [self._tool(name) for name in ("plain", "may", "must")]}, ttlMs=0)
        if method.startswith("tasks/"):
            return await self._about_task(method, params)
        if method == "server/discover" and not self.core:
            capabilities: dict[str, Any] = {"tools": {}, "extensions": {TASKS: {}}}
            return self._whole({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
        if method == "initialize" and self.core:
            tasks: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
            capabilities = {"tools": {}, "tasks": tasks}
            server = {"name": "tasks", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server}
        raise RpcFault(-32601, f"no {method}")

    def _tool(self, name: str) -> dict[str, Any]:
        support = {"may": "optional", "must": "required"}.get(name)
        execution = {"execution": {"taskSupport": support}} if self.core and support else {}
        output = {"outputSchema": OUTPUT} if self.output else {}
        return {"name": name, "description": name, "inputSchema": SCHEMA, **execution, **output}

    def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params["name"]
        declared = params.get("_meta", {}).get(CAPABILITIES, {}).get("extensions", {})
        takes_task = "task" in params if self.core else TASKS in declared
        if name == "must" and not takes_task:
            raise RpcFault(-32601 if self.core else -32021, "only as a task", None if self.core else NEEDED)
        if name == "plain" or not takes_task:
            return self._whole({"content": [{"type": "text", "text": f"{name} at once"}]})
        task = UpstreamTask(f"{self.id_prefix}{len(self.tasks) + 1}")
        self.tasks[task.id] = task
        return {"task": self._fields(task)} if self.core else {"resultType": "task", **self._fields(task)}

    async def _about_task(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        task = self.tasks.get(params["taskId"])
        if task is None or self.forgotten:
            raise RpcFault(-32602, "no such task")
        if method == "tasks/get":
            task.looks += 1
            return self._fields(task) if self.core else self._whole(self._fields(task) | self._outcome(task))
        if method == "tasks/cancel":
            task.status = "cancelled"
            return self._fields(task) if self.core else self._whole({})
        if method == "tasks/update" and not self.core:
            for key, given in params["inputResponses"].items():
                task.reply(key, given)
            return self._whole({})
        raise RpcFault(-32601, f"no {method}")

    def _fields(self, task: UpstreamTask) -> dict[str, Any]:
        poll, ttl = ("pollInterval", "ttl") if self.core else ("pollIntervalMs", "ttlMs")
        fields = {"taskId": task.id, "status": task.status, "createdAt": AT, "lastUpdatedAt": AT, ttl: 60_000}
        fields[poll] = self.poll
        return fields if task.message is None else {**fields, "statusMessage": task.message}

    def _outcome(self, task: UpstreamTask) -> dict[str, Any]:
        if task.status == "input_required":
            return {"inputRequests": task.asked}
        if task.status == "completed":
            return {"result": task.result}
        return {"error": task.error} if task.status == "failed" else {}

    def _whole(self, result: dict[str, Any], **more: Any) -> dict[str, Any]:
        return result if self.core else {"resultType": "complete", **result, **more}


def _event(message: dict[str, Any]) -> bytes:
    return b"event: message\ndata: %b\n\n" % json.dumps(message).encode()


@asynccontextmanager
async def task_upstream(era: str = MODERN, *, output: bool = False) -> AsyncIterator[TaskUpstream]:
    upstream = TaskUpstream(core=era == CORE, output=output)
    app = Starlette(routes=[Route("/mcp", upstream.answer, methods=["POST"])])
    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    await eventually_async(lambda: server.started)
    upstream.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    try:
        yield upstream
    finally:
        server.should_exit = True
        await serving
