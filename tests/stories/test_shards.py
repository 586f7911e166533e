"""examples/shards: two gateways on a database each, behind the router that keeps a space and its agents in one."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx2

from tests.harness.process import RunningGateway, clean_environment, free_port, running_gateway
from tests.postgres import PostgresServer
from tests.requirement import requirement
from tests.waiting import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "shards"
FAMILIES = ("acme", "bolt", "crow", "dune", "elms", "fern", "gulf", "hush")
KEY = "the-key-of-both-shards"
CONFIG = """
[models.mind]
provider = "scripted"
script = "mind.toml"

[[tools]]
name = "mirror"
description = "Give the arguments back."
inputSchema = { type = "object" }
executionType = "internal"
"""
TOOLS = ("mirror", "echo", "nobody", "nothing")
MIND = r"""
[[turns]]
when = { result = "send_message" }
calls = [{ tool = "skip", arguments = { reason = "Said." } }]
[[turns]]
when = { result = "enter_space" }
calls = [{ tool = "send_message", arguments = { text = "Here." } }]
[[turns]]
when = { user = 'spaceId: (?P<space>[\w-]+)' }
calls = [{ tool = "enter_space", arguments = { spaceId = "{space}" } }]
"""


@requirement("SCALE-shards")
def test_what_belongs_together_is_in_one_database(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str, empty_database: str
) -> None:
    urls = (postgres_url, postgres_server.url(empty_database))
    with shard(tmp_path / "one", urls[0]) as one, shard(tmp_path / "two", urls[1]) as two, router(one, two) as client:
        at = {}
        for family in FAMILIES:
            assert client.post("/api/spaces", json={"id": f"{family}-lobby"}).status_code == 201
            agent = {"id": f"{family}-clerk", "model": "mind", "spaces": [f"{family}-lobby"]}
            made = client.post("/api/agents", json=agent)
            said = client.post(f"/api/spaces/{family}-lobby/messages", json={"content": "Who is here?"})
            assert (made.status_code, said.status_code) == (201, 201), made.text
            assert made.headers["x-shard"] == said.headers["x-shard"]
            at[family] = said.headers["x-shard"]
        assert set(at.values()) == {"0", "1"}
        for family in FAMILIES:
            eventually(partial(_has_replied, client, f"{family}-lobby"))
        for number, gateway in enumerate((one, two)):
            spaces = httpx2.get(f"{gateway.url}/api/spaces", headers=gateway.headers).json()["spaces"]
            assert {space["id"] for space in spaces} == {
                f"{name}-lobby" for name in FAMILIES if at[name] == str(number)
            }
        assert len(client.get("/api/spaces").json()["spaces"]) == len(FAMILIES)

        calls = [client.post(f"/api/v1/tools/{tool}/execute", json={"arguments": {"n": 1}}) for tool in TOOLS]
        assert len({call.headers["x-shard"] for call in calls}) == 1, "the calls of one key"
        assert client.get(f"/api/v1/calls/{calls[0].json()['call_id']}").json()["call"]["args"] == {"n": 1}

        [first, other] = (next(name for name in FAMILIES if at[name] == shard) for shard in ("0", "1"))
        stray = client.post("/api/agents", json={"id": f"{first}-x", "model": "mind", "spaces": [f"{other}-lobby"]})
        assert (stray.status_code, f"in another shard than {other}-lobby" in stray.text) == (400, True)
        assert client.get("/api/v1/calls/export").status_code == 400
        two.kill()
        assert client.get(f"/api/spaces/{first}-lobby").status_code == 200
        assert client.get(f"/api/spaces/{other}-lobby").status_code == 503


@contextmanager
def shard(folder: Path, store: str) -> Iterator[RunningGateway]:
    env = {"JACKFIELD_STORE": store, "JACKFIELD_ADMIN_KEY": KEY, "JACKFIELD_VAULT_KEY": "A" * 43}
    with running_gateway(folder, CONFIG, files={"mind.toml": MIND}, env=env) as gateway:
        yield gateway


@contextmanager
def router(*gateways: RunningGateway) -> Iterator[httpx2.Client]:
    port, shards = free_port(), " ".join(gateway.url for gateway in gateways)
    command = [sys.executable, "-m", "uvicorn", "router:app", "--port", str(port), "--log-level", "warning"]
    process = subprocess.Popen(command, cwd=EXAMPLE, env=clean_environment({"SHARDS": shards}))
    headers = {"authorization": f"Bearer {KEY}"}
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
            eventually(lambda: _answers(client))
            yield client
    finally:
        process.terminate()
        process.wait()


def _answers(client: httpx2.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def _has_replied(client: httpx2.Client, space: str) -> bool:
    return "Here." in client.get(f"/api/spaces/{space}/messages").text
