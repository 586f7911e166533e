"""All requests of the snapshot, in order: every route with good and bad input, and every kind of stream."""

import sys
import traceback
from typing import Any

from conformance.wire import calls, conversations
from conformance.wire.snapshot import Snapshot, normal


def request_all(snapshot: Snapshot) -> dict[str, Any]:
    """Everything, in an order in which one thing can build on another."""
    document = snapshot.ask("openapi", "GET", "/openapi.json")
    snapshot.taken.clear()
    for part in PARTS:
        sys.stderr.write(f"{part.__name__}\n")
        try:
            part(snapshot)
        except Exception as fault:  # noqa: BLE001 - an answer that the next request cannot build on is a difference too
            sys.stderr.write(f"{traceback.format_exc()}\n")
            snapshot.keep(f"{part.__name__} broke off", {"fault": normal(repr(fault))})
    sys.stderr.write("every_route\n")
    every_route(snapshot, document)
    metrics(snapshot)
    return {"openapi": normal(document), "requests": snapshot.taken}


def hostile(s: Snapshot) -> None:
    json_type = {"content-type": "application/json"}
    for name, content in {
        "deep": b'{"arguments": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        "big": b'{"arguments": {"text": "' + b"x" * 20_000_000 + b'"}}',
        "twice": b'{"arguments": {"a": 1, "a": 2}}',
        "huge number": b'{"arguments": {"a": 1e999}}',
        "surrogate": b'{"arguments": {"text": "\\ud800"}}',
    }.items():
        s.ask(f"hostile: {name}", "POST", "/api/v1/tools/add/execute", content=content, headers=json_type)
    s.ask("hostile: path", "GET", "/assets/..%2f..%2fapp.py", key=None)
    s.ask("hostile: name", "GET", "/api/v1/tools/" + "x" * 5000)


def every_route(s: Snapshot, document: Any) -> None:
    """Every documented route with nothing, with nonsense, and without a key."""
    streams_for_ever = {"/api/tools/stream", "/api/v1/tools/changes", "/api/v1/calls/stream", "/mcp"}
    for path, methods in sorted(document["paths"].items()):
        for method in sorted(set(methods) & {"get", "post", "put", "patch", "delete"}):
            there = path.replace("{", "no-").replace("}", "")
            if method == "get" and path in {*streams_for_ever, "/openapi.json"}:
                continue
            s.ask(f"every route: {method} {path} without a key", method.upper(), there, key=None)
            s.ask(f"every route: {method} {path}", method.upper(), there, shape_only=True)
            if method != "get":
                s.ask(f"every route: {method} {path} with nonsense", method.upper(), there, {"nonsense": 1})
                s.ask(f"every route: {method} {path} with a list", method.upper(), there, [])
                s.ask(f"every route: {method} {path} as reader", method.upper(), there, {}, key="reader")
            s.ask(f"every route: {method} {path} with a query", method.upper(), f"{there}?nonsense=1", shape_only=True)


def metrics(s: Snapshot) -> None:
    """The names and labels of the metrics; their values are chance."""
    lines = s.ask("metrics", "GET", "/metrics").splitlines()
    kinds = sorted({line for line in lines if line.startswith("# TYPE")})
    names = sorted({line.rpartition(" ")[0].split('le="')[0] for line in lines if line and not line.startswith("#")})
    s.taken["metrics"] = {"kinds": kinds, "names": sorted({name.partition("{")[0] for name in names})}


PARTS = (
    calls.keys,
    calls.routes_without_input,
    calls.tools,
    calls.executing,
    calls.records,
    calls.kept_tools,
    calls.preferences,
    calls.pending,
    calls.streams,
    conversations.agents,
    conversations.spaces,
    conversations.responses,
    conversations.response_streams,
    conversations.sockets,
    conversations.mcp_legacy,
    conversations.mcp_modern,
    conversations.sessions,
    hostile,
)
