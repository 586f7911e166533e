"""An HTTP server that is killed and comes back, in both eras."""

import asyncio
from pathlib import Path

import pytest

from jackfield.errors import SourceUnavailable
from jackfield.model.call import Done, Failed
from jackfield.model.resource import read_of
from jackfield.sources.supervisor import SourceState
from tests.requirement import requirement
from tests.sources.mcp.scene import Scene, failed, http_server, scene


@pytest.mark.parametrize("era", ["modern", "legacy", "sse"])
async def test_a_server_that_was_killed_and_came_back_works_again_by_itself(era: str, tmp_path: Path) -> None:
    with http_server(tmp_path, legacy=era == "legacy") as server:
        options = {"url": server.sse_url, "transport": "sse"} if era == "sse" else {"url": server.url}
        async with scene(tmp_path, **options) as far:
            await far.keep()
            await far.state(SourceState.UP)
            assert await far.result("echo", text="before") == "before"
            calls = asyncio.create_task(_until_it_works_again(far))

            await asyncio.to_thread(server.kill)
            await far.state(SourceState.DOWN)
            await asyncio.to_thread(server.start)

            async with asyncio.timeout(10):
                kinds = await calls
            assert kinds <= {"source_unavailable", "refused"}
            assert kinds, "it was away for a while"


async def _until_it_works_again(far: Scene) -> set[str]:
    """Call on and on. Which ways the calls failed, when one has succeeded after a failure."""
    kinds: set[str] = set()
    while True:
        try:
            outcome = await far.call("echo", text="x")
        except SourceUnavailable:
            kinds.add("refused")
        else:
            if isinstance(outcome, Failed):
                kinds.add(outcome.code)
            elif isinstance(outcome, Done) and kinds:
                return kinds
        await asyncio.sleep(0.02)


@requirement("MCP2-read-repeated")
async def test_a_lost_session_is_made_anew_and_a_harmless_call_repeated(tmp_path: Path) -> None:
    with http_server(tmp_path, legacy=True) as server:
        async with scene(tmp_path, url=server.url) as far:
            await far.open()
            await _forget_session(far)

            outcome = failed(await far.call("echo", text="x"))
            assert (outcome.code, outcome.message) == (
                "source_unavailable",
                "The server of 'echo' was restarted and has not run this call. Call it again.",
            )
            assert await far.result("echo", text="again") == "again"

            await _forget_session(far)
            assert int(await far.result("count")) > 0, "the server says itself that it is idempotent"

            await _forget_session(far)
            assert await far.result("echo", text="config", idempotent=True) == "config"

            await _forget_session(far)
            far.tools["nowhere"] = read_of("far", "note://nowhere")
            outcome = failed(await far.call("nowhere", uri="note://nowhere"))
            assert outcome.code == "mcp_error", "a read is repeated, and it is the server that does not know it"


async def _forget_session(far: Scene) -> None:
    """End the session at the server, as a restart does, without the broken stream that would tell of it."""
    connection = far.source._session.upstream._connection
    assert connection is not None
    wire = connection._transport
    stream = wire._server_stream  # type: ignore[attr-defined]
    stream.cancel()
    await asyncio.wait([stream])
    answer = await wire._send("DELETE", wire._url, {})  # type: ignore[attr-defined]
    await answer.aclose()
    assert answer.status == 200
