import asyncio
import json
import threading
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from jackfield import discovery
from jackfield.discovery import Category, Provider, Reply, ServedTool, ToolSet
from tests.requirement import requirement

TOOLS = "/api/v1/tools"
JSON = {"Content-Type": "application/json"}


class Point(Struct):
    x: int
    y: int = 0


def add(a: int, b: Annotated[int, Meta(ge=0)] = 1) -> int:
    """Add two numbers."""
    return a + b


async def move(point: Point, on: date) -> dict[str, Any]:
    """Move a point."""
    return {"x": point.x + 1, "y": point.y, "weekday": on.isoweekday()}


def boom(reason: str) -> None:
    """Fail, always."""
    raise ValueError(reason)


def nothing() -> None:
    """Answer null."""


def unspeakable() -> object:
    """Return what JSON cannot hold."""
    return object()


def provider(*tools: Any, **more: Any) -> Provider:
    given: list[Any] = list(tools) or [add, move, boom, nothing, unspeakable]
    return Provider(given, name="maths", **more)


async def ask(given: Provider, path: str = "", *, method: str = "GET", body: bytes = b"", **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with asyncio.timeout(10):
        return await given.respond(method, f"{TOOLS}{path}", headers=sent, body=body)


async def execute(given: Provider, name: str, arguments: Any) -> Any:
    body = msgspec.json.encode({"arguments": arguments})
    reply = await ask(given, f"/{name}/execute", method="POST", body=body, content_type="application/json")
    return reply.status, msgspec.json.decode(reply.body)


async def refused(given: Provider, path: str, **more: Any) -> tuple[int, str, str]:
    reply = await ask(given, path, **more)
    error = msgspec.json.decode(reply.body)["error"]
    assert error.keys() >= {"type", "code", "message", "param"}
    return reply.status, error["code"], error["message"]


async def test_a_function_is_described_by_its_hints_and_its_docstring() -> None:
    reply = await ask(provider(), "/add")

    tool = msgspec.json.decode(reply.body)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert tool["description"] == "Add two numbers."
    assert tool["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "minimum": 0, "default": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert tool["source"] == "maths"
    assert tool["version"]


async def test_a_call_is_checked_converted_run_and_answered_as_a_gateway_would() -> None:
    maths = provider()

    status, answer = await execute(maths, "add", {"a": 2, "b": 3})
    assert status == 200
    assert answer.pop("call_id").startswith("call_")
    assert answer.pop("run_id").startswith("run_")
    assert answer.pop("execution_time_ms") >= 0
    assert answer == {"success": True, "status": "completed", "result": 5, "error": None}

    _, moved = await execute(maths, "move", {"point": {"x": 1}, "on": "2026-11-16"})
    assert moved["result"] == {"x": 2, "y": 0, "weekday": 1}
    _, null = await execute(maths, "nothing", {})
    assert (null["success"], null["result"]) == (True, None)


async def test_a_tool_that_fails_is_a_result_and_no_http_error() -> None:
    status, answer = await execute(provider(), "boom", {"reason": "no luck"})
    assert status == 200
    assert (answer["success"], answer["status"], answer["result"]) == (False, "failed", None)
    assert answer["error"] == {"code": "tool_error", "message": "ValueError: no luck"}

    status, answer = await execute(provider(), "unspeakable", {})
    assert (status, answer["success"]) == (200, False)
    assert "JSON cannot hold" in answer["error"]["message"]


async def test_a_tool_that_takes_too_long_is_a_failure_with_the_code_timeout() -> None:
    release = threading.Event()

    def slow() -> None:
        """Take a while."""
        release.wait(10)

    given = provider(ServedTool(function=slow, timeout=0.05))
    try:
        status, answer = await execute(given, "slow", {})
    finally:
        release.set()
    assert (status, answer["status"]) == (200, "failed")
    assert answer["error"] == {"code": "timeout", "message": "Tool timed out after 50ms"}


async def test_a_call_takes_no_longer_than_the_gateway_that_asks_waits_for_it() -> None:
    async def slow() -> None:
        """Take for ever."""
        await asyncio.Event().wait()

    reply = await ask(provider(slow), "/slow/execute", method="POST", jackfield_timeout_ms="40")
    assert msgspec.json.decode(reply.body)["error"] == {"code": "timeout", "message": "Tool timed out after 40ms"}
    for nonsense in ("", "-1", "soon", "²", "9" * 5_000):
        fine = await ask(provider(nothing), "/nothing/execute", method="POST", jackfield_timeout_ms=nonsense)
        assert msgspec.json.decode(fine.body)["success"] is True


async def test_arguments_that_do_not_fit_are_refused_before_the_function_runs() -> None:
    ran: list[int] = []

    def note(a: int) -> None:
        """Remember."""
        ran.append(a)

    for arguments in ({}, {"a": "x"}, {"a": 1, "c": 2}):
        status, answer = await execute(provider(note), "note", arguments)
        assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "invalid_arguments", "arguments")
        assert answer["error"]["details"][0].keys() == {"path", "message"}
    assert ran == []


@pytest.mark.parametrize(
    ("body", "kind", "status", "code"),
    [
        (b"{", "application/json", 400, "invalid_request"),
        (b"\xff", "application/json", 400, "invalid_request"),
        (b"[]", "application/json", 400, "invalid_request"),
        (b'{"arguments": 7}', "application/json", 400, "invalid_request"),
        (b'{"arguments": {"a": ' + b"[" * 100_000, "application/json", 400, "invalid_request"),
        (b'{"arguments": {"a": ' + b"[" * 300 + b"]" * 300 + b"}}", "application/json", 400, "invalid_request"),
        (b"a=1", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (b"{}", "", 415, "unsupported_media_type"),
        (b" " * (32 * 1024 * 1024 + 1), "application/json", 413, "too_large"),
    ],
    ids=["broken", "no UTF-8", "a list", "wrong type", "too deep", "deep", "a form", "no type", "too large"],
)
async def test_a_body_that_cannot_be_taken_is_refused_in_words(body: bytes, kind: str, status: int, code: str) -> None:
    told = await refused(provider(), "/add/execute", method="POST", body=body, content_type=kind)
    assert told[:2] == (status, code)


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
BODIES = st.one_of(
    st.binary(max_size=60),
    JSON_VALUES.map(json.dumps).map(str.encode),
    JSON_VALUES.map(lambda value: json.dumps({"arguments": value}).encode()),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON_VALUES).map(lambda a: json.dumps({"arguments": a}).encode()),
)


@given(
    body=BODIES,
    path=st.sampled_from(["/add/execute", "/move/execute", "/x/execute"]),
    kind=st.sampled_from(["json", "xml"]),
)
def test_whatever_is_sent_is_answered_in_json_and_never_breaks_the_service(body: bytes, path: str, kind: str) -> None:
    sent = ask(provider(), path, method="POST", body=body, content_type=f"application/{kind}")
    reply = asyncio.run(sent)
    told = msgspec.json.decode(reply.body)
    if reply.status == 200:
        assert told["status"] in {"completed", "failed"}
    else:
        assert reply.status in {400, 404, 415}
        assert told["error"]["code"]


async def test_no_body_is_no_arguments_and_what_a_gateway_sends_along_is_ignored() -> None:
    assert (await ask(provider(), "/nothing/execute", method="POST")).status == 200
    body = b'{"arguments": {"a": 1}, "agent": "x", "run_id": "r", "chat_id": "c", "more": 1}'
    reply = await ask(provider(), "/add/execute", method="POST", body=body, content_type="application/json")
    assert msgspec.json.decode(reply.body)["result"] == 2


async def test_what_is_not_there_is_404_and_a_wrong_method_405_in_the_shape_of_every_error() -> None:
    assert await refused(provider(), "/ad") == (404, "tool_not_found", "There is no tool 'ad'. Did you mean 'add'?")
    assert (await refused(provider(), "/ad/execute", method="POST"))[:2] == (404, "tool_not_found")
    assert (await refused(provider(), "/add/other"))[:2] == (404, "not_found")
    assert (await refused(provider(), "/add", method="DELETE"))[:2] == (405, "method_not_allowed")
    assert (await refused(provider(), "/add/execute"))[:2] == (405, "method_not_allowed")
    assert (await ask(provider(), "/add/execute")).headers["allow"] == "POST, OPTIONS"
    options = await ask(provider(), "", method="OPTIONS")
    assert (options.status, options.headers["allow"], options.body) == (204, "GET, OPTIONS", b"")


async def test_a_manifest_may_be_kept_for_a_minute_and_is_known_by_its_etag_until_a_tool_changes() -> None:
    given = provider(add)
    first = await ask(given)
    assert first.headers["cache-control"] == "public, max-age=60"
    assert first.headers["vary"] == "Authorization, X-Api-Key, X-Secret-Key, Cookie"

    same = await ask(given, if_none_match=first.headers["etag"])
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", first.headers["etag"])
    assert (await ask(provider(add))).headers["etag"] == first.headers["etag"]

    given.replace([add, nothing])
    changed = await ask(given, if_none_match=first.headers["etag"])
    assert changed.status == 200
    assert [tool["name"] for tool in msgspec.json.decode(changed.body)["tools"]] == ["add", "nothing"]


@pytest.mark.parametrize(
    "header", [{"authorization": "Bearer k-0001"}, {"x_api_key": "k-0001"}, {"x_secret_key": "k-0001"}]
)
async def test_with_a_key_only_who_brings_it_is_let_in(header: dict[str, Any]) -> None:
    closed = provider(key="k-0001")
    for path, method in (("", "GET"), ("/add", "GET"), ("/nothing", "GET"), ("/add/execute", "POST"), ("/none", "GET")):
        assert (await refused(closed, path, method=method))[:2] == (401, "unauthenticated")
        wrong = {name: value.replace("k-0001", "k-0002") for name, value in header.items()}
        assert (await refused(closed, path, method=method, **wrong))[:2] == (401, "unauthenticated")
    assert (await ask(closed)).headers["www-authenticate"] == "Bearer"
    assert (await ask(closed, **header)).status == 200
    assert (await ask(closed, "/nothing/execute", method="POST", **header)).status == 200


@requirement("DISC-provider-one-line")
def test_a_manifest_is_to_be_had_without_any_framework() -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    made = discovery.manifest([add], name="maths", version="2.0.0", description="Sums", base_url="http://localhost:1")
    told = msgspec.json.decode(made.body)

    assert told["scenario"] == {
        "name": "maths", "version": "2.0.0", "description": "Sums", "base_url": "http://localhost:1",
    }  # fmt: skip
    assert [tool["name"] for tool in told["tools"]] == ["add"]
    assert before <= datetime.fromisoformat(told["generated_at"]) <= datetime.now(UTC)
    assert (
        made.etag
        == discovery.manifest(
            [add], name="maths", version="2.0.0", description="Sums", base_url="http://localhost:1"
        ).etag
    )
    assert msgspec.json.decode(discovery.manifest([], name="empty").body)["tools"] == []


def _takes_anything(thing: object) -> None:
    """No schema can be made of this."""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([7], "cannot be served"),
        ([lambda x: x], "'<lambda>' cannot be a tool's name"),
        ([add, add], "two functions are called 'add'"),
        ([ServedTool(function=add, name="a b")], "'a b' cannot be a tool's name"),
        ([ServedTool(function=add, metadata={"cost": 1})], "the metadata of 'add' is invalid"),
        ([ServedTool(function=add, category="none")], "in the category 'none', which is not given"),
        ([ServedTool(function=add, input_schema={"type": "array"})], "the schema of 'add' describes 'array'"),
        (
            [ServedTool(function=add, input_schema={"type": "object", "$ref": "http://x/y"})],
            "the schema of 'add' refers to",
        ),
        ([_takes_anything], "make no JSON schema"),
    ],
)
def test_what_cannot_be_a_tool_is_said_when_it_is_given(given: Any, says: str) -> None:
    with pytest.raises(TypeError) as told:
        Provider(given, name="maths", categories=[Category(id="some", name="Some")])
    assert says in str(told.value)


def test_an_empty_key_is_no_key() -> None:
    with pytest.raises(ValueError, match="the key is empty"):
        Provider([add], name="maths", key="")


def names_in(given: Provider) -> list[str]:
    return [tool["name"] for tool in msgspec.json.decode(given.manifest.body)["tools"]]


@requirement("DISC-provider-registry", "DISC-provider-name", "DISC-provider-tools", "DISC-provider-categories")
async def test_a_service_gathers_the_tools_of_several_named_providers() -> None:
    given = Provider([add], name="maths", version="1.2.3-rc.1")
    moving = Category(id="moving", name="Moving")
    given.register(ToolSet("moves", [ServedTool(function=move, category="moving")], [moving]))
    given.register(ToolSet("faults", {"fail": boom}))
    assert names_in(given) == ["add", "move", "fail"]
    manifest = msgspec.json.decode(given.manifest.body)
    assert [category["id"] for category in manifest["categories"]] == ["moving"]
    assert (await execute(given, "move", {"point": {"x": 1}, "on": "2026-01-05"}))[1]["result"]["x"] == 2
    given.register(ToolSet("faults", [nothing]))
    assert names_in(given) == ["add", "move", "nothing"], "the same name takes the other's place"
    given.unregister("moves")
    assert names_in(given) == ["add", "nothing"]
    with pytest.raises(KeyError):
        given.unregister("moves")


@requirement("DISC-provider-registry")
async def test_what_a_provider_offers_is_asked_for_anew_and_faults_leave_everything_as_it_was() -> None:
    class Growing:
        name = "growing"

        def __init__(self) -> None:
            self.offered: list[Any] = [boom]

        def tools(self) -> list[Any]:
            return self.offered

        def categories(self) -> tuple[Category, ...]:
            return ()

    part = Growing()
    given = Provider(name="maths")
    given.register(part)
    part.offered = [boom, nothing]
    assert names_in(given) == ["boom"]
    given.refresh()
    assert names_in(given) == ["boom", "nothing"]
    with pytest.raises(TypeError, match="'boom' is offered by both 'growing' and 'other'"):
        given.register(ToolSet("other", [boom]))
    group = Category(id="g", name="One")
    given.register(ToolSet("first", [], [group]))
    with pytest.raises(TypeError, match="the category 'g' differently"):
        given.register(ToolSet("second", [], [Category(id="g", name="Two")]))
    assert names_in(given) == ["boom", "nothing"]


@requirement("DISC-scenario-version")
@pytest.mark.parametrize("version", ["1", "1.0", "v1.0.0", "01.0.0", "1.0.0-", "newest", "1.0.0 "])
def test_a_version_that_is_no_semantic_version_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="not a semantic version"):
        Provider([add], name="maths", version=version)
