"""A service as a source: when it is asked, what is kept while it is away, and how its tools are executed."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.errors import CallLoop, ConfigError, SourceUnavailable
from jackfield.model.call import Done, Failed, Outcome
from jackfield.model.trace_context import IncomingTrace, incoming_trace, via
from jackfield.protocol.large_results import digest_of
from jackfield.sources.manifest.options import parse_options
from jackfield.sources.manifest.parser import BadManifest
from jackfield.sources.manifest.source import ServiceDown, time_to_live
from jackfield.sources.supervisor import SourceState
from tests.requirement import requirement
from tests.sources.invocations import invocation_of
from tests.sources.manifest.scene import BOUND, TOOLS, kept, manifest, published, scene, tool
from tests.sources.upstream import Received, Upstream, json_reply, never, reply
from tests.waiting import eventually_async

EXECUTE = "/api/v1/tools/echo/execute"


def value_of(outcome: Outcome) -> Any:
    assert isinstance(outcome, Done), outcome
    return msgspec.json.decode(outcome.result)


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


def _breaks(_: Received) -> bytes:
    raise ConnectionError


# When the service is asked


def test_a_manifest_is_good_for_sixty_seconds_or_as_long_as_the_service_says_or_as_configured() -> None:
    assert time_to_live("", configured=None) == 60
    assert time_to_live("public, max-age=60", configured=None) == 60
    assert time_to_live("max-age=5", configured=None) == 60, "the seed: for at least 60 seconds"
    assert time_to_live("public, max-age=300", configured=None) == 300
    assert time_to_live("max-age=99999999", configured=None) == 3600
    assert time_to_live("max-age=300", configured=2) == 2


async def test_a_manifest_is_asked_for_again_when_its_time_is_over_and_only_if_it_changed(tmp_path: Path) -> None:
    async with scene(tmp_path, cache_ttl=0.05) as at:
        seen: list[str | None] = []

        def answer(request: Received) -> bytes:
            seen.append(request.headers.get("if-none-match"))
            return reply(304) if seen[-1] == '"v1"' else published(manifest(tool()), etag='"v1"')

        at.upstream.answers[TOOLS] = answer
        first = await at.source.refresh()
        async with asyncio.timeout(BOUND):
            await at.woken.wait()
        assert (await at.source.refresh()).tools == first.tools
        assert seen == [None, '"v1"']


async def test_a_refresh_goes_past_the_cache(tmp_path: Path) -> None:
    """Who asks before the time is over wants to know what is there now, whatever ETags say."""
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool("a")), etag='"same"')
        assert await at.names() == ["a"]
        at.upstream.answers[TOOLS] = published(manifest(tool("b")), etag='"same"')
        assert await at.names() == ["b"]
        assert [
            request.headers.get("if-none-match") for request in at.upstream.received if request.target == TOOLS
        ] == [
            None,
            None,
        ]
        assert at.upstream.received[-1].headers["cache-control"] == "no-cache"


@requirement("DISC-cache-generated-at")
async def test_an_older_manifest_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool("new"), at="2026-02-01T00:00:00Z"))
        assert await at.names() == ["new"]
        at.upstream.answers[TOOLS] = published(manifest(tool("old"), at="2026-01-01T00:00:00Z"))
        assert await at.names() == ["new"], "an old copy that something on the way kept"
        assert await at.names() == ["old"], "a service that says so again was really set back"


@requirement("DISC-restart-noticed")
async def test_a_service_whose_manifest_went_back_is_looked_at_again_soon_and_not_at_its_time(tmp_path: Path) -> None:
    async with Upstream() as upstream:
        upstream.answers[TOOLS] = published(manifest(tool("before"), at="2026-02-01T00:00:00Z"), etag='"x"')
        async with kept(tmp_path, upstream, cache_ttl=3600) as (_, source_registry):
            upstream.answers[TOOLS] = published(manifest(tool("after"), at="2020-01-01T00:00:00Z"), etag='"y"')
            await source_registry.refresh()
            assert [one.name for one in source_registry.listings()[0][1].tools] == ["before"]
            await eventually_async(lambda: [one.name for one in source_registry.listings()[0][1].tools] == ["after"])


@requirement("DISC-restart-noticed")
@pytest.mark.parametrize("trouble", [reply(404, b"no such tool"), reply(503), _breaks])
async def test_a_call_that_shows_that_a_service_is_not_what_it_was_has_its_manifest_read(
    tmp_path: Path, trouble: Any
) -> None:
    async with Upstream() as upstream:
        upstream.answers[TOOLS] = published(manifest(tool("before")), etag='"x"')
        upstream.answers[f"{TOOLS}/before/execute"] = trouble
        async with kept(tmp_path, upstream, cache_ttl=3600) as (at, source_registry):
            [before] = source_registry.listings()[0][1].tools
            upstream.answers[TOOLS] = published(manifest(tool("after")), etag='"y"')
            with suppress(SourceUnavailable):
                await at.source.execute(invocation_of(before))
            await eventually_async(lambda: [one.name for one in source_registry.listings()[0][1].tools] == ["after"])


@requirement("DISC-error-503-call")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply(503, b"starting"), "answered 503"),
        (json_reply({"error": {"code": "source_unavailable", "message": "Down. Try again later."}}, 503), "Down. Try"),
    ],
)
async def test_a_service_that_answers_a_call_with_503_is_unavailable_and_has_not_run_it(
    tmp_path: Path, answer: bytes, words: str
) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool("a")))
        at.upstream.answers[f"{TOOLS}/a/execute"] = answer
        with pytest.raises(SourceUnavailable, match=words):
            await at.call("a")


@requirement("DISC-cancel-at-peer")
async def test_the_connection_of_a_call_that_is_cancelled_is_closed(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool("a")))
        at.upstream.answers[f"{TOOLS}/a/execute"] = never
        calling = asyncio.create_task(at.call("a"))
        await eventually_async(lambda: f"{TOOLS}/a/execute" in at.upstream.targets)
        calling.cancel()
        async with asyncio.timeout(BOUND):
            await at.upstream.hung_up(f"{TOOLS}/a/execute")
        assert not any("cancel" in target for target in at.upstream.targets)


async def test_an_older_copy_that_is_gone_when_asked_again_is_never_shown(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        newest = published(manifest(tool("newest"), at="2026-03-01T00:00:00Z"))
        at.upstream.answers[TOOLS] = published(manifest(tool("new"), at="2026-02-01T00:00:00Z"))
        assert await at.names() == ["new"]
        answers = [published(manifest(tool("old"), at="2026-01-01T00:00:00Z")), newest]
        at.upstream.answers[TOOLS] = lambda _: answers.pop(0)
        assert await at.names() == ["newest"]


@requirement("DISC-error-503-peer", "CON-manifest-stale")
@pytest.mark.parametrize("trouble", [reply(503, b"down"), reply(200, b"<html>"), published(manifest(version="2.0"))])
async def test_a_service_in_trouble_is_down_and_its_last_known_tools_stay(tmp_path: Path, trouble: bytes) -> None:
    async with Upstream() as upstream:
        upstream.answers[TOOLS] = published(manifest(tool("a"), tool("b")))
        async with kept(tmp_path, upstream) as (_, source_registry):
            upstream.answers[TOOLS] = trouble
            await source_registry.refresh()
            [(_, listing)] = source_registry.listings()
            [status] = source_registry.statuses()
            assert status.status is SourceState.DOWN
            assert status.error is not None
            assert [one.name for one in listing.tools] == ["a", "b"]


@requirement("DISC-cache-restart")
async def test_a_service_that_came_back_is_read_anew_whatever_its_etag_and_clock_say(tmp_path: Path) -> None:
    async with Upstream() as upstream:
        upstream.answers[TOOLS] = published(manifest(tool("before"), at="2026-02-01T00:00:00Z"), etag='"x"')
        async with kept(tmp_path, upstream) as (_, source_registry):
            upstream.answers[TOOLS] = reply(503)
            await source_registry.refresh()

            def restarted(request: Received) -> bytes:
                if "if-none-match" in request.headers:
                    return reply(304)
                return published(manifest(tool("after"), at="2020-01-01T00:00:00Z"), etag='"x"')

            upstream.answers[TOOLS] = restarted
            await eventually_async(lambda: source_registry.statuses()[0].status is SourceState.UP)
            assert [one.name for one in source_registry.listings()[0][1].tools] == ["after"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply(404), "no manifest is there"),
        (reply(401), "wants other credentials"),
        (reply(503), "the service is unavailable"),
        (reply(500), "answered 500"),
    ],
)
async def test_what_is_wrong_with_a_service_is_said(tmp_path: Path, answer: bytes, words: str) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = answer
        with pytest.raises(ServiceDown, match=words):
            await at.source.refresh()


async def test_a_service_that_does_not_answer_is_given_up_in_its_time(tmp_path: Path) -> None:
    async with scene(tmp_path, timeout=0.05) as at:
        at.upstream.answers[TOOLS] = never
        with pytest.raises(Exception, match="did not answer within"):
            await at.source.refresh()


@requirement("DISC-future-authentication-peer")
async def test_the_configured_credentials_are_sent_with_every_request(tmp_path: Path) -> None:
    async with scene(tmp_path, headers={"Authorization": "Bearer s3cret"}) as at:

        def guarded(answer: bytes) -> Callable[[Received], bytes]:
            return lambda request: answer if request.headers.get("authorization") == "Bearer s3cret" else reply(401)

        at.upstream.answers[TOOLS] = guarded(published(manifest(tool())))
        at.upstream.answers[EXECUTE] = guarded(json_reply({"success": True, "status": "completed", "result": "ok"}))
        assert value_of(await at.call("echo", text="x")) == "ok"


# Following changes


async def test_a_change_that_the_service_tells_of_is_read_at_once(tmp_path: Path) -> None:
    told = asyncio.Event()

    async def changes(_: Received) -> bytes:
        await told.wait()
        event = b'event: tools.changed\ndata: {"added": ["b"]}\n\n'
        return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 10000\r\n\r\n" + event

    async with Upstream() as upstream:
        upstream.answers |= {TOOLS: published(manifest(tool("a"))), "/api/v1/tools/changes": changes}
        async with kept(tmp_path, upstream) as (_, source_registry):
            upstream.answers[TOOLS] = published(manifest(tool("a"), tool("b")))
            told.set()
            await eventually_async(lambda: len(source_registry.listings()[0][1].tools) == 2)


async def test_a_service_without_a_stream_of_changes_is_left_alone(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool()))
        await at.names()
        await eventually_async(lambda: "/api/v1/tools/changes" in at.upstream.targets)
        await at.names()
        assert at.asked == 0
        assert at.upstream.targets.count("/api/v1/tools/changes") == 1


# Executing


@requirement("CON-manifest-base-url")
async def test_a_tool_is_executed_at_the_configured_url_whatever_the_manifest_says(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool()))  # its base_url is another host's
        at.upstream.answers[EXECUTE] = json_reply({"success": True, "status": "completed", "result": {"said": "hi"}})
        assert value_of(await at.call("echo", text="hi")) == {"said": "hi"}
        [asked] = [request for request in at.upstream.received if request.target == EXECUTE]
        assert asked.json == {"arguments": {"text": "hi"}}


async def test_trace_call_id_deadline_and_way_travel_along(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool()))
        at.upstream.answers[EXECUTE] = json_reply({"success": True, "status": "completed", "result": None})
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        incoming_trace.set(IncomingTrace(parent, "a=b"))
        via.set(("house_first",))
        await at.call("echo", timeout_ms=1234, text="x")
        [sent] = [request.headers for request in at.upstream.received if request.target == EXECUTE]
        assert (sent["traceparent"], sent["tracestate"]) == (parent, "a=b")
        assert sent["jackfield-call-id"] == sent["idempotency-key"] == "call_1"
        assert sent["jackfield-timeout-ms"] == "1234"
        assert sent["jackfield-via"] == "house_first, house_here"


async def test_a_call_that_has_come_through_too_many_gateways_goes_no_further(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool()))
        via.set(tuple(f"house_{number}" for number in range(8)))
        with pytest.raises(CallLoop, match="has come through 8 gateways"):
            await at.call("echo", text="x")
        assert EXECUTE not in at.upstream.targets


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (
            json_reply({"success": False, "status": "failed", "error": {"code": "no_luck", "message": "Bad"}}),
            "no_luck",
            "Bad",
        ),
        (json_reply({"success": False, "status": "failed", "error": "Bad"}), "tool_error", "Bad"),
        (json_reply({"success": False}), "tool_error", "did not say why"),
        (json_reply({"error": {"code": "forbidden", "message": "Not you"}}, 403), "forbidden", "Not you"),
        (json_reply({"error": "Not Found", "message": "tool not found: echo"}, 500), "http_error", "tool not found"),
        (reply(404, b"nothing"), "http_error", "Set the source's 'execution'"),
        (reply(200, b"<html>"), "bad_response", "not JSON"),
    ],
)
async def test_a_failure_there_is_a_failure_here_in_its_own_words(
    tmp_path: Path, answer: bytes, code: str, words: str
) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers |= {TOOLS: published(manifest(tool())), EXECUTE: answer}
        outcome = failed(await at.call("echo", text="x"))
        assert outcome.code == code
        assert words in outcome.message


async def test_an_answer_that_is_only_the_result_is_the_result(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers |= {TOOLS: published(manifest(tool())), EXECUTE: json_reply([1, 2])}
        assert value_of(await at.call("echo", text="x")) == [1, 2]


@requirement("DISC-meta-idempotent-acts")
@pytest.mark.parametrize(("idempotent", "sent"), [(True, 3), (False, 1)])
async def test_only_an_idempotent_tool_is_asked_again_when_the_connection_broke(
    tmp_path: Path, *, idempotent: bool, sent: int
) -> None:
    async with scene(tmp_path) as at:

        def breaks(_: Received) -> bytes:
            raise ConnectionError

        at.upstream.answers[TOOLS] = published(manifest(tool(metadata={"idempotent": idempotent})))
        at.upstream.answers[EXECUTE] = breaks
        outcome = failed(await at.call("echo", text="x"))
        assert outcome.code == "unreachable"
        assert "may or may not have taken effect" in outcome.message
        asked = [request for request in at.upstream.received if request.target == EXECUTE]
        assert len(asked) == sent
        assert len({request.headers["idempotency-key"] for request in asked}) == 1, "it is known as the same call"


async def test_an_idempotent_tool_whose_connection_broke_once_has_its_result(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        broken: list[None] = []

        def breaks_once(_: Received) -> bytes:
            if not broken:
                broken.append(None)
                raise ConnectionError
            return json_reply({"success": True, "result": "second"})

        at.upstream.answers |= {TOOLS: published(manifest(tool(metadata={"idempotent": True}))), EXECUTE: breaks_once}
        assert value_of(await at.call("echo", text="x")) == "second"


async def test_a_service_that_nobody_can_reach_is_said_to_be_down_and_looked_for(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool()))
        found = await at.tool("echo")
        async with scene(tmp_path, url=f"http://127.0.0.1:{await _free_port()}") as gone:
            with pytest.raises(SourceUnavailable, match="is down"):
                await gone.source.execute(invocation_of(found, text="x"))
            assert gone.asked == 1


async def test_a_template_of_the_config_executes_where_there_is_no_endpoint(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "execution": {"url": "/run/{tool}"},
        "executions": {"status": {"url": "/runs/{text}", "method": "GET"}},
    }
    async with scene(tmp_path, **options) as at:
        at.upstream.answers |= {
            TOOLS: published(manifest(tool(), tool("status"))),
            "/run/echo": lambda request: json_reply(request.json),
            "/runs/r%201": json_reply({"state": "done"}),
        }
        assert value_of(await at.call("echo", text="hi")) == {"text": "hi"}
        assert value_of(await at.call("status", text="r 1")) == {"state": "done"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "nowhere"}, "url is invalid"),
        ({"url": "http://u:p@x"}, "user or password"),
        ({"url": "http://x", "execution": {"url": "http://{tool}/"}}, "sources.far"),
        ({"url": "http://x", "caching": 1}, "unknown key 'caching'"),
        ({"url": "http://x", "cache_ttl": 0}, "cache_ttl"),
        ({}, "needs the key 'url'"),
    ],
)
def test_options_that_cannot_be_used_are_said(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_options(options, where="sources.far")


# Gateways of gateways


HOUSE = {"jackfield_house": "house_there"}


async def test_a_tool_that_another_gateway_has_from_us_is_not_taken_back(tmp_path: Path) -> None:
    ours = tool("ours", via=["house_here"])
    far = tool("far", via=["house_third", "house_fourth"])
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool("theirs"), ours, far), **HOUSE)
        found = {one.name: one.via for one in (await at.source.refresh()).tools}
        assert found == {"theirs": ("house_there",), "far": ("house_there", "house_third", "house_fourth")}


async def test_a_tool_that_has_come_too_far_is_left_out(tmp_path: Path) -> None:
    way = [f"house_{number}" for number in range(8)]
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool("near", via=way[:7]), tool("far", via=way)), **HOUSE)
        assert await at.names() == ["near"]


async def test_the_way_is_no_part_of_what_a_tool_is(tmp_path: Path) -> None:
    """It changes when gateways are put together another way, and nobody has to accept that."""
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool(via=["house_a"])), **HOUSE)
        first = (await at.tool("echo")).definition
        at.upstream.answers[TOOLS] = published(manifest(tool(via=["house_b"])), **HOUSE)
        assert first == (await at.tool("echo")).definition


async def test_a_gateway_that_is_its_own_source_is_told_so(tmp_path: Path) -> None:
    async with scene(tmp_path, cluster_id="house_there") as at:
        at.upstream.answers[TOOLS] = published(manifest(tool()), **HOUSE)
        with pytest.raises(SourceUnavailable, match="This is the gateway itself"):
            await at.source.refresh()


async def test_a_call_that_waits_at_the_other_gateway_is_followed_there(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        looks: list[None] = []

        def record(_: Received) -> bytes:
            looks.append(None)
            status = "pending_approval" if len(looks) == 1 else "completed"
            return json_reply({"call": {"status": status, "result": None if len(looks) == 1 else 42, "error": None}})

        pending = {"success": False, "call_id": "call_far", "status": "pending_approval", "result": {}, "error": None}
        at.upstream.answers |= {
            TOOLS: published(manifest(tool())),
            EXECUTE: json_reply(pending, 202),
            "/api/v1/calls/call_far": record,
        }
        assert value_of(await at.call("echo", text="x")) == 42


async def test_a_large_result_of_another_gateway_arrives_whole(tmp_path: Path) -> None:
    body = msgspec.json.encode("ä" * 2_000)
    pages = [body.decode()[:1_000], body.decode()[1_000:]]

    def page(request: Received) -> bytes:
        first = "offset=0" in request.target
        offset = 0 if first else len(pages[0].encode())
        following = len(pages[0].encode()) if first else None
        return json_reply(
            {
                "call_id": "call_far",
                "digest": digest_of(body),
                "size": len(body),
                "offset": offset,
                "next_offset": following,
                "text": pages[0 if first else 1],
            }
        )

    notice = {"large_result": True, "call_id": "call_far", "size": len(body), "digest": digest_of(body)}
    notice |= {"preview": "", "url": "", "message": ""}
    async with scene(tmp_path) as at:
        at.upstream.answers |= {
            TOOLS: published(manifest(tool())),
            EXECUTE: json_reply({"success": True, "status": "completed", "call_id": "call_far", "result": notice}),
            "/api/v1/calls/call_far/result": page,
        }
        assert value_of(await at.call("echo", text="x")) == "ä" * 2_000


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b'{"protocol_version":"1.0"}', b"\xff\xfe", b"{" * 9])
async def test_an_answer_that_is_no_manifest_is_a_fault_of_that_source_alone(tmp_path: Path, body: bytes) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(body)
        with pytest.raises(BadManifest):
            await at.source.refresh()


async def _free_port() -> int:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


WAITS = {"success": False, "call_id": "call_far", "status": "pending_approval", "result": {}, "error": None}


async def test_a_gateway_that_is_away_for_a_while_has_not_lost_what_waits_there(tmp_path: Path) -> None:
    """A proxy that answers for a gateway which restarts says nothing about the call."""
    answers = [reply(503, b"starting"), reply(502), json_reply({"call": {"status": "completed", "result": 42}})]
    async with scene(tmp_path) as at:
        at.upstream.answers |= {
            TOOLS: published(manifest(tool())),
            EXECUTE: json_reply(WAITS, 202),
            "/api/v1/calls/call_far": lambda _: answers.pop(0),
        }
        assert value_of(await at.call("echo", text="x")) == 42


async def test_a_call_that_is_cancelled_here_does_not_go_on_waiting_there(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        looked = asyncio.Event()

        def record(_: Received) -> bytes:
            looked.set()
            return json_reply({"call": {"status": "pending_approval"}})

        at.upstream.answers |= {
            TOOLS: published(manifest(tool())),
            EXECUTE: json_reply(WAITS, 202),
            "/api/v1/calls/call_far": record,
        }
        call = asyncio.create_task(at.call("echo", text="x"))
        async with asyncio.timeout(BOUND):
            await looked.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert at.upstream.targets[-1] == "/api/v1/calls/call_far/cancel"


async def test_the_id_that_a_service_gives_its_call_leads_nowhere_else(tmp_path: Path) -> None:
    odd = {**WAITS, "call_id": "../../admin?all=1#"}
    async with scene(tmp_path) as at:
        at.upstream.answers |= {
            TOOLS: published(manifest(tool())),
            EXECUTE: json_reply(odd, 202),
            "/api/v1/calls/..%2F..%2Fadmin%3Fall%3D1%23": json_reply({"call": {"status": "completed", "result": 1}}),
        }
        assert value_of(await at.call("echo", text="x")) == 1


@pytest.mark.parametrize("page", [reply(503), json_reply({"never": "a page"})])
async def test_a_tool_that_ran_is_not_said_to_be_out_of_reach_because_of_its_large_result(
    tmp_path: Path, page: bytes
) -> None:
    notice = {"large_result": True, "call_id": "call_far", "size": 9, "digest": "d", "preview": "", "url": ""}
    async with scene(tmp_path) as at:
        at.upstream.answers |= {
            TOOLS: published(manifest(tool())),
            EXECUTE: json_reply({"success": True, "status": "completed", "result": {**notice, "message": ""}}),
            "/api/v1/calls/call_far/result": page,
        }
        assert "large result" in failed(await at.call("echo", text="x")).message


async def test_a_large_result_that_never_ends_is_given_up_at_its_size(tmp_path: Path) -> None:
    notice = {"large_result": True, "call_id": "call_far", "size": 900, "digest": "d", "preview": "", "url": ""}

    def page(request: Received) -> bytes:
        offset = int(request.target.partition("offset=")[2].partition("&")[0])
        part = {"call_id": "call_far", "digest": "d", "size": 900, "offset": offset, "next_offset": offset + 1}
        return json_reply({**part, "text": "x" * 500})

    async with scene(tmp_path) as at:
        at.upstream.answers |= {
            TOOLS: published(manifest(tool())),
            EXECUTE: json_reply({"success": True, "status": "completed", "result": {**notice, "message": ""}}),
            "/api/v1/calls/call_far/result": page,
        }
        assert failed(await at.call("echo", text="x")).code == "bad_response"
        assert sum("/result" in target for target in at.upstream.targets) == 2


async def test_a_tool_of_ours_is_not_taken_back_from_a_service_that_does_not_say_what_it_is(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        at.upstream.answers[TOOLS] = published(manifest(tool("ours", via=["house_a", "house_here"]), tool("theirs")))
        assert await at.names() == ["theirs"]


@pytest.mark.parametrize("trouble", [reply(503, b"starting"), reply(502), reply(429), _breaks])
async def test_work_at_a_service_in_trouble_is_asked_for_later(tmp_path: Path, trouble: Any) -> None:
    """A service that is away is asked until the call expires; only senseless answers are counted."""
    polling = {"status_tool": "check", "operation_id_field": "id", "status_tool_id_param": "id"}
    behavior = {"status_polling": polling, "completion_conditions": {"status_field": "s", "success_values": ["ok"]}}
    async with scene(tmp_path) as at:
        at.upstream.answers |= {
            TOOLS: published(manifest(tool(metadata={"async_behavior": behavior}), tool("check"))),
            "/api/v1/tools/check/execute": trouble,
        }
        invocation = invocation_of(await at.tool("echo"), text="x")
        with pytest.raises(SourceUnavailable):
            await at.source.look(invocation, msgspec.Raw(b'{"id":"r1"}'))
