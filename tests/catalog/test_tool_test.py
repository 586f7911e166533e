"""A tool that is made over the API is tested before it is kept: its server is connected to, and nothing is sent."""

import socket
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jackfield.outgoing import Outgoing, OutgoingRefused, OutgoingTimedOut, OutgoingUnreachable
from tests.harness.in_process import in_process_gateway
from tests.outgoing.names import Names
from tests.outgoing.test_client import NAMES, server_side
from tests.requirement import requirement
from tests.sources.upstream import Upstream

CONFIG = """\
[outgoing]
allow = ["127.0.0.1"]

[[tools]]
name = "configured"
description = "Stands in the config."
inputSchema = { type = "object" }
executionType = "external"
"""


def body(name: str, url: str | None, **more: Any) -> dict[str, Any]:
    execution = {} if url is None else {"execution": {"url": url}}
    kind = "gateway" if url is not None else "external"
    given = {"name": name, "description": "Asks.", "inputSchema": {"type": "object"}, "executionType": kind}
    return {**given, **execution, **more}


async def trial(client: httpx2.AsyncClient, given: dict[str, Any], status: int = 200) -> dict[str, Any]:
    answer = await client.post("/api/v1/sources/test/tool", json=given)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@requirement("OPS-tools-test")
async def test_a_tool_is_tested_before_it_is_kept_and_nothing_is_sent(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client), Upstream() as server:
        found = await trial(client, body("ask", f"{server.url}/{{place}}?key=secret"))
        assert found == {"ok": True, "name": "ask", "notices": [], "server": server.url, "error": None}
        assert server.received == []
        assert (await client.get("/api/v1/tools/ask")).status_code == 404

        refused = await trial(client, body("ask", f"http://127.0.0.1:{closed_port()}/"))
        assert (refused["ok"], refused["server"]) == (False, None)
        assert "Connection refused" in refused["error"]
        private = await trial(client, body("ask", "http://10.0.0.1/"))
        assert "'10.0.0.1' was refused: that is a private address" in private["error"]
        unknown = await trial(client, body("ask", "https://nowhere.invalid/"))
        assert "'nowhere.invalid' was refused: the name has no address" in unknown["error"]

        others = await trial(client, body("ask", None))
        assert (others["ok"], others["server"]) == (True, None), "whoever answers it is not asked"


@requirement("OPS-tools-test")
async def test_a_test_judges_a_tool_as_making_it_does(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path, CONFIG) as (_, client):
        wrong = [
            body("ask", "ftp://files.example/"),
            body("ask", "https://a.example/", inputSchema={"type": "nonsense"}),
            body("ask", "https://a.example/", colour="blue"),
            body("configured", "https://a.example/"),
        ]
        for given in wrong:
            made = await client.post("/api/v1/tools", json=given)
            assert await trial(client, given, made.status_code) == made.json()
            assert made.status_code in (400, 409)
        assert (await client.post("/api/v1/tools", json=body("kept", None))).status_code == 201
        again = await trial(client, body("kept", None), 409)
        assert "Tool 'kept' exists" in str(again)


@requirement("OPS-tools-test")
@pytest.mark.parametrize("name", ["search", "a-b", "configured", "message"])
async def test_a_test_says_what_the_tool_would_be_called(tmp_path: Path, name: str) -> None:
    """By the catalog's own rules: once it is made, it is called so."""
    given = body(name, None, executionType="internal", visible=True)
    config = CONFIG.replace('"configured"', '"a_b"')
    async with in_process_gateway(tmp_path, config) as (_, client):
        found = await trial(client, given)
        made = await client.post("/api/v1/tools", json=given)
        assert found["name"] == made.json()["tool"]["name"]
        notices = [notice["message"] for notice in (await client.get("/readyz")).json()["notices"]]
        assert set(found["notices"]) <= set(notices)
        assert (found["name"] == name) == (not found["notices"])


async def test_a_tool_may_be_called_test(tmp_path: Path) -> None:
    async with in_process_gateway(tmp_path) as (_, client):
        assert (await client.post("/api/v1/tools", json=body("test", None))).status_code == 201
        assert (await client.get("/api/v1/tools/test")).json()["name"] == "test"
        assert (await client.delete("/api/v1/tools/test")).status_code == 204


@requirement("OPS-tools-test")
async def test_a_server_is_reached_by_a_connection_alone() -> None:
    names, port = Names(NAMES), closed_port()
    async with Upstream() as server, Outgoing(("127.0.0.1",), resolve=names) as outgoing:
        assert await outgoing.reach(f"{server.url}/deep?x=1") == server.url
        with pytest.raises(OutgoingUnreachable, match=f"'127.0.0.1' could not be reached at port {port}"):
            await outgoing.reach(f"http://127.0.0.1:{port}/")
        with pytest.raises(OutgoingRefused, match="cloud metadata"):
            await outgoing.reach("http://169.254.169.254/")
        assert server.received == []
    async with Upstream(tls=server_side()) as secure, Outgoing(("127.0.0.1",), resolve=names) as outgoing:
        with pytest.raises(OutgoingUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await outgoing.reach(secure.url)


@requirement("OPS-tools-test")
async def test_a_server_that_takes_no_connection_in_time_is_not_reached() -> None:
    """It listens, and says nothing of TLS."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with Outgoing(("127.0.0.1",)) as outgoing:
            with pytest.raises(OutgoingTimedOut, match="took no connection within"):
                await outgoing.reach(f"https://127.0.0.1:{silent.getsockname()[1]}/", timeout=0.2)
