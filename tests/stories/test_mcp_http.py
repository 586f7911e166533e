"""Real MCP clients of both eras at the `/mcp` of real gateways."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import MCPError
from mcp.types import ToolListChangedNotification

from tests.harness.api import Api, key_of, open_api
from tests.harness.process import running_gateway, start_gateway
from tests.requirement import requirement
from tests.stories.mcp_clients import ERAS, LATER, change_until, http_client, text_of
from tests.waiting import eventually


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@requirement("CON-mcp-revisions", "CON-mcp-per-key")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_lists_and_calls_what_its_key_may_see(api: Api, mode: str) -> None:
    url = api.gateway.url
    async with http_client(url, key_of("limited"), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "echo"]
        assert text_of(await client.call_tool("add", {"a": 2, "b": 3})) == "5"
        with pytest.raises(MCPError, match="There is no tool 'boom'"):
            await client.call_tool("boom", {})
    async with http_client(url, key_of("reader"), mode=mode) as client:
        assert "boom" in [tool.name for tool in (await client.list_tools()).tools]
        with pytest.raises(MCPError, match="may not call tools"):
            await client.call_tool("add", {"a": 1})


@pytest.mark.parametrize("mode", ERAS)
async def test_what_goes_wrong_is_told_to_the_model(api: Api, mode: str) -> None:
    async with http_client(api.gateway.url, key_of("caller"), mode=mode) as client:
        failed = await client.call_tool("boom", {"reason": "out of luck"})
        assert (failed.is_error, text_of(failed)) == (True, "ValueError: out of luck")
        wrong = await client.call_tool("add", {"a": "two"})
        assert wrong.is_error
        assert "a must be an integer" in text_of(wrong)
        late = await client.call_tool("sleeper", {})
        assert late.is_error
        assert "Tool timed out after 1000ms" in text_of(late)
        off = await client.call_tool("asleep", {})
        assert off.is_error
        assert "switched off" in text_of(off)


@pytest.mark.parametrize("mode", ERAS)
async def test_every_call_is_on_record_as_any_other(api: Api, mode: str) -> None:
    async with http_client(api.gateway.url, key_of("caller"), mode=mode) as client:
        result = await client.call_tool("echo", {"value": [1, None, "x"]})
    assert result.meta is not None
    record = api.ask("GET", f"/api/v1/calls/{result.meta['jackfield/callId']}").json()["call"]
    assert (record["status"], record["principal"], record["result"]) == ("completed", "caller", [1, None, "x"])


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_that_waits_for_a_person_says_so_and_can_be_followed(api: Api, mode: str) -> None:
    async with http_client(api.gateway.url, key_of("caller"), mode=mode) as client:
        result = await client.call_tool("guarded", {"amount": 5})
    waits = result.structured_content
    assert waits is not None
    assert waits["status"] == "pending_approval"
    call_id = waits["pendingToolCallId"]
    assert api.ask("POST", f"/api/v1/calls/{call_id}/approve").status_code == 200
    record = api.ask("GET", f"/api/v1/calls/{call_id}?wait=10", key="caller").json()["call"]
    assert (record["status"], record["result"]) == ("completed", 5)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_that_is_given_up_is_cancelled_and_its_progress_was_told(api: Api, mode: str) -> None:
    told: list[str | None] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with http_client(api.gateway.url, key_of("caller"), mode=mode) as client:
        assert text_of(await client.call_tool("stepping", {}, progress_callback=tell)) == "there"
        assert told == ["half", "whole"]
        with pytest.raises(MCPError):
            await client.call_tool("slow", {"gate": "/nowhere/at/all"}, read_timeout_seconds=0.3)
    eventually(lambda: _last_status(api, "slow") == "cancelled")


def _last_status(api: Api, tool: str) -> str:
    return str(api.ask("GET", f"/api/v1/calls?tool={tool}&limit=1").json()["calls"][0]["status"])


@requirement("CON-mcp-list-changed")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_tool_file_that_appears_is_announced_and_usable(tmp_path: Path, mode: str) -> None:
    heard = asyncio.Event()

    async def listen(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            heard.set()

    with running_gateway(tmp_path, FILES, files={"tools/first.py": FIRST}) as gateway:
        async with http_client(gateway.url, gateway.key, mode=mode, message_handler=listen) as client, patience():
            assert [tool.name for tool in (await client.list_tools()).tools] == ["first"]
            if mode == "legacy":
                await change_until(heard, tmp_path / "tools/later.py")
            else:
                async with client.listen(tools_list_changed=True) as events:
                    (tmp_path / "tools/later.py").write_text(LATER, encoding="utf-8")
                    await anext(aiter(events))
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["first", "newcomer"]
            assert text_of(await client.call_tool("newcomer", {})) == "here I am"


FILES = '[sources.local]\nkind = "files"\npath = "tools/*.py"\n'
FIRST = 'def first() -> str:\n    """Was there first."""\n    return "first"\n'


def patience() -> asyncio.Timeout:
    return asyncio.timeout(15)


async def test_a_client_of_2026_is_served_by_any_gateway_and_survives_a_restart(tmp_path: Path) -> None:
    with running_gateway(tmp_path, FILES, files={"tools/first.py": FIRST}) as gateway:
        async with http_client(gateway.url, gateway.key, mode="2026-07-28") as client:
            assert text_of(await client.call_tool("first", {})) == "first"
            gateway.stop()
            again = start_gateway(tmp_path)
            try:
                assert text_of(await client.call_tool("first", {})) == "first"
            finally:
                again.stop()


async def test_a_session_of_another_gateway_is_404_and_a_new_handshake_mends_it(tmp_path: Path) -> None:
    with running_gateway(tmp_path, FILES, files={"tools/first.py": FIRST}) as gateway:
        async with http_client(gateway.url, gateway.key, mode="legacy") as client:
            await client.list_tools()
            gateway.stop()
            again = start_gateway(tmp_path)
            try:
                with pytest.raises(MCPError, match="Send 'initialize' again"):
                    await client.list_tools()
                async with http_client(again.url, again.key, mode="legacy") as fresh:
                    assert text_of(await fresh.call_tool("first", {})) == "first"
            finally:
                again.stop()
