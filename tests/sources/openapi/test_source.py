import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.model.call import Done
from jackfield.sources.openapi.document import Unreadable
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import SourceState
from tests.sources.invocations import invocation_of
from tests.sources.openapi.scene import BOUND, document, echo, json_body, operation, parameter, service
from tests.sources.upstream import Received, Upstream, json_reply, never, redirect, reply

ECHO = document(
    {
        "/echo/{id}": {"get": operation("look", parameters=[parameter("q")])},
        "/make": {"post": operation("make", requestBody=json_body({"type": "object", "properties": {"n": {}}}))},
    }
)
SECRET = "s3cr3t-value-0001"


async def test_a_call_is_one_request_to_the_service_and_its_answer_the_result(tmp_path: Path) -> None:
    async with service(tmp_path, ECHO) as shop:
        shop.upstream.answers |= {"/echo/7": echo, "/make": echo}

        looked = await shop.result("look", id="7", q="a b")
        made = await shop.result("make", n=[1])

    assert (looked["method"], looked["target"], looked["body"]) == ("GET", "/echo/7?q=a%20b", "")
    assert (made["method"], made["target"], made["body"]) == ("POST", "/make", '{"n":[1]}')
    assert made["headers"]["content-type"] == "application/json"


async def test_an_answer_is_trimmed_to_what_the_call_or_the_config_asks_for(tmp_path: Path) -> None:
    async with service(tmp_path, ECHO, select={"make": ["a.b"]}) as shop:
        body = {"a": {"b": 1, "c": 2}, "d": 3}
        shop.upstream.answers |= {"/echo/7": json_reply(body), "/make": json_reply(body)}

        assert await shop.result("look", id="7", fields=["d", "a.c"]) == {"a": {"c": 2}, "d": 3}
        assert await shop.result("look", id="7") == body
        assert await shop.result("make") == {"a": {"b": 1}}
        assert shop.upstream.targets[-3:] == ["/echo/7", "/echo/7", "/make"]


async def test_the_document_is_fetched_again_only_if_its_etag_changed(tmp_path: Path) -> None:
    async with service(tmp_path) as shop:
        shop.publish(ECHO, etag='"1"')
        first = await shop.list()
        again = await shop.list()
        shop.publish(document({"/new": {"get": operation("new")}}), etag='"2"')
        changed = await shop.list()

        conditions = [request.headers.get("if-none-match") for request in shop.upstream.received]
        assert conditions == [None, '"1"', '"1"']
        assert again is first
        assert [tool.name for tool in changed.tools] == ["new"]


async def test_the_supervisor_is_asked_to_reload_the_document_when_it_has_expired(tmp_path: Path) -> None:
    async with service(tmp_path, ECHO, cache_ttl=0.01) as shop:
        await shop.source.open()
        async with asyncio.timeout(BOUND):
            await shop.changes.wait()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (reply(503, b"away"), "cannot be fetched: the server responded with HTTP 503."),
        (reply(200, b"<html>"), "is a web page or XML, which no OpenAPI document is. Check its url."),
        (reply(200, b'{"openapi": "2.0", "paths": {}}'), "is not an OpenAPI 3 document: its 'openapi' is '2.0'."),
        (reply(200, b'{"openapi": "3.0.0", "paths": 7}'), "is not an OpenAPI document: its 'paths' is not an object."),
        (redirect("http://127.0.0.1:1/"), "cannot be fetched: The request to '127.0.0.1'"),
        (b"nonsense\r\n\r\n", "cannot be fetched: "),
    ],
)
async def test_while_the_document_cannot_be_read_the_last_good_one_is_served_and_the_fault_is_told(
    tmp_path: Path, answer: bytes, says: str
) -> None:
    async with service(tmp_path, ECHO) as shop:
        shop.upstream.answers |= {"/echo/7": echo, "/openapi.json": answer}
        good = shop.tools

        listing = await shop.list()

        assert {tool.name: tool for tool in listing.tools} == good
        (fault,) = listing.faults
        assert fault.startswith(f"The OpenAPI document '{shop.upstream.url}/openapi.json' of 'shop' {says}")
        assert fault.endswith("Its tools are served as they were last read.")
        assert (await shop.result("look", id="7"))["target"] == "/echo/7"

        shop.publish(ECHO)
        assert (await shop.list()).faults == ()


async def test_a_source_that_never_had_a_good_document_is_down_with_a_sentence_and_comes_up_by_itself(
    tmp_path: Path,
) -> None:
    async with service(tmp_path) as shop:
        shop.upstream.answers["/openapi.json"] = reply(200, b"openapi: 3.1.0")
        source_registry = SourceRegistry(on_listing=lambda: None)
        await source_registry.add(shop.source)
        try:
            await source_registry.settled(within=BOUND)
            (status,) = source_registry.statuses()
            assert status.status is SourceState.DOWN
            assert status.error is not None
            assert "of 'shop' is not a complete OpenAPI document: it has no 'paths'." in status.error

            shop.publish(ECHO)
            async with asyncio.timeout(BOUND):
                await source_registry.refresh("shop")
            (status,) = source_registry.statuses()
            assert (status.status, status.tools) == (SourceState.UP, 2)
        finally:
            await source_registry.close()


async def test_a_document_in_a_file_is_read_and_read_again_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "shop.json").write_bytes(msgspec.json.encode(ECHO))
    async with Upstream() as upstream, service(tmp_path, file="shop.json", base_url=f"{upstream.url}/v2") as shop:
        upstream.answers["/v2/echo/7"] = echo
        first = await shop.list()
        assert (await shop.result("look", id="7"))["target"] == "/v2/echo/7"
        assert await shop.list() is first

        (tmp_path / "shop.json").write_bytes(msgspec.json.encode(document({"/n": {"get": operation("new")}})))
        assert [tool.name for tool in (await shop.list()).tools] == ["new"]

        (tmp_path / "shop.json").unlink()
        (fault,) = (await shop.list()).faults
        assert fault.startswith("The OpenAPI document 'shop.json' of 'shop' cannot be read: No such file or directory.")
        assert str(tmp_path) not in fault


async def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    async with service(tmp_path, file="none.json", base_url="http://127.0.0.1:1") as shop:
        with pytest.raises(Unreadable, match=r"'none\.json' of 'shop' cannot be read: No such file or directory"):
            await shop.list()


async def test_the_operators_credentials_are_sent_and_come_back_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for auth in (
        {"type": "bearer", "token": SECRET},
        {"type": "basic", "user": "me", "password": SECRET},
        {"type": "api_key", "name": "X-Key", "value": SECRET},
        {"type": "api_key", "name": "key", "value": f"{SECRET}/+", "place": "query"},
    ):
        async with service(tmp_path, ECHO, auth=auth, headers={"X-More": f"more-{SECRET}"}) as shop:
            shop.upstream.answers |= {"/echo/7": echo, "/make": lambda got: reply(500, _as_text(got))}

            seen = await shop.call("look", id="7")
            failed = await shop.failure("make", n=1)

            assert isinstance(seen, Done)
            assert SECRET not in bytes(seen.result).decode()
            assert "bWU6czNjcjN0" not in bytes(seen.result).decode()
            assert "[redacted]" in bytes(seen.result).decode()
            assert SECRET not in failed.message
            assert SECRET not in bytes(failed.result or b"").decode()
            got = shop.upstream.received
            assert all(request.headers["x-more"] == f"more-{SECRET}" for request in got)
            assert len({_credential(request) for request in got}) == 1
            assert _credential(got[0])
    assert SECRET not in caplog.text


def _as_text(request: Received) -> bytes:
    return f"{request.target} {request.headers}".encode()


def _credential(request: Received) -> str:
    query = request.target.partition("key=")[2]
    return request.headers.get("authorization") or request.headers.get("x-key") or query


async def test_credentials_do_not_go_to_who_only_has_the_document(tmp_path: Path) -> None:
    async with Upstream() as api:
        auth = {"type": "bearer", "token": SECRET}
        async with service(tmp_path, ECHO, auth=auth, base_url=f"{api.url}/v1") as shop:
            api.answers["/v1/echo/7"] = json_reply({"ok": True})
            assert await shop.result("look", id="7") == {"ok": True}
            assert "authorization" not in shop.upstream.received[0].headers
            assert api.received[0].headers["authorization"] == f"Bearer {SECRET}"


async def test_a_redirect_to_a_closed_place_is_refused_and_takes_no_credentials_along(tmp_path: Path) -> None:
    async with Upstream() as inside:
        async with service(tmp_path, ECHO, auth={"type": "bearer", "token": SECRET}) as shop:
            shop.upstream.answers["/echo/7"] = redirect(f"{inside.url}/admin")
            failed = await shop.failure("look", id="7")
        assert failed.code == "outgoing_refused"
        assert inside.received == []


@pytest.mark.parametrize(("tool", "arguments", "times"), [("look", {"id": "7"}, 2), ("make", {"n": 1}, 1)])
async def test_only_what_may_be_repeated_is_sent_again_after_a_failure_of_transport(
    tmp_path: Path, tool: str, arguments: dict[str, Any], times: int
) -> None:
    async with service(tmp_path, ECHO) as shop:
        asked: list[str] = []

        def once_broken(request: Received) -> bytes:
            asked.append(request.method)
            return b"no http at all\r\n\r\n" if len(asked) == 1 else json_reply({"ok": True})

        shop.upstream.answers |= {"/echo/7": once_broken, "/make": once_broken}
        outcome = await shop.call(tool, **arguments)

        assert len(asked) == times
        assert isinstance(outcome, Done) is (times == 2)


async def test_a_service_that_does_not_answer_in_time_is_a_timeout(tmp_path: Path) -> None:
    async with service(tmp_path, ECHO) as shop:
        shop.upstream.answers["/echo/7"] = never
        outcome = await shop.source.execute(invocation_of(shop.tools["look"], timeout_ms=50, id="7"))
        assert (outcome.code, outcome.message) == ("timeout", "Tool timed out after 50ms")  # type: ignore[union-attr]


async def test_an_answer_larger_than_allowed_is_a_failure(tmp_path: Path) -> None:
    async with service(tmp_path, ECHO, max_bytes=100) as shop:
        shop.upstream.answers["/echo/7"] = json_reply({"x": "y" * 200})
        failed = await shop.failure("look", id="7")
        assert failed.code == "bad_response"
        assert "more than the 100 bytes allowed" in failed.message


async def test_an_argument_that_does_not_fit_its_place_is_a_failure_and_nothing_is_sent(tmp_path: Path) -> None:
    async with service(tmp_path, ECHO) as shop:
        before = len(shop.upstream.received)
        failed = await shop.failure("look", id="../admin")
        assert failed.code == "invalid_arguments"
        assert len(shop.upstream.received) == before


async def test_a_call_of_a_tool_that_was_just_read_anew_and_changed_is_not_carried_out(tmp_path: Path) -> None:
    """Between a reading and the catalog's next look, a caller may still have the definition that was pinned."""
    async with service(tmp_path, ECHO) as shop:
        known = shop.tools["look"]
        shop.publish(document({"/elsewhere/{id}": {"get": operation("look", parameters=[parameter("q")])}}))
        await shop.list()
        before = len(shop.upstream.received)

        outcome = await shop.source.execute(invocation_of(known, id="7"))

        assert (outcome.code, len(shop.upstream.received)) == ("definition_changed", before)  # type: ignore[union-attr]
