"""The comparison of what a client sees of a server with what it sees through the gateway."""

import asyncio
import warnings
from pathlib import Path

import httpx2
import msgspec
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from conformance.servers.cases import CASES
from conformance.servers.differences import Difference, Expected, Mask, differences, unexpected
from conformance.servers.view import viewing
from tests.calls.harness import OPS
from tests.harness.in_process import KEY, make_gateway, serve_on_port
from tests.requirement import requirement
from tests.waiting import eventually_async

ROOT = Path(__file__).parents[2]

NEW = "2026-07-28"


def paths(direct: object, through: object, *masks: Mask) -> list[str]:
    return [difference.path for difference in differences(direct, through, masks=masks)]


def test_the_same_is_the_same_in_any_order() -> None:
    assert paths({"a": [1, {"b": None}], "c": 1}, {"c": 1.0, "a": [1, {"b": None}]}) == []


@pytest.mark.parametrize(
    ("direct", "through", "path"),
    [
        ({"a": {"b": 1}}, {"a": {}}, "a.b"),
        ({"a": {}}, {"a": {"b": 1}}, "a.b"),
        ({"a": [1, 2]}, {"a": [1]}, "a[1]"),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}]}, "a[0].b"),
        ({"a": 1}, {"a": True}, "a"),
        ({"a": []}, {"a": {}}, "a"),
        ({"a": "1"}, {"a": 1}, "a"),
        ({"_meta": {"theirs": 1}}, {}, "_meta"),
    ],
)
def test_every_difference_is_told_as_a_path(direct: object, through: object, path: str) -> None:
    assert paths(direct, through) == [path]


def test_what_a_gateway_adds_and_what_is_the_default_is_no_difference() -> None:
    ours = {"jackfield/callId": "call_1", "io.modelcontextprotocol/serverInfo": {"name": "jackfield"}}
    through = {"content": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "_meta": ours}
    assert paths({"content": [], "isError": False}, through) == []
    assert paths({"_meta": {"a": 1}}, {"_meta": {"a": 1, **ours}}) == []
    assert paths({"isError": True}, {}) == ["isError"]


def test_what_differs_each_time_is_masked_on_both_sides() -> None:
    clock = Mask(r"\d\d:\d\d", "(time)", "It says what time it is.")
    assert paths({"a": ["It is 10:15"]}, {"a": ["It is 10:16"]}, clock) == []
    assert paths({"a": ["It is 10:15"]}, {"a": ["It was 10:16"]}, clock) == ["a[0]"]


def test_a_difference_that_is_meant_has_a_pattern_and_one_that_is_gone_must_go() -> None:
    found = [Difference("call a.error", 1, 2), Difference("call b.error", 1, 2)]
    meant = (Expected(r"call a\..*", "why"), Expected("call c", "why"), Expected("call d", "why", "2025-11-25"))
    rest, stale = unexpected(found, meant, revision=NEW)
    assert [one.path for one in rest] == ["call b.error"]
    assert [one.path for one in stale] == ["call c"]


def test_a_difference_is_shown_in_a_line_of_bounded_length() -> None:
    (gone,) = differences({"a": "x" * 1_000}, {})
    assert str(gone).startswith("a: 'xxx")
    assert str(gone).endswith("became (nothing)")
    assert len(str(gone)) < 300


@requirement("MCP2-servers-whole")
@pytest.mark.parametrize("revision", ["2025-11-25", NEW])
@pytest.mark.parametrize("name", ["rich", "rich-modern"])
async def test_a_client_sees_the_same_of_a_server_and_through_the_gateway(
    tmp_path: Path, name: str, revision: str
) -> None:
    """The server has every field there is; `make conformance` does the same with other people's."""
    warnings.simplefilter("ignore")
    case = next(case for case in CASES if case.name == name)
    command, *arguments = case.command(tmp_path)
    server = StdioServerParameters(command=command, args=arguments, cwd=ROOT)
    async with asyncio.timeout(60), viewing(stdio_client(server), case.answers, revision=case.revision) as viewer:
        direct = await viewer.view(case.script(tmp_path))
    assert direct["call touch"]["updates"] == [{"uri": "rich://text"}]
    source: dict[str, object] = {"kind": "mcp", "command": [command, *arguments], "cwd": str(ROOT)}
    config = f"[sources]\nfar = {_toml(source)}\n"
    async with make_gateway(tmp_path, config) as gateway, serve_on_port(gateway) as url, asyncio.timeout(60):
        await eventually_async(lambda: len(gateway.catalog.view(OPS).entries) == len(direct["tools"]))
        async with httpx2.AsyncClient(headers={"x-api-key": KEY}) as http:
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with viewing(transport, case.answers, revision=revision) as viewer:
                through = await viewer.view(case.script(tmp_path))
    rest, stale = unexpected(differences(direct, through), case.expected, revision=revision)
    assert [str(one) for one in rest] == []
    assert stale == []


def _toml(table: dict[str, object]) -> str:
    return "{" + ", ".join(f"{key} = {msgspec.json.encode(value).decode()}" for key, value in table.items()) + "}"
