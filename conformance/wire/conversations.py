"""Requests of agents, spaces, Responses, MCP, sessions, and what comes over their streams and sockets."""

import json
import time
from typing import Any

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from conformance.wire.calls import acting, is_event
from conformance.wire.project import KEYS
from conformance.wire.snapshot import Snapshot, normal

WITHIN = 20.0
LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
TALK = {"accept": "application/json, text/event-stream"}
KEPT_TOOL = {
    "name": "kept",
    "description": "Kept in the store.",
    "inputSchema": {"type": "object"},
    "executionType": "internal",
    "visible": False,
}


def agents(s: Snapshot) -> None:
    s.ask("agents: all", "GET", "/api/agents")
    s.ask("agents: all for an agent's key", "GET", "/api/agents", key="agent")
    s.ask("agents: unknown", "GET", "/api/agents/none")
    s.ask("agents: create", "POST", "/api/agents", {"id": "made", "model": "demo", "instructions": "x", "maxSteps": 3})
    s.ask("agents: create again", "POST", "/api/agents", {"id": "made", "model": "demo"})
    s.ask("agents: create with a wrong id", "POST", "/api/agents", {"id": "a b", "model": "demo"})
    s.ask("agents: create with no such model", "POST", "/api/agents", {"id": "made2", "model": "none"})
    s.ask("agents: create badly", "POST", "/api/agents", {"id": "made3", "maxSteps": 0})
    s.ask("agents: change", "PATCH", "/api/agents/made", {"description": "New"})
    s.ask("agents: change one of the config", "PATCH", "/api/agents/helper", {"description": "New"})
    for kind, value in {
        "memories": [{"key": "k", "value": "v"}],
        "goals": [{"description": "Win", "priority": 1}],
        "plans": [{"name": "p", "instruction": "Do it", "runAfter": "2 hours"}, {"name": "c", "cron": "0 9 * * 1"}],
    }.items():
        s.ask(f"agents: put {kind}", "PUT", f"/api/agents/made/{kind}", {kind: value})
        s.ask(f"agents: get {kind}", "GET", f"/api/agents/made/{kind}")
        s.ask(f"agents: put {kind} badly", "PUT", f"/api/agents/made/{kind}", {kind: [{"x": 1}]})
        s.ask(f"agents: get {kind} of none", "GET", f"/api/agents/none/{kind}")
    s.ask("agents: trigger", "POST", "/api/agents/made/trigger", {"serviceName": "clock", "payload": {"x": 1}})
    s.ask("agents: trigger badly", "POST", "/api/agents/made/trigger", {"payload": 1})
    s.ask("agents: trigger none", "POST", "/api/agents/none/trigger", {"serviceName": "clock"})
    _until_cycle(s, "made", 1)
    s.ask("agents: cycles", "GET", "/api/agents/made/cycles")
    s.ask("agents: cycles badly", "GET", "/api/agents/made/cycles?limit=0")
    s.ask("agents: inbox", "GET", "/api/agents/made/inbox")
    s.ask("agents: inbox by status", "GET", "/api/agents/made/inbox?status=processed")
    s.ask("agents: inbox badly", "GET", "/api/agents/made/inbox?status=x")
    s.ask("agents: remove", "DELETE", "/api/agents/made")
    s.ask("agents: remove again", "DELETE", "/api/agents/made")
    s.ask("agents: remove one of the config", "DELETE", "/api/agents/helper")


def _until_cycle(s: Snapshot, agent: str, number: int) -> None:
    """Until that cycle of the agent is over."""
    end = time.monotonic() + WITHIN
    while time.monotonic() < end:
        cycles = s.ask("waiting", "GET", f"/api/agents/{agent}/cycles?limit=1")["cycles"]
        del s.taken["waiting"]
        if cycles and cycles[0]["number"] >= number and cycles[0]["status"] != "open":
            return
        time.sleep(0.05)


def spaces(s: Snapshot) -> None:
    for base in ("/api/spaces", "/api/smart-spaces"):
        ident = base.rpartition("/")[2]
        s.ask(f"{ident}: all", "GET", base)
        s.ask(f"{ident}: create", "POST", base, {"id": ident, "name": "A space", "description": "d"})
        s.ask(f"{ident}: create again", "POST", base, {"id": ident, "name": "A space"})
        s.ask(f"{ident}: create badly", "POST", base, {"id": "a b", "name": 5})
        s.ask(f"{ident}: one", "GET", f"{base}/{ident}")
        s.ask(f"{ident}: unknown", "GET", f"{base}/none")
        s.ask(f"{ident}: change", "PATCH", f"{base}/{ident}", {"name": "B space"})
        s.ask(f"{ident}: add a member", "POST", f"{base}/{ident}/members", {"entityId": "ada", "name": "Ada"})
        s.ask(f"{ident}: add badly", "POST", f"{base}/{ident}/members", {"name": "Ada"})
        s.ask(f"{ident}: members", "GET", f"{base}/{ident}/members")
        s.ask(f"{ident}: say", "POST", f"{base}/{ident}/messages", {"entityId": "ada", "content": "hello"})
        s.ask(f"{ident}: say nothing", "POST", f"{base}/{ident}/messages", {"entityId": "ada"})
        s.ask(
            f"{ident}: say more",
            "POST",
            f"{base}/{ident}/messages",
            {"entityId": "bob", "content": "hi", "metadata": {}},
        )
        s.ask(f"{ident}: messages", "GET", f"{base}/{ident}/messages?limit=5")
        s.ask(f"{ident}: messages after", "GET", f"{base}/{ident}/messages?afterSeq=1")
        s.ask(f"{ident}: messages badly", "GET", f"{base}/{ident}/messages?limit=0")
        s.ask(f"{ident}: read", "PATCH", f"{base}/{ident}/read", {"entityId": "ada", "seq": 1})
        s.ask(f"{ident}: read badly", "PATCH", f"{base}/{ident}/read", {"seq": "x"})
        s.ask(f"{ident}: remove a member", "DELETE", f"{base}/{ident}/members/ada")
        s.ask(f"{ident}: remove no member", "DELETE", f"{base}/{ident}/members/nobody")
        s.stream(
            f"{ident}: stream from the start", f"{base}/{ident}/stream?afterSeq=0", until=is_event("space.message")
        )
        s.ask(f"{ident}: stream badly", "GET", f"{base}/{ident}/stream?afterSeq=x")
        s.ask(f"{ident}: remove", "DELETE", f"{base}/{ident}")
        s.ask(f"{ident}: remove again", "DELETE", f"{base}/{ident}")
    _a_cycle_in_the_lobby(s)


def _a_cycle_in_the_lobby(s: Snapshot) -> None:
    path = "/api/spaces/lobby"
    say = acting(s, "lobby: ask", "POST", f"{path}/messages", {"entityId": "ada", "content": "please ask"})
    s.stream("lobby: the agent asks", f"{path}/stream", until=is_event("agent.inactive"), act=say)
    _until_cycle(s, "concierge", 1)
    s.ask("lobby: messages", "GET", f"{path}/messages")
    calls = s.ask("lobby: what waits", "GET", "/api/v1/calls?tool=confirm&status=pending")["calls"]
    body = {"callId": calls[0]["id"], "result": {"confirmed": True}}
    answer = acting(s, "lobby: answer", "POST", f"/api/runs/{calls[0]['run_id']}/tool-results", body)
    s.stream("lobby: the agent tells", f"{path}/stream", until=is_event("agent.inactive"), act=answer)
    _until_cycle(s, "concierge", 2)
    s.ask("lobby: messages at the end", "GET", f"{path}/messages")
    s.ask("lobby: what the agent remembers", "GET", "/api/agents/concierge/memories")
    s.ask("lobby: its inbox", "GET", "/api/agents/concierge/inbox")
    s.ask("lobby: its cycles", "GET", "/api/agents/concierge/cycles")
    s.ask("lobby: one", "GET", path)
    runs = s.ask("runs: of the agent", "GET", "/api/runs?agent=concierge")["runs"]
    s.ask("runs: one", "GET", f"/api/runs/{runs[0].get('id') or runs[0].get('runId')}")
    s.stream(
        "runs: its stream", f"/api/runs/{runs[0].get('id') or runs[0].get('runId')}/stream", until=lambda *_: False
    )
    s.ask("runs: unknown", "GET", "/api/runs/none")
    s.ask("runs: stream of none", "GET", "/api/runs/none/stream")
    s.ask("runs: badly", "GET", "/api/runs?limit=0")


CATALOG = {"type": "mcp", "server_label": "jackfield"}
FUNCTION = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
GOOD: dict[str, dict[str, Any]] = {
    "plain": {"input": "hi"},
    "items": {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "think"}]}]},
    "refused": {"input": "refuse"},
    "broken": {"input": "break"},
    "too long": {"input": "too long"},
    "function": {"input": "weather", "tools": [FUNCTION]},
    "catalog": {"input": "add", "tools": [CATALOG]},
    "catalog by its own name": {"input": "add", "tools": [{"type": "jackfield:catalog", "tools": ["add"]}]},
    "approval": {"input": "pay", "tools": [CATALOG]},
    "approval by request": {"input": "add", "tools": [{**CATALOG, "require_approval": "always"}]},
    "allowed tools": {"input": "add", "tools": [{**CATALOG, "allowed_tools": ["echo"]}]},
    "no tool calls": {"input": "add", "tools": [CATALOG], "max_tool_calls": 0},
    "tool choice none": {"input": "add", "tools": [CATALOG], "tool_choice": "none"},
    "tool choice required": {"input": "add", "tools": [CATALOG], "tool_choice": "required"},
    "not stored": {"input": "hi", "store": False},
    "metadata": {"input": "hi", "metadata": {"a": "b"}, "instructions": "Be nice.", "temperature": 0.5},
}
BAD: dict[str, dict[str, Any]] = {
    "no input": {},
    "no such model": {"input": "hi", "model": "none"},
    "wrong type": {"input": 5},
    "unknown tool": {"input": "hi", "tools": [{"type": "nonsense"}]},
    "unknown previous": {"input": "hi", "previous_response_id": "resp_none"},
    "wrong temperature": {"input": "hi", "temperature": "hot"},
    "wrong choice": {"input": "hi", "tool_choice": "perhaps"},
    "background unstored": {"input": "hi", "background": True, "store": False},
    "unreachable server": {
        "input": "hi",
        "tools": [{"type": "mcp", "server_label": "x", "server_url": "http://127.0.0.1:9/mcp"}],
    },
}


def responses(s: Snapshot) -> None:
    made: dict[str, Any] = {}
    for name, body in (GOOD | BAD).items():
        made[name] = s.ask(f"responses: {name}", "POST", "/v1/responses", {"model": "demo", **body})
    plain = made["plain"]["id"]
    s.ask("responses: as reader", "POST", "/v1/responses", {"model": "demo", "input": "hi"}, key="reader")
    s.ask("responses: get", "GET", f"/v1/responses/{plain}")
    s.ask("responses: get as another key", "GET", f"/v1/responses/{plain}", key="caller")
    s.ask("responses: get one that was not stored", "GET", f"/v1/responses/{made['not stored']['id']}")
    s.ask("responses: input items", "GET", f"/v1/responses/{plain}/input_items")
    s.ask("responses: input items badly", "GET", f"/v1/responses/{plain}/input_items?limit=0")
    s.ask("responses: cancel", "POST", f"/v1/responses/{plain}/cancel")
    follow = {"model": "demo", "input": "add", "tools": [CATALOG], "previous_response_id": plain}
    s.ask("responses: goes on", "POST", "/v1/responses", follow)
    call = next(item for item in made["function"]["output"] if item["type"] == "function_call")
    output = [{"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]
    s.ask("responses: output", "POST", "/v1/responses", _after(made["function"], output, tools=[FUNCTION]))
    for word, approve in {"approved": True, "denied": False}.items():
        asked = s.ask(f"responses: to be {word}", "POST", "/v1/responses", {"model": "demo", **GOOD["approval"]})
        request = next(item for item in asked["output"] if item["type"] == "mcp_approval_request")
        said = [{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}]
        s.ask(f"responses: {word}", "POST", "/v1/responses", _after(asked, said, tools=[CATALOG]))
    s.ask("responses: tokens", "POST", "/v1/responses/input_tokens", {"model": "demo", "input": "hello world"})
    s.ask("responses: compact", "POST", "/v1/responses/compact", {"model": "demo", "input": "hello world"})
    s.ask("responses: compact badly", "POST", "/v1/responses/compact", {"model": "demo"})
    background = s.ask(
        "responses: background", "POST", "/v1/responses", {"model": "demo", "input": "hi", "background": True}
    )
    path = f"/v1/responses/{background['id']}?stream=true&starting_after=1"
    s.stream("responses: background resumed", path, until=is_event("response.completed"))
    s.ask("responses: background at its end", "GET", f"/v1/responses/{background['id']}")
    s.ask("responses: remove", "DELETE", f"/v1/responses/{plain}")
    s.ask("responses: remove again", "DELETE", f"/v1/responses/{plain}")
    s.ask("responses: runs", "GET", "/api/runs?limit=3")


def _after(response: Any, items: list[Any], **more: Any) -> dict[str, Any]:
    return {"model": "demo", "previous_response_id": response["id"], "input": items, **more}


def response_streams(s: Snapshot) -> None:
    for name, body in (GOOD | BAD).items():
        given = {"model": "demo", "stream": True, **body}
        s.stream(f"responses streamed: {name}", "/v1/responses", method="POST", body=given, until=lambda *_: False)


def sockets(s: Snapshot) -> None:
    url = s.url.replace("http:", "ws:")
    ended = ("response.completed", "response.failed", "response.incomplete", "error")
    with connect(f"{url}/v1/responses", additional_headers={"authorization": f"Bearer {KEYS['admin']}"}) as socket:
        for name, body in {"plain": GOOD["plain"], "catalog": GOOD["catalog"], "wrong": BAD["no such model"]}.items():
            socket.send(json.dumps({"type": "response.create", "model": "demo", **body}))
            told: list[Any] = []
            while not told or told[-1]["type"] not in ended:
                told.append(json.loads(socket.recv(timeout=WITHIN)))
            s.keep(f"socket: {name}", {"events": [normal(message) for message in told]})
        for text in ("{", '{"type": "nonsense"}', "[]"):
            socket.send(text)
            s.keep(f"socket: said {text}", {"events": [normal(json.loads(socket.recv(timeout=WITHIN)))]})
    with connect(f"{url}/api/v1/tools/changes", additional_headers={"x-api-key": KEYS["admin"]}) as socket:
        first = normal(json.loads(socket.recv(timeout=WITHIN)))
        s.ask("socket: a tool less", "DELETE", "/api/v1/tools/kept_later")
        s.keep("socket: changes", {"events": [first, normal(json.loads(socket.recv(timeout=WITHIN)))]})
    for path in ("/v1/responses", "/api/v1/tools/changes", "/nowhere"):
        for key in ("wrong", KEYS["admin"] if path == "/nowhere" else "nobody"):
            try:
                connect(f"{url}{path}", additional_headers={"x-api-key": key}).close()
                status = 101
            except InvalidStatus as refusal:
                status = refusal.response.status_code
            s.keep(f"socket: {path} with {key}", {"status": status})


MCP_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "list": ("tools/list", {}),
    "list with a wrong cursor": ("tools/list", {"cursor": "nonsense"}),
    "add": ("tools/call", {"name": "add", "arguments": {"a": 2}}),
    "upstream": ("tools/call", {"name": "up_test_simple_text", "arguments": {}}),
    "upstream image": ("tools/call", {"name": "up_test_image_content"}),
    "upstream error": ("tools/call", {"name": "up_test_error_handling", "arguments": {}}),
    "upstream asks": ("tools/call", {"name": "up_test_elicitation", "arguments": {"message": "Who?"}}),
    "boom": ("tools/call", {"name": "boom", "arguments": {}}),
    "wrong arguments": ("tools/call", {"name": "add", "arguments": {"a": "x"}}),
    "wrong params": ("tools/call", {"name": 5}),
    "no params": ("tools/call", {}),
    "unknown tool": ("tools/call", {"name": "none", "arguments": {}}),
    "approval": ("tools/call", {"name": "guarded", "arguments": {"amount": 5}}),
    "timeout": ("tools/call", {"name": "sleeper", "arguments": {}}),
    "pending": ("tools/call", {"name": "job_later", "arguments": {}}),
    "progress": ("tools/call", {"name": "steps", "arguments": {}, "_meta": {"progressToken": "p1"}}),
    "search": ("tools/call", {"name": "search_tools", "arguments": {"query": "add numbers"}}),
    "session tools, badly": ("tools/call", {"name": "session_events", "arguments": {"session_id": "ses_none"}}),
    "ping": ("ping", {}),
    "unknown method": ("nonsense/method", {}),
    "resources": ("resources/list", {}),
    "prompts": ("prompts/list", {}),
    "log level": ("logging/setLevel", {"level": "info"}),
    "discover": ("server/discover", {}),
}


def mcp_legacy(s: Snapshot) -> None:
    opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}
    for version in ("2024-11-05", "2025-03-26", "2025-06-18", "1999-01-01"):
        older = {**hello, "params": {**opening, "protocolVersion": version}}
        s.ask(f"mcp: initialize {version}", "POST", "/mcp", older, headers=TALK)
    s.ask("mcp: initialize badly", "POST", "/mcp", {**hello, "params": {}}, headers=TALK)
    s.ask("mcp: initialize without a key", "POST", "/mcp", hello, headers=TALK, key=None)
    answer = s._client.post("/mcp", json=hello, headers={**TALK, "x-api-key": KEYS["admin"]})  # noqa: SLF001 - for its header
    session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": LEGACY, **TALK}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    s.ask("mcp: initialized", "POST", "/mcp", ready, headers=session)
    for name, (method, params) in MCP_CALLS.items():
        body = {"jsonrpc": "2.0", "id": name, "method": method, "params": params}
        s.ask(f"mcp {LEGACY}: {name}", "POST", "/mcp", body, headers=session)
    s.ask("mcp: no session", "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=TALK)
    wrong = {**session, "mcp-session-id": "nonsense"}
    s.ask("mcp: wrong session", "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=wrong)
    s.ask("mcp: not JSON", "POST", "/mcp", content=b"{", headers={**session, "content-type": "application/json"})
    s.ask("mcp: a batch", "POST", "/mcp", [ready, ready], headers=session)
    s.ask("mcp: no JSON-RPC", "POST", "/mcp", {"method": "ping"}, headers=session)
    s.ask("mcp: wrong accept", "POST", "/mcp", hello, headers={"accept": "text/html"})
    s.ask("mcp: another key's session", "POST", "/mcp", ready, headers=session, key="caller")
    act = acting(s, "mcp: a tool more", "POST", "/api/v1/tools", {**KEPT_TOOL, "name": "kept_for_mcp"})
    s.stream("mcp: listening", "/mcp", until=lambda *_: True, headers=session, act=act)
    s.ask("mcp: end of the session", "DELETE", "/mcp", headers=session)
    s.ask("mcp: after its end", "POST", "/mcp", ready, headers=session)


def mcp_modern(s: Snapshot) -> None:
    for name, (method, params) in MCP_CALLS.items():
        given = {**params, "_meta": {**META, **params.get("_meta", {})}}
        body = {"jsonrpc": "2.0", "id": name, "method": method, "params": given}
        headers = {**TALK, "mcp-protocol-version": MODERN, "mcp-method": method}
        if isinstance(params.get("name"), str):
            headers["mcp-name"] = params["name"]
        s.ask(f"mcp {MODERN}: {name}", "POST", "/mcp", body, headers=headers)
        if name == "add":
            s.ask("mcp: as reader", "POST", "/mcp", body, headers=headers, key="reader")
            s.ask("mcp: headers and body differ", "POST", "/mcp", body, headers={**headers, "mcp-name": "echo"})
            s.ask("mcp: no header", "POST", "/mcp", body, headers={**TALK, "mcp-protocol-version": MODERN})
            s.ask(
                "mcp: later revision", "POST", "/mcp", body, headers={**headers, "mcp-protocol-version": "2031-01-01"}
            )
            s.ask("mcp: no capabilities", "POST", "/mcp", {**body, "params": params}, headers=headers)
    s.ask("mcp: GET in the era without sessions", "GET", "/mcp", headers={**TALK, "mcp-protocol-version": MODERN})


def sessions(s: Snapshot) -> None:
    lent = [{"name": "send", "description": "Send.", "inputSchema": {"type": "object"}}]
    opening = {"agent": "helper", "caller_id": "ant", "caller_tools": lent}
    ses = s.ask("sessions: open", "POST", "/api/sessions", opening)
    path = f"/api/sessions/{ses['session_id']}"
    s.ask("sessions: open with no such agent", "POST", "/api/sessions", {**opening, "agent": "none"})
    s.ask("sessions: open badly", "POST", "/api/sessions", {**opening, "caller_tools": [{"name": 5}]})
    s.ask("sessions: open as reader", "POST", "/api/sessions", opening, key="reader")
    s.ask("sessions: all", "GET", "/api/sessions")
    record = s.ask("sessions: one", "GET", path)
    s.ask("sessions: as another key", "GET", path, key="caller")
    s.ask("sessions: unknown", "GET", "/api/sessions/ses_none")
    answered: list[Any] = []

    def until(_: str, data: Any) -> bool:
        if data.get("type") == "caller_tool_request" and not answered:
            answered.append(data)
            body = {"request_id": data["request_id"], "result": {"sent": True}}
            s.ask("sessions: answer", "POST", f"{path}/tool-responses", body)
        return data.get("type") == "status" and bool(answered) and data.get("status") == "idle"

    say = acting(s, "sessions: say", "POST", f"{path}/messages", {"message": "lend"})
    s.stream("sessions: events", f"{path}/events", until=until, act=say)
    again = {"request_id": answered[0]["request_id"] if answered else "none", "result": 1}
    s.ask("sessions: answer again", "POST", f"{path}/tool-responses", again)
    s.ask("sessions: answer nothing", "POST", f"{path}/tool-responses", {"request_id": "none", "result": 1})
    s.ask("sessions: answer badly", "POST", f"{path}/tool-responses", {"result": 1})
    s.ask("sessions: say badly", "POST", f"{path}/messages", {"message": 5})
    s.ask("sessions: events since", "GET", f"{path}/events?since_index=0")
    s.ask("sessions: events badly", "GET", f"{path}/events?since_index=x")
    token = str((record.get("session") or record).get("token") or ses.get("token"))
    s.ask("sessions: tools of its key", "GET", "/api/v1/tools", key=token)
    s.ask("sessions: its key elsewhere", "GET", "/api/v1/calls", key=token)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    modern = {**TALK, "mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
    s.ask("sessions: its key on /mcp", "POST", "/mcp", body, headers=modern, key=token)
    s.ask("sessions: end", "DELETE", path)
    s.ask("sessions: end again", "DELETE", path)
    s.ask("sessions: say after the end", "POST", f"{path}/messages", {"message": "hello"})
    program = s.ask("sessions: a program", "POST", "/api/sessions", {"agent": "program", "caller_id": "ant"})
    path = f"/api/sessions/{program['session_id']}"
    say = acting(s, "sessions: say to the program", "POST", f"{path}/messages", {"message": "hello"})
    s.stream("sessions: what the program says", f"{path}/events", until=is_event("message"), act=say)
    s.ask("sessions: end of the program", "DELETE", path)
