"""Requests about tools and calls: executing, records, kept tools, preferences, pending calls, their streams."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from conformance.wire.project import KEYS
from conformance.wire.snapshot import Snapshot

LEGACY, MODERN = "2025-11-25", "2026-07-28"
KEPT_TOOL = {
    "name": "kept",
    "description": "Kept in the store.",
    "inputSchema": {"type": "object"},
    "executionType": "internal",
    "visible": False,
}
NOT_A_CALL = "call_00000000000000000000000000000000"


def keys(s: Snapshot) -> None:
    for key in (None, "wrong", *KEYS):
        s.ask(f"keys: calls as {key}", "GET", "/api/v1/calls?limit=1", key=key)
        s.ask(f"keys: execute as {key}", "POST", "/api/v1/tools/add/execute", {"arguments": {"a": 1}}, key=key)
        s.ask(f"keys: boom as {key}", "POST", "/api/v1/tools/boom/execute", {}, key=key)
        s.ask(f"keys: agents as {key}", "GET", "/api/agents/concierge", key=key)
        s.ask(f"keys: sources as {key}", "GET", "/api/v1/sources/local", key=key)
        s.ask(f"keys: login as {key}", "GET", "/api/login", key=key)
    s.ask("keys: x-api-key", "GET", "/api/login", key=None, headers={"x-api-key": KEYS["caller"]})
    s.ask("keys: x-secret-key", "GET", "/api/login", key=None, headers={"x-secret-key": KEYS["caller"]})
    s.ask("keys: wrong host", "GET", "/healthz", headers={"host": "evil.example"})
    s.ask("keys: wrong origin", "GET", "/api/v1/tools", headers={"origin": "http://evil.example"})
    s.ask("keys: log in by key", "POST", "/api/login", {})
    s.ask("keys: log in by a wrong code", "POST", "/api/login", {"code": "nope"}, key=None)
    s.ask("keys: log in badly", "POST", "/api/login", {"code": 5}, key=None)
    s.ask("keys: log out", "POST", "/api/logout", key=None)


def routes_without_input(s: Snapshot) -> None:
    for path in ("/healthz", "/readyz", "/", "/icon.svg", "/page.css", "/page.js", "/no/such/path", "/assets/none.js"):
        s.ask(f"open: {path}", "GET", path, key=None)
    s.ask("readyz with a key", "GET", "/readyz")
    for path in ("/api/console/tools", "/api/console/tools/none.js", "/api/v1/sources", "/api/v1/sources/local"):
        s.ask(f"listing: {path}", "GET", path)
    for path in (
        "/api/v1/sources/none",
        "/api/v1/workers",
        "/api/v1/workers/none/log",
        "/v1/models",
        "/v1/models/demo",
    ):
        s.ask(f"listing: {path}", "GET", path)
    s.ask("listing: no model", "GET", "/v1/models/none")
    s.ask("method not allowed", "DELETE", "/healthz")
    s.ask("method not allowed, tools", "PATCH", "/api/v1/tools")
    s.ask("head", "HEAD", "/healthz")
    s.ask("options", "OPTIONS", "/api/v1/tools", headers={"origin": "http://evil.example"})


def tools(s: Snapshot) -> None:
    listed = s.ask("tools: all", "GET", "/api/v1/tools")
    s.ask("tools: all for a limited key", "GET", "/api/v1/tools", key="limited")
    for tool in listed["tools"]:
        s.ask(f"tools: {tool['name']}", "GET", f"/api/v1/tools/{tool['name']}")
    s.ask("tools: unknown", "GET", "/api/v1/tools/none")
    s.ask("tools: search", "GET", "/api/v1/tools/search?q=add+numbers&limit=3")
    for query in ("", "?q=", "?q=x&limit=0", "?q=x&limit=a", "?q=x&more=1", "?q=zzzzzz"):
        s.ask(f"tools: search {query}", "GET", f"/api/v1/tools/search{query}")
    for path in ("/api/v1/tools/add/diff", "/api/v1/tools/up_test_simple_text/diff", "/api/v1/sources/upstream/diff"):
        s.ask(f"pins: {path}", "GET", path)
    s.ask("pins: accept one", "POST", "/api/v1/tools/up_test_simple_text/accept", {})
    s.ask("pins: accept an own one", "POST", "/api/v1/tools/add/accept", {})
    s.ask("pins: accept with a wrong digest", "POST", "/api/v1/tools/up_test_simple_text/accept", {"digest": "x"})
    s.ask("pins: accept all", "POST", "/api/v1/sources/upstream/accept", {})
    s.ask("pins: accept of no source", "POST", "/api/v1/sources/none/accept", {})


def executing(s: Snapshot) -> None:
    good: dict[str, Mapping[str, Any]] = {
        "add": {"a": 2, "b": 3},
        "echo": {"text": "ü"},
        "nothing": {},
        "boom": {"reason": "out of luck"},
        "sleeper": {},
        "steps": {},
        "settings": {},
        "in_worker": {"text": "x"},
        "worker_boom": {},
        "fetch": {"q": "x"},
        "fetch_broken": {},
        "getOrder": {"id": 7},
        "show_chart": {"title": "T"},
        "up_test_simple_text": {},
        "up_test_image_content": {},
        "up_test_multiple_content_types": {},
        "up_test_error_handling": {},
        "job": {},
        "asleep": {},
        "none": {},
    }
    for tool, arguments in good.items():
        execute(s, f"execute: {tool}", tool, arguments)
    wrong: dict[str, dict[str, Any]] = {"a type": {"a": "x"}, "a lack": {}, "too many": {"a": 1, "z": 2}}
    for name, bad in wrong.items():
        execute(s, f"execute: add with {name} wrong", "add", bad)
    path = "/api/v1/tools/add/execute"
    bodies: dict[str, Any] = {"a list": [1], "unknown field": {"argumnts": {}}, "wrong arguments": {"arguments": 5}}
    for name, body in bodies.items():
        s.ask(f"execute: body is {name}", "POST", path, body)
    s.ask("execute: no JSON", "POST", path, content=b"{", headers={"content-type": "application/json"})
    s.ask("execute: not JSON", "POST", path, content=b"a=1", headers={"content-type": "text/plain"})
    s.ask("execute: no body", "POST", path)
    s.ask("execute: latin", "POST", path, content=b'{"a": "\xff"}', headers={"content-type": "application/json"})
    execute(s, "execute: rare", "rare", {})
    execute(s, "execute: rare again", "rare", {})
    more = {"agent": "concierge", "run_id": "run_x", "space_id": "lobby", "chat_id": "c"}
    s.ask("execute: with an agent and a space", "POST", path, {"arguments": {"a": 1}, **more})
    for turn in ("first", "again", "other body"):
        body = {"arguments": {"a": 2 if turn == "other body" else 1}}
        s.ask(f"execute: idempotency key, {turn}", "POST", path, body, headers={"idempotency-key": "k1"})
    s.ask("execute: idempotency key too long", "POST", path, {}, headers={"idempotency-key": "k" * 300})


def records(s: Snapshot) -> None:
    large = execute(s, "execute: large", "large", {})
    for query in ("", "?limit=1024", "?offset=99999999", "?limit=0"):
        s.ask(f"large result {query}", "GET", f"/api/v1/calls/{large['call_id']}/result{query}")
    call = execute(s, "execute: for its record", "add", {"a": 1})["call_id"]
    s.ask("calls: one", "GET", f"/api/v1/calls/{call}")
    s.ask("calls: its result", "GET", f"/api/v1/calls/{call}/result")
    s.ask("calls: of another key", "GET", f"/api/v1/calls/{call}", key="limited")
    s.ask("calls: unknown", "GET", f"/api/v1/calls/{NOT_A_CALL}")
    s.ask("calls: wait too long", "GET", f"/api/v1/calls/{call}?wait=100000")
    for query in (
        "?tool=add&limit=2",
        "?status=failed&limit=3",
        "?status=nonsense",
        "?limit=0",
        "?cursor=x&limit=1",
        "?x=1",
    ):
        s.ask(f"calls: {query}", "GET", f"/api/v1/calls{query}")
    s.ask("calls: cancel a settled one", "POST", f"/api/v1/calls/{call}/cancel")
    s.ask("calls: cancel none", "POST", f"/api/v1/calls/{NOT_A_CALL}/cancel")
    s.ask("workers: all", "GET", "/api/v1/workers")
    s.ask(
        "by scenario", "POST", "/api/v1/tools/execute", {"scenario": "local", "tool_name": "add", "arguments": {"a": 1}}
    )
    s.ask("by scenario: unknown", "POST", "/api/v1/tools/execute", {"scenario": "none", "tool_name": "add"})
    s.ask("by scenario: badly", "POST", "/api/v1/tools/execute", {"tool_name": ""})


def execute(s: Snapshot, name: str, tool: str, arguments: Mapping[str, Any], *, key: str = "admin") -> Any:
    return s.ask(name, "POST", f"/api/v1/tools/{tool}/execute", {"arguments": arguments}, key=key)


def kept_tools(s: Snapshot) -> None:
    s.ask("kept: create", "POST", "/api/v1/tools", KEPT_TOOL)
    s.ask("kept: create again", "POST", "/api/v1/tools", KEPT_TOOL)
    s.ask("kept: create as caller", "POST", "/api/v1/tools", {**KEPT_TOOL, "name": "k2"}, key="caller")
    for name, body in {"no name": {"description": "x"}, "a bad kind": {**KEPT_TOOL, "executionType": "x"}}.items():
        s.ask(f"kept: create with {name}", "POST", "/api/v1/tools", body)
    s.ask(
        "kept: a bad schema", "POST", "/api/v1/tools", {**KEPT_TOOL, "name": "k3", "inputSchema": {"type": "nonsense"}}
    )
    s.ask("kept: call", "POST", "/api/v1/tools/kept/execute", {"arguments": {"x": 1}})
    s.ask("kept: change", "PUT", "/api/v1/tools/kept", {"description": "Changed."})
    s.ask("kept: change a tool of the config", "PUT", "/api/v1/tools/fetch", {"description": "Changed."})
    s.ask("kept: change none", "PUT", "/api/v1/tools/none", {"description": "Changed."})
    s.ask("kept: remove", "DELETE", "/api/v1/tools/kept")
    s.ask("kept: remove again", "DELETE", "/api/v1/tools/kept")
    declared = [{"name": "declared", "description": "D", "inputSchema": {"type": "object"}}]
    s.ask("declared: put", "PUT", "/api/v1/sources/server/tools", {"tools": declared})
    s.ask("declared: badly", "PUT", "/api/v1/sources/server/tools", {"tools": [{"name": 5}]})
    s.ask("declared: over a source of the config", "PUT", "/api/v1/sources/local/tools", {"tools": declared})
    s.ask("declared: none left", "PUT", "/api/v1/sources/server/tools", {"tools": []})


def preferences(s: Snapshot) -> None:
    tool = {"scenario": "local", "tool_name": "echo"}
    s.ask("set: before", "GET", "/api/v1/tools/set?chat_id=c1")
    s.ask("set: scenarios", "GET", "/api/v1/tools/scenarios")
    s.ask("set: disable", "POST", "/api/v1/tools/config", {**tool, "enabled": False, "chat_id": "c1"})
    s.ask("set: disabled call", "POST", "/api/v1/tools/echo/execute", {"arguments": {"text": "x"}, "chat_id": "c1"})
    s.ask("set: disable badly", "POST", "/api/v1/tools/config", {**tool, "enabled": "no"})
    s.ask(
        "set: disable an unknown tool", "POST", "/api/v1/tools/config", {**tool, "tool_name": "none", "enabled": False}
    )
    s.ask("set: ask first", "POST", "/api/v1/tools/config/approval", {**tool, "approval_override": "require"})
    s.ask("set: ask wrongly", "POST", "/api/v1/tools/config/approval", {**tool, "approval_override": "maybe"})
    s.ask("set: call asks first", "POST", "/api/v1/tools/echo/execute", {"arguments": {"text": "x"}})
    for chat in ("&chat_id=c1", ""):
        s.ask(f"set: reset {chat}", "DELETE", f"/api/v1/tools/config?scenario=local&tool_name=echo{chat}")
    s.ask("set: reset badly", "DELETE", "/api/v1/tools/config")
    s.ask("set: refresh", "POST", "/api/v1/tools/refresh")
    s.ask("set: as caller", "GET", "/api/v1/tools/set", key="caller")


def pending(s: Snapshot) -> None:
    for decision, body in {"approve": {"arguments": {"amount": 6}}, "reject": {"reason": "Too much."}}.items():
        call = execute(s, f"approval: asked, then {decision}", "guarded", {"amount": 5})["call_id"]
        s.ask(f"approval: record before {decision}", "GET", f"/api/v1/calls/{call}")
        s.ask(f"approval: {decision} as reader", "POST", f"/api/v1/calls/{call}/{decision}", body, key="reader")
        s.ask(f"approval: {decision} badly", "POST", f"/api/v1/calls/{call}/{decision}", {"reason": 5, "arguments": 5})
        s.ask(f"approval: {decision}", "POST", f"/api/v1/calls/{call}/{decision}", body)
        s.ask(f"approval: after {decision}", "GET", f"/api/v1/calls/{call}?wait=10")
        s.ask(f"approval: {decision} again", "POST", f"/api/v1/calls/{call}/{decision}", body)
    s.ask("approval: of no call", "POST", f"/api/v1/calls/{NOT_A_CALL}/approve", {})
    call = execute(s, "approval: asked for wrong arguments", "guarded", {"amount": 5})["call_id"]
    s.ask("approval: with wrong arguments", "POST", f"/api/v1/calls/{call}/approve", {"arguments": {"amount": "x"}})
    s.ask("approval: cancelled", "POST", f"/api/v1/calls/{call}/cancel")
    for name, value in {"null": None, "false": False, "an object": {"ok": True}}.items():
        call_id, run = later(s, f"results: asked for {name}")
        s.ask(f"results: {name}", "POST", f"/api/runs/{run}/tool-results", {"callId": call_id, "result": value})
        s.ask(f"results: {name} again", "POST", f"/api/runs/{run}/tool-results", {"callId": call_id, "result": value})
        s.ask(f"results: record of {name}", "GET", f"/api/v1/calls/{call_id}")
    call_id, run = later(s, "results: asked for an error")
    s.ask("results: of another run", "POST", "/api/runs/run_other/tool-results", {"callId": call_id, "result": 1})
    s.ask("results: no call id", "POST", f"/api/runs/{run}/tool-results", {"result": 1})
    s.ask("results: neither", "POST", f"/api/runs/{run}/tool-results", {"callId": call_id})
    s.ask("results: both", "POST", f"/api/runs/{run}/tool-results", {"callId": call_id, "result": 1, "error": "x"})
    s.ask("results: unknown call", "POST", f"/api/runs/{run}/tool-results", {"callId": NOT_A_CALL, "result": 1})
    s.ask("results: as reader", "POST", f"/api/runs/{run}/tool-results", {"callId": call_id, "result": 1}, key="reader")
    s.ask("progress", "POST", f"/api/v1/calls/{call_id}/progress", {"progress": 1, "total": 2, "message": "half"})
    s.ask("progress badly", "POST", f"/api/v1/calls/{call_id}/progress", {"progress": "x"})
    s.ask("progress of no call", "POST", f"/api/v1/calls/{NOT_A_CALL}/progress", {"progress": 1})
    s.ask("results: an error", "POST", f"/api/runs/{run}/tool-results", {"callId": call_id, "error": "It broke."})
    for tool, answer in {"job_later": {"fine": True}, "guarded": {"approve": True}}.items():
        asked = execute(s, f"callbacks: asked {tool}", tool, {"amount": 5} if tool == "guarded" else {})
        record = s.ask(f"callbacks: record of {tool}", "GET", f"/api/v1/calls/{asked['call_id']}")["call"]
        signed = str(next(record[url] for url in ("callback_url", "approval_url") if record.get(url)))
        path = signed[signed.index("/api/v1/") :]
        s.ask(f"callbacks: look at {tool}", "GET", path, key=None)
        s.ask(f"callbacks: answer {tool}", "POST", path, answer, key=None)
        s.ask(f"callbacks: answer {tool} again", "POST", path, answer, key=None)
    s.ask("callbacks: wrong token", "POST", "/api/v1/callbacks/nonsense", {}, key=None)


def later(s: Snapshot, name: str, **more: Any) -> tuple[str, str]:
    asked = s.ask(name, "POST", "/api/v1/tools/job_later/execute", {"arguments": {}, **more})
    return asked["call_id"], asked["run_id"]


def streams(s: Snapshot) -> None:
    to_tool = "/api/v1/tools/{}/execute"
    for tool in ("steps", "boom", "guarded"):
        body = {"arguments": {"amount": 1} if tool == "guarded" else {}}
        s.stream(
            f"stream: execute {tool}", to_tool.format(tool), method="POST", body=body, until=is_event("call.result")
        )
    act = acting(s, "stream: a call beside", "POST", to_tool.format("steps"), {"arguments": {}})
    s.stream("stream: calls", "/api/v1/calls/stream?tool=steps", until=with_status("completed"), act=act)
    act = acting(s, "stream: a pending call beside", "POST", to_tool.format("job_later"), {"arguments": {}})
    s.stream("stream: pending calls", "/api/v1/calls/stream?status=pending&tool=job_later", until=any_event, act=act)
    s.ask("stream: calls badly", "GET", "/api/v1/calls/stream?status=nonsense")
    offered: list[Any] = []

    def call_job() -> None:
        offered.append(s.ask("stream: a call for a server", "POST", to_tool.format("job"), {"arguments": {"x": 1}}))

    path = "/api/tools/stream?tools=job&client=c1"
    s.stream("stream: tool server", path, until=lambda _, data: data.get("type") == "tool.call", act=call_job)
    s.ask("stream: tool server badly", "GET", "/api/tools/stream?tools=")
    s.ask("stream: tool server as reader", "GET", "/api/tools/stream?tools=job", key="reader")
    act = acting(s, "stream: another tool", "POST", "/api/v1/tools", {**KEPT_TOOL, "name": "kept_later"})
    s.stream("stream: changes", "/api/v1/tools/changes", until=is_event("tools.changed"), act=act)


def acting(s: Snapshot, name: str, method: str, path: str, body: Any) -> Callable[[], None]:
    return lambda: s.ask(name, method, path, body)


def any_event(event: str, data: Any) -> bool:
    return event != "connected" and not (isinstance(data, dict) and data.get("type") == "connected")


def is_event(name: str) -> Callable[[str, Any], bool]:
    return lambda event, data: event.startswith(name) or (isinstance(data, dict) and data.get("type") == name)


def with_status(status: str) -> Callable[[str, Any], bool]:
    return lambda _, data: f'"status": "{status}"' in json.dumps(data)
