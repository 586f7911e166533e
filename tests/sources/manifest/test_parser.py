"""A service's manifest as our listing: both spellings, every version, and what cannot be read."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jackfield.model.tool import CostEstimate, Example, Tool
from jackfield.sources.foreign import ListingRules
from jackfield.sources.manifest.parser import BadManifest, ServiceManifest, manifest_of
from tests.requirement import requirement
from tests.sources.manifest.scene import manifest, tool

RULES = ListingRules(source="far", server="http://far")
SEED = {
    "protocol_version": "1.0",
    "scenario": {"name": "agent-manager", "version": "1.0.0", "description": "Manages coding agents"},
    "tools": [
        {
            "name": "spawn_coding_agent",
            "description": "Spawn a coding agent",
            "category": "agent_lifecycle",
            "parameters": {
                "type": "object",
                "properties": {
                    "task": {"type": "string", "description": "What to do"},
                    "runner_type": {"type": "string", "enum": ["claude-code", "codex"], "default": "claude-code"},
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
                "tags": ["coding", "agent"],
                "examples": [{"description": "Fix a bug", "input": {"task": "Fix the login"}}],
            },
        }
    ],
    "categories": [{"id": "agent_lifecycle", "name": "Agent Lifecycle", "description": "Runs", "icon": "play"}],
    "generated_at": "2024-01-15T10:30:00Z",
}
PROTOJSON = {
    "protocolVersion": "1.0",
    "scenario": {"name": "agent-manager", "version": "1.0.0", "baseUrl": "http://x"},
    "tools": [
        {
            "name": "spawn_coding_agent",
            "description": "Spawn a coding agent",
            "category": "agent_lifecycle",
            "parameters": {
                "type": "object",
                "properties": {
                    "task": {"type": "string", "description": "What to do"},
                    "runner_type": {
                        "type": "string",
                        "enum": ["claude-code", "codex"],
                        "default": {"stringValue": "claude-code"},
                    },
                },
                "required": ["task"],
            },
            "metadata": {
                "enabledByDefault": True,
                "timeoutSeconds": 30,
                "rateLimitPerMinute": 10,
                "costEstimate": "high",
                "longRunning": True,
                "tags": ["coding", "agent"],
                "examples": [
                    {"description": "Fix a bug", "input": {"fields": {"task": {"stringValue": "Fix the login"}}}}
                ],
            },
        }
    ],
    "categories": [{"id": "agent_lifecycle", "name": "Agent Lifecycle", "description": "Runs", "icon": "play"}],
    "generatedAt": "2024-01-15T10:30:00.123456789Z",
}


MANIFEST_OF_NOTHING: dict[str, Any] = {"protocol_version": "1.0", "tools": [], "categories": []}


def read(value: Any, rules: ListingRules = RULES) -> ServiceManifest:
    return manifest_of(value if isinstance(value, bytes) else msgspec.json.encode(value), rules)


def only(value: Any) -> Tool:
    [found] = read(value).listing.tools
    return found


def test_every_field_of_a_tool_is_read() -> None:
    found = only(SEED)
    said = found.metadata
    assert (found.source, found.name, found.description) == ("far", "spawn_coding_agent", "Spawn a coding agent")
    assert found.input_schema == SEED["tools"][0]["parameters"]  # type: ignore[index]
    assert (found.category, found.server) == ("agent_lifecycle", "http://far")
    assert (said.enabled_by_default, said.requires_approval, said.long_running, said.idempotent) == (
        True,
        False,
        True,
        False,
    )
    assert (said.timeout_seconds, said.rate_limit_per_minute, said.cost_estimate) == (30, 10, CostEstimate.HIGH)
    assert said.tags == ("coding", "agent")
    assert said.examples == (Example(description="Fix a bug", input={"task": "Fix the login"}),)
    [category] = read(SEED).listing.categories
    assert (category.id, category.name, category.icon) == ("agent_lifecycle", "Agent Lifecycle", "play")
    assert read(SEED).generated_at == datetime(2024, 1, 15, 10, 30, tzinfo=UTC)
    assert read(SEED).listing.faults == ()


def test_protojson_says_the_same() -> None:
    """camelCase, zeroes left out, defaults and examples wrapped."""
    plain, proto = only(SEED), only(PROTOJSON)
    assert msgspec.structs.replace(proto, definition=None) == msgspec.structs.replace(plain, definition=None)
    assert read(PROTOJSON).listing.categories == read(SEED).listing.categories


@pytest.mark.parametrize(
    ("wrapped", "default"),
    [
        ({"stringValue": "x"}, "x"),
        ({"intValue": "30"}, 30),
        ({"doubleValue": 0.5}, 0.5),
        ({"boolValue": False}, False),
        ({"nullValue": "NULL_VALUE"}, None),
        ({"listValue": {"values": [{"intValue": "1"}, {"stringValue": "b"}]}}, [1, "b"]),
        ({"objectValue": {"fields": {"a": {"boolValue": True}}}}, {"a": True}),
        ({"stringValue": "x", "other": 1}, {"stringValue": "x", "other": 1}),
        ("plain", "plain"),
    ],
)
def test_a_wrapped_default_is_unwrapped(wrapped: Any, default: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"items": {"default": wrapped}, "min_length": 2}}}
    found = only(manifest(tool(parameters=schema))).input_schema["properties"]["a"]
    assert found == {"items": {"default": default}, "minLength": 2}


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"type": "object", "properties": {"default": {"type": "string"}, "min_length": {"type": "integer"}}}
    assert only(manifest(tool(parameters=schema))).input_schema == schema


def test_metadata_that_is_missing_is_the_seeds_default_and_what_protojson_leaves_out_is_false() -> None:
    assert only(manifest({"name": "a"})).metadata.enabled_by_default is True
    assert only(manifest(tool(metadata={"tags": []}))).metadata.enabled_by_default is True
    proto = {"protocolVersion": "1.0", "tools": [tool(metadata={"tags": ["x"]})]}
    assert only(proto).metadata.enabled_by_default is False
    assert read({"protocolVersion": "1.0"}).listing.tools == ()


@requirement("DISC-version-minor")
def test_a_newer_minor_version_with_fields_and_categories_nobody_knows_is_accepted() -> None:
    later = tool(metadata={"priority": 7}, icon="x", reviewed={"by": "ada"})
    body = manifest(later, version="1.7", categories=[{"id": "new", "colour": "red"}], signature="s")
    found = read(body)
    [known] = found.listing.tools
    assert found.listing.faults == ()
    assert [category.id for category in found.listing.categories] == ["new"]
    assert known.definition is not None
    assert msgspec.json.decode(known.definition) == later, "what is not known is kept as it came"


@requirement("DISC-version-patch")
@pytest.mark.parametrize("version", ["1", "1.0", "1.0.1", "1.0.99", "1.12.3"])
def test_a_patch_makes_no_difference(version: str) -> None:
    assert read(manifest(tool(), version=version)).listing == read(manifest(tool())).listing


@pytest.mark.parametrize("version", ["2.0", "0.9", "10", "2.0.1"])
def test_another_major_version_is_refused_in_words(version: str) -> None:
    with pytest.raises(BadManifest, match=rf"speaks version {version} .*this gateway reads 1\.x"):
        read(manifest(tool(), version=version))


@pytest.mark.parametrize("version", [None, "", "one", "1.x", "v1.0", 1.0, 1, True, [], {}, "1.0\n", "١.٠", "1.0.0.0"])
def test_a_senseless_version_is_a_clear_fault(version: Any) -> None:
    with pytest.raises(BadManifest, match=r"protocol_version is .*Correct it at the service"):
        read(manifest(tool(), version=version))


@requirement("DISC-tool-name-charset")
def test_a_name_with_other_characters_is_kept_as_its_owner_spells_it() -> None:
    found = read(manifest(tool("list-prs"), tool("größe.x"), tool("")))
    assert [one.name for one in found.listing.tools] == ["list-prs", "größe.x"]
    assert len(found.listing.faults) == 1


@pytest.mark.parametrize(
    "bad",
    [
        tool("bad", metadata={"timeout_seconds": -5}),
        tool("bad", metadata={"requires_approval": "maybe"}),
        tool("bad", metadata={"rate_limit_per_minute": -1}),
        tool("bad", metadata=[]),
        tool("bad", metadata={"examples": [1]}),
        tool("bad", parameters="x"),
        tool("bad", description=7),
        tool("bad", parameters={"type": "object", "properties": {"a\u200bb": {}}}),
    ],
)
def test_a_tool_that_makes_no_sense_is_left_out_with_a_sentence_and_hurts_no_other(bad: dict[str, Any]) -> None:
    found = read(manifest(tool("good"), bad, tool("better"))).listing
    assert [one.name for one in found.tools] == ["good", "better"]
    assert len(found.faults) == 1
    assert "Tool 'bad' is left out" in found.faults[0]


def test_hidden_characters_are_taken_out_and_told_of() -> None:
    found = read(manifest(tool(description="Nice\u200b\u202e tool"))).listing
    assert found.tools[0].description == "Nice tool"
    assert "hidden characters" in found.faults[0]


def test_only_allowed_tools_are_read() -> None:
    rules = msgspec.structs.replace(RULES, allowed=("get_*", "b"))
    assert [one.name for one in read(manifest(tool("a"), tool("b"), tool("get_c")), rules).listing.tools] == [
        "b",
        "get_c",
    ]


def test_a_time_that_is_none_is_a_fault_and_costs_no_tool() -> None:
    found = read(manifest(tool(), at="yesterday"))
    assert found.generated_at is None
    assert [one.name for one in found.listing.tools] == ["echo"]
    assert "generated_at is 'yesterday'" in found.listing.faults[0]


BEHAVIOR = {
    "statusPolling": {"statusTool": "check", "operationIdField": "run.id", "statusToolIdParam": "run_id"},
    "completionConditions": {"statusField": "status", "successValues": ["done"], "failureValues": ["failed"]},
}


def test_async_behavior_is_read_in_either_spelling_and_makes_calls_pending() -> None:
    found = read(manifest(tool("start", metadata={"async_behavior": BEHAVIOR}), tool("check"))).listing
    start = found.tools[0]
    behavior = start.metadata.async_behavior
    assert behavior is not None
    assert behavior.status_polling.operation_id_field == "run.id"
    assert (behavior.status_polling.poll_interval_seconds, start.expires_in_ms) == (5, 3_600_000)
    assert (start.is_operation, start.is_async, start.answered_by_others) == (True, True, True)
    assert found.faults == ()


def test_async_behavior_whose_status_tool_is_missing_is_not_followed() -> None:
    found = read(manifest(tool("start", metadata={"async_behavior": BEHAVIOR}))).listing
    assert found.tools[0].metadata.async_behavior is None
    assert "names the tool 'check'" in found.faults[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["name", "description", "category", "parameters", "metadata", "via", "version"])
SAID = st.sampled_from(
    [
        "enabled_by_default",
        "requires_approval",
        "timeout_seconds",
        "rateLimitPerMinute",
        "cost_estimate",
        "examples",
        "async_behavior",
        "asyncBehavior",
        "tags",
        "sensitive_output",
    ]
)
ODD_TOOLS = st.dictionaries(KEYS, JSON | st.dictionaries(SAID, JSON, max_size=4), max_size=6)
ODD = st.fixed_dictionaries(
    {},
    optional={
        "protocol_version": st.just("1.0") | JSON,
        "protocolVersion": st.just("1.0") | JSON,
        "tools": st.lists(ODD_TOOLS | JSON, max_size=4) | JSON,
        "categories": st.lists(JSON, max_size=3) | JSON,
        "generated_at": JSON,
        "scenario": JSON,
    },
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(said=ODD)
def test_whatever_a_manifest_says_it_is_read_or_refused_in_words(said: dict[str, Any]) -> None:
    """No other error ever comes out of a foreign document."""
    try:
        found = manifest_of(msgspec.json.encode(said), RULES)
    except BadManifest:
        return
    msgspec.json.encode(found.listing)
    assert all(one.source == "far" and one.name for one in found.listing.tools)


@settings(max_examples=150, deadline=None)
@given(body=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_bytes_that_are_no_manifest_are_refused_in_words(body: bytes) -> None:
    with pytest.raises(BadManifest):
        manifest_of(body, RULES)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_manifest_that_was_damaged_on_its_way_is_read_or_refused(data: st.DataObject) -> None:
    whole = msgspec.json.encode(SEED)
    at = data.draw(st.integers(0, len(whole) - 1))
    body = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 5)) :]
    try:
        manifest_of(body, RULES)
    except BadManifest:
        return


@pytest.mark.parametrize("depth", [500, 5_000, 200_000])
def test_a_manifest_that_is_nested_without_end_is_refused(depth: int) -> None:
    nested = b"[" * depth + b"]" * depth
    with_tool = b'{"protocol_version":"1.0","tools":[{"name":"a","parameters":' + nested + b'},{"name":"b"}]}'
    try:
        found = manifest_of(with_tool, RULES)
    except BadManifest:
        return
    assert "b" in [one.name for one in found.listing.tools]


def test_a_huge_number_of_tools_is_cut_off_with_a_sentence() -> None:
    body = manifest(*({"name": f"t{number}"} for number in range(10_005)))
    found = read(body).listing
    assert len(found.tools) == 10_000
    assert "10,005 tools" in found.faults[-1]


def test_a_category_whose_place_is_no_float_is_still_a_category() -> None:
    found = read({**MANIFEST_OF_NOTHING, "categories": [{"id": "a", "display_order": 10**400}, {"id": "b"}]})
    assert [category.id for category in found.listing.categories] == ["a", "b"]


@pytest.mark.parametrize("name", [".", ".."])
def test_a_tool_whose_name_would_lead_to_another_path_is_left_out(name: str) -> None:
    found = read({**MANIFEST_OF_NOTHING, "tools": [{"name": name}, {"name": "fine"}]}).listing
    assert [tool.name for tool in found.tools] == ["fine"]
    assert "cannot be part of a path" in found.faults[0]
