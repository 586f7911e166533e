"""Responses for stories: a gateway whose model plays a written dialogue, and a client whose every answer is checked.

The client is the official SDK, unchanged; underneath it a tap copies what comes over the wire, so that each stream and
each response object is also held against the schemas of Open Responses (`tests/responses/conformity.py`).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from openai import OpenAI

from tests.harness.process import DEFAULT_TOOLS, RunningGateway, running_gateway
from tests.responses.conformity import check_resource, check_stream

ADMIN_KEY = "key-of-the-operator"
CALLER_KEY = "key-of-a-caller"
MODEL = "actor"
Sdk = Any
"""The official client. Its overloads know no server labels without urls, so types would say less than they cost."""
CATALOG: dict[str, Any] = {"type": "mcp", "server_label": "jackfield"}
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "Say how the weather is.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
LOCATE: dict[str, Any] = {"type": "function", "name": "locate", "parameters": {"type": "object", "properties": {}}}

CONFIG = """\
[auth.keys.caller]
key = "key-of-a-caller"
scopes = ["call"]

[outgoing]
allow = ["127.0.0.1"]

[responses]
max_steps = 4

[models.actor]
provider = "scripted"
script = "actor.toml"

[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.guarded]
metadata = { requires_approval = true }
"""

ODD_TOOLS = '''\
def unspeakable():
    """Give something that is no JSON."""
    return object()
'''

SCRIPT = r"""
[[turns]]
when = { user = 'add (?P<a>\d+) and (?P<b>\d+)' }
say = "Let me see."
calls = [{ tool = "add", arguments = { a = "{a:int}", b = "{b:int}" } }]

[[turns]]
when = { user = "add and locate" }
calls = [{ tool = "add", arguments = { a = 2, b = 3 } }, { tool = "locate" }]

[[turns]]
when = { user = "weather in (?P<one>[A-Z][a-z]+) and (?P<other>[A-Z][a-z]+)" }
[[turns.calls]]
tool = "get_weather"
arguments = { city = "{one}" }
[[turns.calls]]
tool = "get_weather"
arguments = { city = "{other}" }

[[turns]]
when = { user = "weather" }
calls = [{ tool = "get_weather", arguments = { city = "Lisbon" } }]

[[turns]]
when = { user = "five at once" }
calls = [
  { tool = "steps", arguments = { count = 5 } },
  { tool = "steps", arguments = { count = 4 } },
  { tool = "steps", arguments = { count = 3 } },
  { tool = "steps", arguments = { count = 2 } },
  { tool = "steps", arguments = { count = 1 } },
]

[[turns]]
when = { user = "pay" }
calls = [{ tool = "guarded", arguments = { amount = 120 } }]

[[turns]]
when = { user = "the far echo" }
calls = [{ tool = "far_echo", arguments = { text = "over there" } }]

[[turns]]
when = { user = "echo" }
calls = [{ tool = "echo", arguments = { text = "over there" } }]

[[turns]]
when = { user = "picky" }
say = "Not that one."
calls = [{ tool = "boom" }]

[[turns]]
when = { user = "shaky" }
calls = [{ tool = "boom", arguments = { reason = "out of coins" } }]

[[turns]]
when = { user = "unspeakable" }
calls = [{ tool = "unspeakable" }]

[[turns]]
when = { user = "steps" }
calls = [{ tool = "steps" }]

[[turns]]
when = { user = "for ever" }
calls = [{ tool = "echo", arguments = { text = "again" } }]

[[turns]]
when = { result = "echo", asked = "for ever" }
calls = [{ tool = "echo", arguments = { text = "again" } }]

[[turns]]
when = { user = "wait" }
calls = [{ tool = "wait" }]

[[turns]]
when = { user = "slowly" }
say = ["One ", "two ", "three ", "four ", "five."]
pace = 0.05

[[turns]]
when = { user = "endlessly" }
say = ["On ", "and ", "on."]
pace = 30

[[turns]]
when = { user = "think" }
think = "What would they like to hear?"
say = "All is well."

[[turns]]
when = { user = "refuse" }
refuse = "I would rather not."

[[turns]]
when = { user = "cut short" }
say = "This is only a"
finish = "length"

[[turns]]
when = { user = "break off" }
say = "I was about to"
fail = { message = "The engine fell off.", code = "model_error" }

[[turns]]
when = { user = "too busy" }
fail = { message = "Too many people ask.", code = "rate_limited", status = 429 }

[[turns]]
when = { user = "as json" }
say = '{"city": "Lisbon", "celsius": 21}'

[[turns]]
when = { result = "locate" }
say = "{results.add} in {result}."

[[turns]]
when = { result = "\\w+" }
say = "The result is {result}."

[otherwise]
say = "Hello to you."
"""


class Exchange:
    """One request and all that came back, as bytes."""

    def __init__(self, request: httpx2.Request) -> None:
        self.method = request.method
        self.path = request.url.path
        self.body: dict[str, Any] = json.loads(request.content) if request.content else {}
        self.content = bytearray()
        self.is_stream = False
        self.is_whole = False

    @property
    def with_tools(self) -> bool:
        """Whether the request has tools that the gateway runs; else the answer may hold nothing beyond the spec."""
        return any(tool["type"] != "function" for tool in self.body.get("tools", []))

    @property
    def events(self) -> list[dict[str, Any]]:
        return sse_events(bytes(self.content))

    def check(self) -> None:
        if self.is_stream:
            check_stream([_comparable(event) for event in self.events], with_tools=self.with_tools)
        elif (answer := json.loads(self.content)).get("object") == "response" and "output" in answer:
            check_resource(_comparable({"response": answer})["response"], with_tools=self.with_tools or not self.body)


def _comparable(event: dict[str, Any]) -> dict[str, Any]:
    """Without the two echoes of a request that the spec's schemas have no place for: a choice of a server's tool (it
    knows no servers), and the schema of a structured answer (it wants null there).
    """
    response = event.get("response")
    if response is None:
        return event
    choice, text = response["tool_choice"], response["text"]
    if isinstance(choice, dict) and "mcp" in {choice["type"], *(tool["type"] for tool in choice.get("tools", []))}:
        choice = "auto"
    if "schema" in text["format"]:
        text = {**text, "format": {**text["format"], "schema": None}}
    return {**event, "response": {**response, "tool_choice": choice, "text": text}}


def sse_events(content: bytes) -> list[dict[str, Any]]:
    """The events of a stream that ended as it should: names equal types, and `[DONE]` once, at the end."""
    *blocks, done, rest = content.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    events = []
    for block in blocks:
        if block == ": ping":
            continue
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


class Tap(httpx2.BaseTransport):
    """What the SDK sends through."""

    def __init__(self) -> None:
        self._inner = httpx2.HTTPTransport()
        self.exchanges: list[Exchange] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = Exchange(request)
        self.exchanges.append(exchange)
        answer = self._inner.handle_request(request)
        exchange.is_stream = answer.headers["content-type"].startswith("text/event-stream")
        assert isinstance(answer.stream, httpx2.SyncByteStream)
        copied = _Copied(answer.stream, exchange)
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=copied, request=request)

    def close(self) -> None:
        self._inner.close()

    @property
    def last_events(self) -> list[dict[str, Any]]:
        return self.exchanges[-1].events

    def check(self) -> None:
        """Hold everything that came whole against the spec."""
        for exchange in self.exchanges:
            if exchange.is_whole and not exchange.path.endswith(("/input_items", "/models")):
                exchange.check()


class _Copied(httpx2.SyncByteStream):
    def __init__(self, inner: httpx2.SyncByteStream, exchange: Exchange) -> None:
        self._inner = inner
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._inner:
            self._exchange.content += piece
            yield piece
        self._exchange.is_whole = True

    def close(self) -> None:
        # The SDK stops reading at `[DONE]`; what it has read by then is the whole stream.
        if self._exchange.content.endswith(b"data: [DONE]\n\n"):
            self._exchange.is_whole = True
        self._inner.close()


@contextmanager
def tapped(gateway: RunningGateway, *, key: str = ADMIN_KEY) -> Iterator[tuple[Sdk, Tap]]:
    """The official client on this gateway. At the end all that it was told has been checked."""
    tap = Tap()
    with httpx2.Client(transport=tap) as http:
        yield OpenAI(base_url=f"{gateway.url}/v1", api_key=key, http_client=http, max_retries=0, timeout=20), tap
    tap.check()


@contextmanager
def actor_gateway(folder: Path, *, responses: str = "") -> Iterator[RunningGateway]:
    """A gateway with the story tools and the model that plays `SCRIPT`; `responses` is more of `[responses]`."""
    files = {"tools/story.py": DEFAULT_TOOLS, "tools/odd.py": ODD_TOOLS, "actor.toml": SCRIPT}
    config = CONFIG.replace("[responses]\n", f"[responses]\n{responses}\n")
    with running_gateway(folder, config, files=files, env={"JACKFIELD_ADMIN_KEY": ADMIN_KEY}) as gateway:
        yield gateway


def kinds(response: Any) -> list[str]:
    """The types of a response's items, in order."""
    return [item.type for item in response.output]


def calls_of(gateway: RunningGateway, run_id: str) -> list[dict[str, Any]]:
    """The records of the calls that a response made; not of those that were refused."""
    page = httpx2.get(f"{gateway.url}/api/v1/calls", params={"run_id": run_id}, headers=gateway.headers, timeout=10)
    records: list[dict[str, Any]] = page.json()["calls"]
    return [record for record in records if record["status"] != "refused"]
