"""Who is measured: each with its versions, how it is started, and what it cannot do.

Above: `rows.py`. A peer is started in a folder that it keeps, before the servers of a `Place`.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct

from bench.comparison import contextforge, litellm
from bench.comparison.environments import environment, version_in_list
from bench.comparison.places import TOOLS, Place, Running, wait_for
from bench.comparison.talk import ARGUMENTS, Endpoint, HttpWay, StreamWay
from bench.processes import KEY, ROOT, running_gateway, running_server

DIRECT, OURS = "direct", "jackfield"
FAST = ROOT / "bench" / "proxies" / "fast.py"
SOURCE = '[sources.{name}]\nkind = "mcp"\nurl = "{url}"\n'
CONFIG = """\
{sources}
[sources.service]
kind = "openapi"
url = "http://127.0.0.1:{service}/openapi.json"

[models.fast]
provider = "openai"
base_url = "http://127.0.0.1:{model}/v1"
model = "fast"
"""
PROXY_ONLY = "a proxy of MCP servers"
NO_MODELS = "no models"


class Peer(Struct, frozen=True, kw_only=True):
    """One column of the overview."""

    title: str
    version: str
    start: Callable[[Place, Path], AbstractContextManager[Running]]
    environment: str = ""
    """That of a list in `requirements/`; our own if empty."""
    lacks: Mapping[str, str] = {}
    """Rows that it has nothing for, and why."""


@contextmanager
def _direct(place: Place, folder: Path) -> Generator[Running]:
    """Nothing between: the servers themselves, the MCP server in a process of its own."""
    with running_server("-m", "bench.proxies.upstream", "100", str(TOOLS)) as server:
        service, model = place.service.port, place.model.port
        yield wait_for(
            Running(
                server=server,
                endpoint=Endpoint(port=server.port),
                http=HttpWay(port=service, path="/echo", body=ARGUMENTS),
                streams=(StreamWay(says="chat", port=model, path="/v1/chat/completions"),),
                others={"http": place.service, "stream": place.model},
            ),
            folder,
        )


@contextmanager
def _jackfield(place: Place, folder: Path) -> Generator[Running]:
    """As it comes: on SQLite, every call checked and recorded."""
    sources = "".join(SOURCE.format(name=f"up{number}", url=url) for number, url in enumerate(place.urls))
    config = CONFIG.format(sources=sources, service=place.service.port, model=place.model.port)
    (folder / "jackfield.toml").write_text(config, encoding="utf-8")
    with running_gateway(folder, tools=TOOLS * len(place.urls) + 1) as server:
        key = {"Authorization": f"Bearer {KEY}"}
        execute = "/api/v1/tools/give_back/execute"
        yield wait_for(
            Running(
                server=server,
                endpoint=Endpoint(port=server.port, headers=key),
                http=HttpWay(port=server.port, path=execute, body={"arguments": ARGUMENTS}, headers=key),
                streams=(StreamWay(says="Responses", port=server.port, path="/v1/responses", headers=key),),
            ),
            folder,
        )


@contextmanager
def _plain(place: Place, folder: Path) -> Generator[Running]:
    with running_server("-m", "bench.proxies.plain", place.urls[0]) as server:
        yield wait_for(Running(server=server, endpoint=Endpoint(port=server.port)), folder)


@contextmanager
def _fastmcp(place: Place, folder: Path, *options: str) -> Generator[Running]:
    python = str(environment("fastmcp") / "python")
    tool = "echo" if len(place.urls) == 1 else "s0_echo"
    with running_server(str(FAST), *options, *place.urls, python=python) as server:
        yield wait_for(Running(server=server, endpoint=Endpoint(port=server.port, tool=tool)), folder)


def _guide(place: Place, folder: Path) -> AbstractContextManager[Running]:
    return _fastmcp(place, folder, "--guide")


CONTEXTFORGE = version_in_list("contextforge", "mcp-contextforge-gateway")
FASTMCP = version_in_list("fastmcp", "fastmcp")
MCP_ONLY = {"http": f"{PROXY_ONLY}, called by MCP only", "stream": NO_MODELS}
PEERS: Mapping[str, Peer] = {
    DIRECT: Peer(
        title="nothing at all",
        version=f"mcp {version('mcp')}",
        start=_direct,
        lacks={"list-dead": "one server, and it is alive"},
    ),
    OURS: Peer(title="Jackfield", version=version("jackfield"), start=_jackfield),
    "plain": Peer(
        title="plain SDK proxy",
        version=f"mcp {version('mcp')}",
        start=_plain,
        lacks={**MCP_ONLY, "list-dead": "one server only"},
    ),
    "fastmcp": Peer(
        title="FastMCP, shared client", version=FASTMCP, start=_fastmcp, environment="fastmcp", lacks=MCP_ONLY
    ),
    "fastmcp-guide": Peer(
        title="FastMCP, as in its guide", version=FASTMCP, start=_guide, environment="fastmcp", lacks=MCP_ONLY
    ),
    "contextforge": Peer(
        title="ContextForge",
        version=CONTEXTFORGE,
        start=partial(contextforge.running, sessions=False),
        environment="contextforge",
    ),
    "contextforge-sessions": Peer(
        title="ContextForge, sessions",
        version=CONTEXTFORGE,
        start=partial(contextforge.running, sessions=True),
        environment="contextforge",
        lacks={"stream": "as ContextForge: sessions are of MCP only"},
    ),
    "litellm": Peer(
        title="LiteLLM",
        version=version_in_list("litellm", "litellm"),
        start=litellm.running,
        environment="litellm",
    ),
}
