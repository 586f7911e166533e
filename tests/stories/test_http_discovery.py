"""Seed 004 through the doors: the manifest, one tool, search."""

import json
import re
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.api import ADMIN_KEY, Api, error_of, open_api
from tests.harness.process import running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

METADATA_FIELDS = [
    "enabled_by_default",
    "requires_approval",
    "timeout_seconds",
    "rate_limit_per_minute",
    "cost_estimate",
    "long_running",
    "idempotent",
    "tags",
    "examples",
]
SEED_MANIFEST: dict[str, Any] = {
    "protocol_version": "1.0",
    "scenario": {
        "name": "agent-manager",
        "version": "1.0.0",
        "description": "Manages coding agents for software engineering tasks",
        "base_url": "http://localhost:15000",
    },
    "tools": [
        {
            "name": "spawn_coding_agent",
            "description": "Spawn a coding agent to execute a software engineering task",
            "category": "agent_lifecycle",
            "parameters": {
                "type": "object",
                "properties": {
                    "task": {"type": "string", "description": "Clear description of the coding task"},
                    "runner_type": {
                        "type": "string",
                        "enum": ["claude-code", "codex", "opencode"],
                        "default": "claude-code",
                    },
                },
                "required": ["task"],
            },
            "metadata": {
                "enabled_by_default": True,
                "requires_approval": False,
                "timeout_seconds": 30,
                "rate_limit_per_minute": 10,
                "cost_estimate": "high",
                "long_running": True,
                "idempotent": False,
                "tags": ["coding", "agent", "async"],
                "examples": [
                    {
                        "description": "Fix a bug in authentication",
                        "input": {"task": "Fix the login bug where users are logged out after 5 minutes"},
                    }
                ],
            },
        }
    ],
    "categories": [
        {
            "id": "agent_lifecycle",
            "name": "Agent Lifecycle",
            "description": "Tools for spawning, stopping, and managing agent runs",
            "icon": "play",
        }
    ],
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Api]:
    with open_api(tmp_path_factory.mktemp("gateway")) as opened:
        yield opened


@pytest.fixture(scope="module")
def manifest(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.ask("GET", "/api/v1/tools", key="reader").json()
    return found


def tool_in(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [tool for tool in manifest["tools"] if tool["name"] == name]
    return dict(found)


@requirement("DISC-get-tools", "DISC-error-200", "DISC-provider-handler-json", "DISC-cache-control")
def test_the_manifest_is_json_that_may_be_kept_for_a_minute(api: Api) -> None:
    answer = api.ask("GET", "/api/v1/tools", key="reader")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert answer.headers["vary"] == "Authorization, X-Api-Key, X-Secret-Key, Cookie"
    assert list(answer.json()) == ["protocol_version", "scenario", "tools", "categories", "generated_at"]


@requirement("SAFE-manifest-cache")
@pytest.mark.parametrize("header", ["Authorization", "X-Api-Key", "X-Secret-Key", "Cookie"])
def test_a_shared_cache_keeps_the_manifests_of_keys_apart_however_they_are_sent(api: Api, header: str) -> None:
    def sent(key: str) -> dict[str, str]:
        if header != "Cookie":
            return {header: f"Bearer {key}-key" if header == "Authorization" else f"{key}-key"}
        signed_in = httpx2.post(f"{api.gateway.url}/api/login", headers={"x-api-key": f"{key}-key"})
        return {"Cookie": f"jackfield={signed_in.cookies['jackfield']}"}

    answers = [api.ask("GET", "/api/v1/tools", key=None, headers=sent(key)) for key in ("reader", "limited")]
    again = api.ask(
        "GET", "/api/v1/tools", key=None, headers={**sent("reader"), "If-None-Match": answers[0].headers["etag"]}
    )
    head = api.ask("HEAD", "/api/v1/tools", key=None, headers=sent("reader"))
    assert [answer.status_code for answer in (*answers, again, head)] == [200, 200, 304, 200]
    assert answers[0].content != answers[1].content
    assert answers[0].headers["etag"] != answers[1].headers["etag"]
    for answer in (*answers, again, head):
        assert header in answer.headers["vary"].split(", ")
    wrong = {"Authorization": "Bearer wrong", "Cookie": "jackfield=wrong"}.get(header, "wrong")
    for refused in (
        api.ask("GET", "/api/v1/tools", key=None, headers={header: wrong}),
        api.ask("GET", "/api/v1/tools", key=None),
        api.ask("GET", "/api/v1/tools", key=None, headers=sent("sandbox")),
    ):
        assert refused.status_code in (401, 403)
        assert refused.headers["cache-control"] == "no-store"


@requirement("SAFE-manifest-cache")
def test_only_the_manifest_and_the_consoles_files_may_be_kept_by_shared_caches(api: Api) -> None:
    for path in ("/api/v1/tools/echo", "/api/v1/tools/search?q=x", "/api/v1/calls", "/v1/models", "/openapi.json"):
        answer = api.ask("GET", path, key="admin")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"


@requirement(
    "DISC-manifest-protocol-version",
    "DISC-manifest-scenario",
    "DISC-manifest-tools",
    "DISC-manifest-categories",
    "DISC-manifest-generated-at",
)
def test_the_manifest_has_every_part(manifest: dict[str, Any]) -> None:
    assert manifest["protocol_version"] == "1.0"
    assert isinstance(manifest["scenario"], dict)
    assert isinstance(manifest["tools"], list)
    assert isinstance(manifest["categories"], list)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", manifest["generated_at"])
    age = datetime.now(UTC) - datetime.fromisoformat(manifest["generated_at"])
    assert abs(age.total_seconds()) < 120


@requirement(
    "DISC-scenario-name",
    "DISC-scenario-version",
    "DISC-scenario-description",
    "DISC-scenario-base-url",
    "DISC-provider-scenario-config",
)
def test_the_scenario_is_what_the_operator_wrote(manifest: dict[str, Any]) -> None:
    assert manifest["scenario"] == {
        "name": "story",
        "version": "2.3.4",
        "description": "Tools for the stories about HTTP",
        "base_url": "http://story.example:8420",
    }


@requirement(
    "DISC-tool-name",
    "DISC-tool-description",
    "DISC-tool-category",
    "DISC-tool-parameters",
    "DISC-tool-metadata",
    "DISC-params-type",
    "DISC-params-properties",
)
def test_every_tool_has_every_field_and_its_own_name(manifest: dict[str, Any]) -> None:
    names = [tool["name"] for tool in manifest["tools"]]
    assert names == sorted(set(names))
    categories = {category["id"] for category in manifest["categories"]}
    for tool in manifest["tools"]:
        assert list(tool) == ["name", "description", "category", "parameters", "metadata", "version", "source"]
        assert tool["description"]
        assert tool["category"] is None or tool["category"] in categories
        assert tool["parameters"]["type"] == "object"
        assert isinstance(tool["parameters"]["properties"], dict)
        assert list(tool["metadata"]) == METADATA_FIELDS
    add = tool_in(manifest, "add")
    assert add["category"] == "maths"
    assert set(add["parameters"]["properties"]) == {"a", "b"}
    assert add["parameters"]["required"] == ["a"]


@requirement("DISC-category-id", "DISC-category-name", "DISC-category-description", "DISC-category-icon")
def test_a_category_has_all_its_fields(manifest: dict[str, Any]) -> None:
    assert manifest["categories"] == [
        {"id": "maths", "name": "Maths", "description": "What can be counted", "icon": "plus"}
    ]


@requirement(
    "DISC-meta-enabled-by-default",
    "DISC-meta-requires-approval",
    "DISC-meta-timeout-seconds",
    "DISC-meta-rate-limit",
    "DISC-meta-cost-estimate",
    "DISC-meta-long-running",
    "DISC-meta-idempotent",
    "DISC-meta-tags",
    "DISC-meta-examples",
)
def test_metadata_is_published_whatever_its_value(api: Api, manifest: dict[str, Any]) -> None:
    assert tool_in(manifest, "add")["metadata"] == {
        "enabled_by_default": True,
        "requires_approval": False,
        "timeout_seconds": 7,
        "rate_limit_per_minute": 6000,
        "cost_estimate": "low",
        "long_running": False,
        "idempotent": True,
        "tags": ["arithmetic", "sum"],
        "examples": [{"description": "One and one", "input": {"a": 1, "b": 1}}],
    }
    assert tool_in(manifest, "asleep")["metadata"]["enabled_by_default"] is False
    assert tool_in(manifest, "guarded")["metadata"]["requires_approval"] is True
    found = api.ask("GET", "/api/v1/tools/search?q=arithmetic", key="reader").json()["tools"]
    assert [tool["name"] for tool in found] == ["add"]


@requirement("DISC-get-tool")
def test_one_tool_is_its_entry_of_the_manifest(api: Api, manifest: dict[str, Any]) -> None:
    answer = api.ask("GET", "/api/v1/tools/add", key="reader")
    assert answer.status_code == 200
    assert answer.json() == tool_in(manifest, "add")


@requirement("DISC-get-tool-404", "DISC-error-404")
def test_an_unknown_tool_is_404_with_the_nearest_name(api: Api) -> None:
    answer = api.ask("GET", "/api/v1/tools/ecko", key="reader")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "tool_not_found")
    assert "Did you mean 'echo'?" in error_of(answer)["message"]


@requirement("CON-disc-stable-etag")
def test_the_manifest_is_stable_and_304_for_whoever_has_it(api: Api) -> None:
    first, second = (api.ask("GET", "/api/v1/tools", key="reader") for _ in range(2))
    assert first.content == second.content
    etag = first.headers["etag"]
    assert re.fullmatch(r'"[0-9a-f]+"', etag)
    for given in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = api.ask("GET", "/api/v1/tools", key="reader", headers={"if-none-match": given})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
        assert answer.headers["cache-control"] == "public, max-age=60"
    other = api.ask("GET", "/api/v1/tools", key="reader", headers={"if-none-match": '"other"'})
    assert (other.status_code, other.content) == (200, first.content)
    assert api.ask("GET", "/api/v1/tools", key="limited").headers["etag"] != etag


@requirement("CON-disc-search")
def test_search_gives_the_best_matches_up_to_the_limit(api: Api) -> None:
    answer = api.ask("GET", "/api/v1/tools/search", params={"q": "add numbers"}, key="reader").json()
    assert set(answer) == {"tools", "query"}
    assert answer["query"] == "add numbers"
    assert answer["tools"][0] == api.ask("GET", "/api/v1/tools/add", key="reader").json()
    few = api.ask("GET", "/api/v1/tools/search", params={"q": "", "limit": 2}, key="reader").json()["tools"]
    assert len(few) == 2
    assert api.ask("GET", "/api/v1/tools/search", params={"q": "zzzzzz"}, key="reader").json()["tools"] == []


@requirement("DISC-seed-example")
def test_the_seeds_example_is_produced_field_by_field(tmp_path: Path) -> None:
    tool = SEED_MANIFEST["tools"][0]
    config = {
        "scenario": SEED_MANIFEST["scenario"],
        "categories": SEED_MANIFEST["categories"],
        "tools": [
            {
                "name": tool["name"],
                "description": tool["description"],
                "executionType": "internal",
                "inputSchema": tool["parameters"],
                "category": tool["category"],
                "metadata": tool["metadata"],
            }
        ],
    }
    with running_gateway(
        tmp_path, files={"jackfield.json": json.dumps(config)}, env={"JACKFIELD_ADMIN_KEY": ADMIN_KEY}
    ) as gateway:
        manifest = httpx2.get(f"{gateway.url}/api/v1/tools", headers=gateway.headers).json()
    assert manifest.pop("generated_at")
    assert manifest["tools"][0].pop("version")
    assert manifest["tools"][0].pop("source") == "internal"
    assert manifest == SEED_MANIFEST


@requirement("DISC-manifest-tools")
def test_without_tools_the_lists_are_there_and_empty(tmp_path: Path) -> None:
    with running_gateway(tmp_path, "") as gateway:
        manifest = httpx2.get(f"{gateway.url}/api/v1/tools", headers=gateway.headers).json()
    assert (manifest["tools"], manifest["categories"]) == ([], [])


@requirement("DISC-future-versioning")
def test_a_tools_version_changes_with_its_definition_and_only_then(tmp_path: Path) -> None:
    text = 'def one() -> int:\n    """First."""\n    return 1\n\n\ndef two() -> int:\n    """Second."""\n    return 2\n'
    config = '[sources.local]\nkind = "files"\npath = "tools/*.py"\n'
    with running_gateway(tmp_path, config, files={"tools/a.py": text}) as gateway:

        def versions() -> dict[str, str]:
            tools = httpx2.get(f"{gateway.url}/api/v1/tools", headers=gateway.headers).json()["tools"]
            return {tool["name"]: tool["version"] for tool in tools}

        before = versions()
        (tmp_path / "tools" / "a.py").write_text(text.replace("Second.", "Another."))
        eventually(lambda: versions()["two"] != before["two"])
        assert versions()["one"] == before["one"]


PUBLIC = """
[discovery]
public = {public}

[sources.local]
kind = "files"
path = "tools/*.py"
"""
TWO = {f"tools/{name}.py": f'def {name}() -> int:\n    """Say {name}."""\n    return 1\n' for name in ("one", "two")}


@requirement("DISC-public")
@pytest.mark.parametrize(("public", "shown"), [("true", ["one", "two"]), ('["o*"]', ["one"])])
def test_a_consumer_without_a_key_reads_the_manifest_where_the_operator_says_so(
    tmp_path: Path, public: str, shown: list[str]
) -> None:
    with (
        running_gateway(tmp_path, PUBLIC.format(public=public), files=TWO) as gateway,
        httpx2.Client(base_url=gateway.url) as nobody,
    ):
        manifest = nobody.get("/api/v1/tools")
        assert [tool["name"] for tool in manifest.json()["tools"]] == shown
        etag = {"if-none-match": manifest.headers["etag"]}
        assert nobody.get("/api/v1/tools", headers=etag).status_code == 304
        assert nobody.get("/api/v1/tools/one").json()["name"] == "one"
        assert [tool["name"] for tool in nobody.get("/api/v1/tools/search").json()["tools"]] == shown
        assert nobody.get("/api/v1/tools/two").status_code == (200 if "two" in shown else 404)
        with nobody.stream("GET", "/api/v1/tools/changes") as changes:
            assert changes.status_code == 200
        assert nobody.get("/api/v1/tools", headers={"x-api-key": "wrong-key-0001"}).status_code == 401
        for method, path in [
            ("POST", "/api/v1/tools/one/execute"),
            ("GET", "/api/v1/tools/set"),
            ("GET", "/api/v1/tools/scenarios"),
            ("GET", "/api/v1/tools/one/diff"),
            ("POST", "/api/v1/tools/refresh"),
            ("POST", "/api/v1/tools"),
            ("GET", "/api/v1/calls"),
            ("GET", "/api/agents"),
        ]:
            assert nobody.request(method, path).status_code == 401, path


@requirement("DISC-public")
@pytest.mark.parametrize("public", ["false", "[]"])
def test_without_that_word_the_manifest_needs_a_key(tmp_path: Path, public: str) -> None:
    with running_gateway(tmp_path, PUBLIC.format(public=public), files=TWO) as gateway:
        for path in ("", "/one", "/search", "/changes"):
            assert httpx2.get(f"{gateway.url}/api/v1/tools{path}").status_code == 401
