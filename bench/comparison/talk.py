"""What is sent to a peer: MCP by hand in both revisions, a tool over plain HTTP, a streamed answer of a model.

Every request carries a value of its own (`load.UNIQUE`), which has to come back. Above: `rows.py`.
"""

from collections.abc import Callable, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException

import msgspec
from msgspec import Struct

from bench.load import UNIQUE
from bench.processes import BenchError
from bench.rows.mcp import LEGACY, META, MODERN, TALK
from bench.subjects import http_request

TOOL = "echo"
RESOURCE = "notes:///00042.txt"
ARGUMENTS = {"text": UNIQUE, "count": 3}
TIMEOUT = 60.0


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where a peer speaks MCP."""

    port: int
    path: str = "/mcp"
    headers: Mapping[str, str] = {}
    tool: str = TOOL
    """What it calls the echo tool."""

    def question(self, method: str) -> "Question":
        return QUESTIONS[method](self)


class Question(Struct, frozen=True, kw_only=True):
    """A method with its parameters, and what an answer has to have."""

    method: str
    params: Mapping[str, object]
    named: str = ""
    values: int
    """How often the request's value comes back: in the id, and in what the tool gives back."""
    has: str = ""


class HttpWay(Struct, frozen=True, kw_only=True):
    """How the tool that is an HTTP service is called without MCP."""

    port: int
    path: str
    body: Mapping[str, object]
    headers: Mapping[str, str] = {}

    @property
    def request(self) -> str:
        headers = {"Host": f"127.0.0.1:{self.port}", **self.headers}
        return http_request("POST", self.path, body=msgspec.json.encode(self.body), headers=headers)


class StreamWay(Struct, frozen=True, kw_only=True):
    """How a model's answer is asked for."""

    says: str
    port: int
    path: str
    headers: Mapping[str, str] = {}

    @property
    def key(self) -> str:
        """The JSON key that a token is in."""
        return "delta" if self.is_response else "content"

    @property
    def is_response(self) -> bool:
        return self.path.endswith("/responses")

    def request(self, wish: str) -> str:
        asked = {"input": wish} if self.is_response else {"messages": [{"role": "user", "content": wish}]}
        body = msgspec.json.encode({"model": "fast", "stream": True, **asked})
        return http_request("POST", self.path, body=body, headers=self.headers)


def _call(endpoint: Endpoint) -> Question:
    params = {"name": endpoint.tool, "arguments": ARGUMENTS}
    return Question(method="tools/call", params=params, named=endpoint.tool, values=2)


def _list(endpoint: Endpoint) -> Question:
    return Question(method="tools/list", params={}, values=1, has=f'"{endpoint.tool}"')


def _read(_: Endpoint) -> Question:
    has = f"The text of {RESOURCE}"
    return Question(method="resources/read", params={"uri": RESOURCE}, named=RESOURCE, values=1, has=has)


QUESTIONS: Mapping[str, Callable[[Endpoint], Question]] = {"call": _call, "list": _list, "read": _read}


def mcp_request(endpoint: Endpoint, question: Question, revision: str) -> str:
    """A whole request, in a session of its own where the revision and the server have them."""
    params, headers = dict(question.params), {"MCP-Protocol-Version": revision}
    if revision == MODERN:
        headers |= {"Mcp-Method": question.method}
        headers |= {"Mcp-Name": question.named} if question.named else {}
        params["_meta"] = META
    elif (session := open_session(endpoint)) is not None:
        headers["Mcp-Session-Id"] = session
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": UNIQUE, "method": question.method, "params": params})
    host = {"Host": f"127.0.0.1:{endpoint.port}", "Accept": TALK["Accept"]}
    return http_request("POST", endpoint.path, body=body, headers={**host, **headers, **endpoint.headers})


def open_session(endpoint: Endpoint) -> str | None:
    """The id of a session that has been opened; None of a server that has none."""
    client = {"name": "bench", "version": "1"}
    opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}
    status, headers, answer = ask(endpoint, hello, {})
    if status != 200:
        raise BenchError(f"It answered {status} to the handshake: {answer[:300].decode('latin-1')}")
    session = headers.get("mcp-session-id")
    more = {"MCP-Protocol-Version": LEGACY, **({"Mcp-Session-Id": session} if session else {})}
    status, _, answer = ask(endpoint, {"jsonrpc": "2.0", "method": "notifications/initialized"}, more)
    if status != 202:
        raise BenchError(f"It answered {status} to the end of the handshake: {answer[:300].decode('latin-1')}")
    return session


def has_answered(endpoint: Endpoint) -> bool:
    """Whether a call of the tool comes back by now."""
    question = endpoint.question("call")
    try:
        session = open_session(endpoint)
        more = {"MCP-Protocol-Version": LEGACY, **({"Mcp-Session-Id": session} if session else {})}
        message = {"jsonrpc": "2.0", "id": 1, "method": question.method, "params": question.params}
        status, _, answer = ask(endpoint, message, more)
    except (OSError, HTTPException, BenchError):
        return False
    return status == 200 and UNIQUE.encode() in answer and b'"isError":true' not in answer


def ask(
    endpoint: Endpoint, message: Mapping[str, object], headers: Mapping[str, str]
) -> tuple[int, dict[str, str], bytes]:
    """One message: the status, the headers by their names in small letters, and the answer."""
    with closing(HTTPConnection("127.0.0.1", endpoint.port, timeout=TIMEOUT)) as connection:
        sent = {**TALK, "MCP-Protocol-Version": LEGACY, **headers, **endpoint.headers}
        connection.request("POST", endpoint.path, msgspec.json.encode(message), sent)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
