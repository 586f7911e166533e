"""Tools that come over the API: made, changed and deleted by an administrator, declared by tool servers."""

import json
from collections.abc import AsyncIterator, Generator
from datetime import datetime
from typing import Any

import pytest

from jackfield.settings.parsing import snake_case
from tests.harness.api import Api, error_of
from tests.requirement import requirement
from tests.stories.pending import PendingClient, pending_api, pending_client, tool_server
from tests.waiting import eventually_async

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with pending_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture
async def at(api: Api) -> AsyncIterator[PendingClient]:
    async with pending_client(api) as opened:
        yield opened


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": SCHEMA, "executionType": "internal"} | more


def declared(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": SCHEMA, "visible": False} | more


async def names_of(at: PendingClient, source: str) -> list[str]:
    tools = (await at.ask("GET", "/api/v1/tools")).json()["tools"]
    return [one["name"] for one in tools if one["source"] == source]


@requirement(
    "SPACE-flow-internal", "SPACE-field-execution-optional", "SPACE-field-description", "SPACE-field-input-schema"
)
async def test_a_made_tool_is_listed_and_called_at_once(at: PendingClient) -> None:
    answer = await at.ask("POST", "/api/v1/tools", json=tool("made"))
    assert answer.status_code == 201
    shown = answer.json()["tool"]
    assert shown == (await at.ask("GET", "/api/v1/tools/made")).json()
    assert (shown["name"], shown["description"], shown["parameters"]) == ("made", "The tool made.", SCHEMA)
    body = (await at.execute("made", {"q": "x"})).json()
    assert body["result"] == {"success": True, "args": {"q": "x"}}
    assert (await at.execute("made", {})).status_code == 400


@requirement("SPACE-flow-internal")
async def test_an_internal_tool_gives_its_arguments_back_whatever_else_its_config_says(at: PendingClient) -> None:
    more = {"isAsync": True, "timeout": 1, "execution": {"url": "http://127.0.0.1:1/nobody"}}
    assert (await at.ask("POST", "/api/v1/tools", json=tool("chart", **more))).status_code == 201
    answer = await at.execute("chart", {"q": "x"})
    assert answer.status_code == 200
    assert answer.json()["result"] == {"success": True, "args": {"q": "x"}}


@requirement("SPACE-field-visible-default-true", "SPACE-field-visible-default-internal")
@pytest.mark.parametrize(
    ("kind", "visible"), [("external", True), ("space", True), ("gateway", True), ("internal", False)]
)
async def test_a_tool_is_visible_unless_it_is_internal_or_says_otherwise(
    at: PendingClient, kind: str, *, visible: bool
) -> None:
    name = f"ext_seen_{kind}"
    execution = {"execution": {"url": "http://127.0.0.1:1/nobody"}} if kind == "gateway" else {}
    made = tool(name, executionType=kind, isAsync=True, **execution)
    assert (await at.ask("POST", "/api/v1/tools", json=made)).status_code == 201
    body = (await at.execute(name, {"q": "x"}, agent="nowhere")).json()
    text = f'Tool "{name}" is visible but you are not in a space. Call enter_space first.'
    assert (body["result"] == {"error": text}) is visible
    assert (await at.execute(name, {"q": "x"}, agent="somewhere", space_id="lobby")).json()["result"] != {"error": text}
    await at.ask("PUT", f"/api/v1/tools/{name}", json=made | {"visible": False})
    assert (await at.execute(name, {"q": "x"}, agent="nowhere")).json()["result"] != {"error": text}


@requirement("SPACE-field-is-async-default", "SPACE-field-timeout-default")
async def test_a_tool_that_says_nothing_is_waited_for_thirty_seconds(at: PendingClient) -> None:
    await at.ask("POST", "/api/v1/tools", json=tool("ext_plain", executionType="external"))
    call = at.begin("ext_plain", {"q": "x"})
    record = await at.waiting("ext_plain")
    lasts = datetime.fromisoformat(record["deadline"]) - datetime.fromisoformat(record["created_at"])
    assert lasts.total_seconds() == 30
    await at.submit(record, result=1)
    assert (await call).json()["result"] == 1


@requirement("SPACE-async-independent", "SPACE-principle-sync-async")
async def test_a_timeout_makes_no_tool_sync_and_being_async_sets_none(at: PendingClient) -> None:
    for name, more in (("ext_both", {"isAsync": True, "timeout": 1}), ("ext_sync", {"isAsync": False, "timeout": 1})):
        await at.ask("POST", "/api/v1/tools", json=tool(name, executionType="external", visible=False, **more))
    both = await at.execute("ext_both", {"q": "x"}, agent="apart")
    assert (both.status_code, both.json()["status"]) == (202, "pending")
    sync = (await at.execute("ext_sync", {"q": "x"}, agent="apart")).json()
    assert sync["error"] == {"code": "timeout", "message": "Tool timed out after 1ms"}
    record = await at.record(both.json()["call_id"])
    assert (record["status"], record["deadline"]) == ("pending", None)


@requirement("CON-config-cases")
async def test_keys_may_be_in_camel_or_in_snake_case(at: PendingClient) -> None:
    camel = tool("cased", executionType="external", isAsync=True, expiresIn=1000, outputSchema={"type": "integer"})
    snake = {snake_case(key): value for key, value in camel.items()}
    assert {"input_schema", "execution_type", "is_async", "expires_in", "output_schema"} <= set(snake)
    first = await at.ask("POST", "/api/v1/tools", json=camel)
    second = await at.ask("PUT", "/api/v1/tools/cased", json=snake)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    both = await at.ask("PUT", "/api/v1/tools/cased", json=camel | {"expiresin": 1})
    assert both.status_code == 400


async def test_a_made_tool_is_changed_and_deleted(at: PendingClient) -> None:
    await at.ask("POST", "/api/v1/tools", json=tool("passing"))
    version = (await at.ask("GET", "/api/v1/tools/passing")).json()["version"]
    changed = await at.ask("PUT", "/api/v1/tools/passing", json=tool("passing", description="Other."))
    assert (changed.status_code, changed.json()["tool"]["description"]) == (200, "Other.")
    assert changed.json()["tool"]["version"] != version
    assert (await at.ask("GET", "/api/v1/tools/passing")).json() == changed.json()["tool"]
    nameless = {key: value for key, value in tool("passing").items() if key != "name"}
    assert (await at.ask("PUT", "/api/v1/tools/passing", json=nameless)).status_code == 200
    assert (await at.ask("DELETE", "/api/v1/tools/passing")).status_code == 204
    assert (await at.ask("GET", "/api/v1/tools/passing")).status_code == 404
    assert (await at.execute("passing", {"q": "x"})).status_code == 404
    again = await at.ask("DELETE", "/api/v1/tools/passing")
    assert (again.status_code, error_of(again)["code"]) == (404, "tool_not_found")


@requirement("SPACE-no-special-routing")
async def test_a_made_tool_may_be_answered_by_others_and_change_its_kind(at: PendingClient) -> None:
    await at.ask("POST", "/api/v1/tools", json=tool("ext_made", executionType="external", isAsync=True, visible=False))
    call = (await at.execute("ext_made", {"q": "x"}, agent="made")).json()
    assert (await at.submit(call, result=1)).status_code == 200
    await at.ask("PUT", "/api/v1/tools/ext_made", json=tool("ext_made"))
    assert (await at.execute("ext_made", {"q": "x"})).json()["status"] == "completed"


@requirement("SPACE-field-name", "SPACE-field-description", "SPACE-field-input-schema", "SPACE-field-execution-type")
@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("name", "name"),
        ("description", "description"),
        ("inputSchema", "input_schema"),
        ("executionType", "execution_type"),
    ],
)
async def test_a_tool_without_what_every_tool_needs_is_refused_and_the_key_named(
    at: PendingClient, key: str, told: str
) -> None:
    body = {name: value for name, value in tool("lacking").items() if name != key}
    answer = await at.ask("POST", "/api/v1/tools", json=body)
    assert answer.status_code == 400
    assert f"needs the key '{told}'" in error_of(answer)["message"]


@requirement("SPACE-field-execution-type-unknown", "SPACE-no-custom-ui")
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"name": None}, "name"),
        ({"executionType": "magic"}, "Known: gateway, external, space, internal."),
        ({"display": {"customUI": "x"}}, "unknown key 'display'"),
        ({"inputSchema": {"type": "array"}}, "object"),
        ({"inputSchema": {"type": "object", "properties": {"q": {"type": "nonsense"}}}}, "input schema"),
        ({"inputSchema": {"type": "object", "$ref": "http://evil.example/x"}}, "input schema"),
        ({"executionType": "external", "execution": {"url": "ftp://x"}}, "ftp"),
        ({"executionType": "gateway", "execution": {"url": "ftp://x"}}, "ftp"),
        ({"timeout": 0}, "timeout"),
        ({"expiresIn": 10**30}, "expires"),
        ({"name": ""}, "name"),
        ({"name": "a\u0000b"}, "name"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
async def test_a_tool_that_cannot_be_used_is_refused_with_what_is_wrong(
    at: PendingClient, wrong: dict[str, Any], says: str
) -> None:
    answer = await at.ask("POST", "/api/v1/tools", json=tool("wrong") | wrong)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "invalid_request")
    assert says in error_of(answer)["message"]
    assert (await at.ask("GET", "/api/v1/tools/wrong")).status_code == 404


async def test_a_name_that_is_taken_is_409(at: PendingClient) -> None:
    assert (await at.ask("POST", "/api/v1/tools", json=tool("taken"))).status_code == 201
    for name in ("taken", "strict"):
        answer = await at.ask("POST", "/api/v1/tools", json=tool(name))
        assert (answer.status_code, error_of(answer)["code"]) == (409, "conflict")
    assert (await at.ask("PUT", "/api/v1/tools/strict", json=tool("strict"))).status_code == 404
    other = await at.ask("PUT", "/api/v1/tools/taken", json=tool("other"))
    assert (other.status_code, error_of(other)["param"]) == (400, "name")


async def test_a_made_tool_with_a_reserved_name_is_shown_and_changed_under_another(at: PendingClient) -> None:
    answer = await at.ask("POST", "/api/v1/tools", json=tool("search"))
    assert (answer.status_code, answer.json()["tool"]["name"]) == (201, "internal_search")
    changed = await at.ask("PUT", "/api/v1/tools/internal_search", json=tool("search", description="New."))
    assert changed.json()["tool"]["description"] == "New."
    assert (await at.ask("DELETE", "/api/v1/tools/internal_search")).status_code == 204


@pytest.mark.parametrize("key", ["caller", "crm", "answerer", "reader"])
async def test_only_an_administrator_makes_tools(at: PendingClient, key: str) -> None:
    assert (await at.ask("POST", "/api/v1/tools", key=key, json=tool("x"))).status_code == 403
    assert (await at.ask("PUT", "/api/v1/tools/x", key=key, json=tool("x"))).status_code == 403
    assert (await at.ask("DELETE", "/api/v1/tools/x", key=key)).status_code == 403


async def test_a_tool_server_declares_its_tools_and_replaces_them_at_once(api: Api, at: PendingClient) -> None:
    async with tool_server(api, client="watcher", tools="ext_a,ext_b,ext_c") as server:
        first = [declared("ext_a"), declared("ext_b", isAsync=True)]
        answer = await at.ask("PUT", "/api/v1/sources/crm/tools", key="crm", json={"tools": first})
        body = answer.json()
        assert (answer.status_code, list(body)) == (200, ["source", "tools", "count"])
        assert (body["source"], body["count"], [one["name"] for one in body["tools"]]) == ("crm", 2, ["ext_a", "ext_b"])
        assert await names_of(at, "crm") == ["ext_a", "ext_b"]
        call = (await at.execute("ext_b", {"q": "x"})).json()
        assert (await server.next())["toolCallId"] == call["call_id"]
        second = {"tools": [declared("ext_b", description="Another."), declared("ext_c")]}
        await at.ask("PUT", "/api/v1/sources/crm/tools", key="crm", json=second)
        assert await names_of(at, "crm") == ["ext_b", "ext_c"]
        assert (await at.ask("GET", "/api/v1/tools/ext_b")).json()["description"] == "Another."
        assert (await at.submit(call, result=1)).status_code == 200
    assert (await at.ask("PUT", "/api/v1/sources/crm/tools", key="crm", json={"tools": []})).json()["count"] == 0
    assert await names_of(at, "crm") == []


async def test_a_refused_declaration_changes_nothing(at: PendingClient) -> None:
    await at.ask("PUT", "/api/v1/sources/steady/tools", key="crm", json={"tools": [declared("ext_s")]})
    for status, tools in (
        (400, [declared("ext_t"), {"name": "ext_broken"}]),
        (400, [declared("ext_t"), declared("ext_t")]),
        (400, [declared("ext_t"), declared("ext_u", executionType="internal")]),
        (400, [declared("ext_t"), declared("ext_u", execution={"url": "https://mcp.example"})]),
        (400, [declared("ext_t"), declared("ext_u", expiresIn=0)]),
        (403, [declared("ext_t"), declared("not_mine")]),
    ):
        answer = await at.ask("PUT", "/api/v1/sources/steady/tools", key="crm", json={"tools": tools})
        assert answer.status_code == status
    assert await names_of(at, "steady") == ["ext_s"]


async def test_a_source_belongs_to_the_key_that_declared_it(at: PendingClient) -> None:
    await at.ask("PUT", "/api/v1/sources/owned/tools", key="crm", json={"tools": [declared("ext_o")]})
    theirs = await at.ask("PUT", "/api/v1/sources/owned/tools", key="crm2", json={"tools": []})
    assert (theirs.status_code, error_of(theirs)["code"]) == (403, "forbidden")
    for taken in ("local", "external", "builtin", "no%20name"):
        answer = await at.ask("PUT", f"/api/v1/sources/{taken}/tools", key="crm", json={"tools": []})
        assert (answer.status_code, error_of(answer)["code"]) == (409, "conflict")
    assert (await at.ask("PUT", "/api/v1/sources/x/tools", key="caller", json={"tools": []})).status_code == 403
    assert await names_of(at, "owned") == ["ext_o"]


async def test_a_declared_source_is_shown_with_its_state(api: Api, at: PendingClient) -> None:
    await at.ask("PUT", "/api/v1/sources/stated/tools", key="crm", json={"tools": [declared("ext_stated")]})

    async def source() -> dict[str, Any]:
        sources = (await at.ask("GET", "/readyz", key="crm")).json()["sources"]
        [found] = [one for one in sources if one["name"] == "stated"]
        return dict(found)

    without = await source()
    assert (without["kind"], without["status"], without["tools"]) == ("external", "down", 1)
    assert "No tool server" in without["error"]
    async with tool_server(api, tools="ext_stated"):
        assert (await source()) | {"status": "up", "error": None} == await source()

    async def unavailable() -> dict[str, Any] | None:
        scenarios = (await at.ask("GET", "/api/v1/tools/scenarios")).json()
        return next((one for one in scenarios if one["scenario"] == "stated" and not one["available"]), None)

    # That the server hung up is noticed when its connection is seen to be closed.
    gone = await eventually_async(unavailable)
    assert gone is not None
    assert gone["tool_count"] == 1


async def test_made_and_declared_tools_outlive_the_gateway(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("restart")
    with pending_api(folder) as api:
        async with pending_client(api) as at:
            await at.ask("POST", "/api/v1/tools", json=tool("lasting"))
            await at.ask("PUT", "/api/v1/sources/crm/tools", key="crm", json={"tools": [declared("ext_lasting")]})
            before = [(await at.ask("GET", f"/api/v1/tools/{name}")).json() for name in ("lasting", "ext_lasting")]
    with pending_api(folder) as api:
        async with pending_client(api) as at:
            after = [(await at.ask("GET", f"/api/v1/tools/{name}")).json() for name in ("lasting", "ext_lasting")]
            assert after == before
            assert (await at.ask("DELETE", "/api/v1/tools/lasting")).status_code == 204
