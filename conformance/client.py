"""`python -m conformance.client jackfield URL`: the client that the suite's client scenarios judge: the gateway's own.

Above: `client_leg.py`, by way of the suite, which appends the url of the scenario's server and says in the environment
which scenario it is. A gateway is started with that server as its only source, and the SDK's client uses through `/mcp`
whatever the server has, so that every request which the scenario sees was made by `jackfield.sources.mcp`. With `plain`
or `fast` in place of `jackfield` another proxy stands there.
"""

import asyncio
import os
import sys
import time
import warnings
from collections.abc import AsyncIterator, Awaitable, Generator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import mcp.types as t
import msgspec
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct

from bench.processes import KEY, Server, running_gateway
from conformance.logins import Caller, Given, config_of
from conformance.results import OAUTH, OURS
from conformance.servers.view import RawRequest, RawResult
from conformance.subjects import FASTMCP, SDK_PROXY, proxy
from conformance.suite import SuiteError

THROUGH: Mapping[str, str] = {"jackfield": OURS, "plain": SDK_PROXY, "fast": FASTMCP}

CONFIG = '[sources.suite]\nkind = "mcp"\nurl = "{url}"\nera = "{era}"\nconnect_timeout = 30\n'
MODERN = "2026-07-28"
SKILLS = "sep-2640-client-"
"""What the names of the scenarios about skills begin with."""
LISTED_WITHIN = 60.0
CALL_SECONDS = 60.0
FOCAL, ECHO = "json_schema_2020_12_tool", "json_schema_echo"
SAMPLES: dict[str, Any] = {
    "string": "sample",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


class ToolCall(Struct, frozen=True):
    """A call that a scenario wants made."""

    name: str
    arguments: dict[str, Any] = {}


class Context(Struct, frozen=True):
    """What a scenario says in the environment."""

    calls: tuple[ToolCall, ...] = msgspec.field(default=(), name="toolCalls")


def main() -> int:
    """The exit code: 0 when everything was tried, whatever came of it; the suite has seen it."""
    warnings.simplefilter("ignore")  # the older revisions have what the SDK calls deprecated
    through, url = sys.argv[1:]
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", MODERN)
    said = os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    with TemporaryDirectory(prefix="jackfield-client-") as home:
        if scenario.startswith(OAUTH) and THROUGH[through] == OURS:
            given = msgspec.json.decode(said, type=Given)
            _log_in_and_use(Path(home), scenario, given, url=url, era=_era(revision))
        else:
            running = _gateway if THROUGH[through] == OURS else _proxy
            with running(Path(home), THROUGH[through], url, revision) as front:
                if front is not None:
                    asyncio.run(_drive(front, revision, msgspec.json.decode(said, type=Context)))
        for log in Path(home).glob("*.log"):
            print(log.read_text(encoding="utf-8"))
    return 0


def _log_in_and_use(home: Path, scenario: str, given: Given, *, url: str, era: str) -> None:
    """The gateway with this server as a source that needs logins."""
    config = config_of(scenario, given, url=url, era=era, home=home)
    (home / "jackfield.toml").write_text(config, encoding="utf-8")
    with running_gateway(home, tools=0) as gateway:
        Caller(gateway).use()


def _era(revision: str) -> str:
    return "auto" if revision == MODERN else "handshake"


@contextmanager
def _gateway(home: Path, _: str, url: str, revision: str) -> Generator[str | None]:
    """The gateway with this server as its only source. None: it is down."""
    (home / "jackfield.toml").write_text(CONFIG.format(url=url, era=_era(revision)), encoding="utf-8")
    with running_gateway(home, tools=0) as gateway:
        yield f"http://127.0.0.1:{gateway.port}/mcp" if wait_for_source(gateway) else None


@contextmanager
def _proxy(home: Path, name: str, url: str, revision: str) -> Generator[str | None]:
    """Another proxy in front of it. None: it did not start."""
    legacy = ("legacy",) if revision != MODERN and name == SDK_PROXY else ()
    with ExitStack() as stack:
        try:
            front = stack.enter_context(proxy(name, url, home, *legacy)).url
        except SuiteError as fault:
            print(fault)
            front = None
        yield front


def wait_for_source(gateway: Server, *, within: float = LISTED_WITHIN) -> bool:
    """Until all sources are listed. False: one is down."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        sources = msgspec.json.decode(gateway.get("/readyz").body)["sources"]
        statuses = {source["status"] for source in sources}
        if "starting" not in statuses:
            return "down" not in statuses
        time.sleep(0.05)
    return False


async def _drive(url: str, revision: str, context: Context) -> None:
    async with connected(url, revision) as client:
        scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
        if scenario.startswith(SKILLS):
            await _load_skills(client, is_loading=scenario != f"{SKILLS}no-prefetch")
            return
        listed = await _tried(client.list_tools())
        tools = [] if listed is None else listed.tools
        for call in context.calls or [ToolCall(tool.name, arguments_for(tool, tools)) for tool in tools]:
            # A gateway validates arguments, and null fits none of the schemas: it stands for "not given".
            given = {name: value for name, value in call.arguments.items() if value is not None}
            await _tried(client.call_tool(call.name, given))
        able = client.server_capabilities
        if able.resources is not None:
            await _read_all(client)
        if able.prompts is not None:
            prompts = await _tried(client.list_prompts())
            for prompt in [] if prompts is None else prompts.prompts:
                given = {argument.name: "sample" for argument in prompt.arguments or ()}
                await _tried(client.get_prompt(prompt.name, given))


async def _load_skills(client: Client, *, is_loading: bool) -> None:
    """As a host does: list the skills, read what a skill begins with, and the rest only if that can be trusted."""
    listed = await _tried(client.session.send_request(RawRequest(method="skills/list", params={}), RawResult))
    for skill in [] if listed is None or not is_loading else listed.root["skills"]:
        for uri in (skill["uri"], *(file["uri"] for file in skill["resources"] if file["uri"] != skill["uri"])):
            if await _tried(client.read_resource(uri)) is None:
                break


async def _read_all(client: Client) -> None:
    resources = await _tried(client.list_resources())
    for resource in [] if resources is None else resources.resources:
        await _tried(client.read_resource(resource.uri))
    await _tried(client.list_resource_templates())


@asynccontextmanager
async def connected(url: str, revision: str) -> AsyncIterator[Client]:
    """The SDK's client of this revision, which accepts whatever it is asked, with no answers of its own."""

    async def accept(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:  # noqa: ARG001 - the SDK's promise
        return t.ElicitResult(action="accept", content={})

    mode = "auto" if revision == MODERN else "legacy"
    async with httpx2.AsyncClient(headers={"x-api-key": KEY}, timeout=CALL_SECONDS) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=accept, cache=None) as client:
            yield client


def arguments_for(tool: t.Tool, tools: list[t.Tool]) -> dict[str, Any]:
    """Something for each argument that the tool requires; `json_schema_echo` gets the schema of another tool."""
    if tool.name == ECHO:
        return {"schema": next((other.input_schema for other in tools if other.name == FOCAL), {})}
    properties = tool.input_schema.get("properties", {})
    return {name: _sample(properties.get(name, {})) for name in tool.input_schema.get("required", ())}


def _sample(schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return SAMPLES.get(kind, "sample") if isinstance(kind, str) else "sample"


async def _tried(asked: Awaitable[Any]) -> Any:
    """The result, or None for what was refused: the suite judges what it has seen, not what came of it."""
    try:
        result = await asked
    except (MCPError, RuntimeError) as fault:
        print(f"refused: {fault}")
        return None
    print(result.model_dump_json(by_alias=True, exclude_none=True)[:2000])
    return result


if __name__ == "__main__":
    sys.exit(main())
