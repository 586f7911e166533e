"""Seed 004's manifest, field by field."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from jackfield.catalog.catalog import Catalog
from jackfield.model.tool import Category, CostEstimate, Example, Metadata, Tool, openai_function
from jackfield.protocol.manifest import ScenarioInfo, assemble, parameters_of, timestamp
from tests.catalog.given import entry, key, listing, properties, tool
from tests.requirement import requirement

NOON = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)
SCENARIO = ScenarioInfo(
    name="agent-manager",
    version="1.0.0",
    description="Manages coding agents for software engineering tasks",
    base_url="http://localhost:15000",
)
SPAWN = Tool(
    source="manager",
    name="spawn_coding_agent",
    description="Spawn a coding agent to execute a software engineering task",
    category="agent_lifecycle",
    input_schema={
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
    metadata=Metadata(
        timeout_seconds=30,
        rate_limit_per_minute=10,
        cost_estimate=CostEstimate.HIGH,
        long_running=True,
        tags=("coding", "agent", "async"),
        examples=(
            Example(
                description="Fix a bug in authentication",
                input={"task": "Fix the login bug where users are logged out after 5 minutes"},
            ),
        ),
    ),
)
LIFECYCLE = Category(
    id="agent_lifecycle",
    name="Agent Lifecycle",
    description="Tools for spawning, stopping, and managing agent runs",
    icon="play",
)
SEED = """{
  "protocol_version": "1.0",
  "scenario": {
    "name": "agent-manager",
    "version": "1.0.0",
    "description": "Manages coding agents for software engineering tasks",
    "base_url": "http://localhost:15000"
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
            "default": "claude-code"
          }
        },
        "required": ["task"]
      },
      "metadata": {
        "enabled_by_default": true,
        "requires_approval": false,
        "timeout_seconds": 30,
        "rate_limit_per_minute": 10,
        "cost_estimate": "high",
        "long_running": true,
        "idempotent": false,
        "tags": ["coding", "agent", "async"],
        "examples": [
          {
            "description": "Fix a bug in authentication",
            "input": {"task": "Fix the login bug where users are logged out after 5 minutes"}
          }
        ]
      }
    }
  ],
  "categories": [
    {
      "id": "agent_lifecycle",
      "name": "Agent Lifecycle",
      "description": "Tools for spawning, stopping, and managing agent runs",
      "icon": "play"
    }
  ],
  "generated_at": "2024-01-15T10:30:00.000Z"
}"""


def order_of(value: Any) -> Any:
    """The names of all fields, in the order they stand in."""
    if isinstance(value, dict):
        return [(name, order_of(inner)) for name, inner in value.items()]
    return [order_of(item) for item in value] if isinstance(value, list) else None


def catalog_of(*tools: Tool, **options: Any) -> Catalog:
    catalog = Catalog(**options)
    catalog.update([listing("manager", *tools)])
    return catalog


def test_the_seeds_example_comes_out_field_by_field_and_in_its_order() -> None:
    catalog = catalog_of(SPAWN, categories=(LIFECYCLE,), scenario=SCENARIO, now=lambda: NOON)
    manifest = json.loads(catalog.view(key("read")).manifest)
    [shown] = manifest["tools"]
    assert shown.pop("source") == "manager"
    assert len(shown.pop("version")) == 32
    assert manifest == json.loads(SEED)
    assert order_of(manifest) == order_of(json.loads(SEED))


def test_every_field_is_there_although_nothing_is_set() -> None:
    shown = json.loads(entry("bare").manifest)
    version = shown.pop("version")
    assert isinstance(version, str)
    assert shown == {
        "name": "bare",
        "description": "",
        "category": None,
        "parameters": {"type": "object", "properties": {}},
        "metadata": {
            "enabled_by_default": True,
            "requires_approval": False,
            "timeout_seconds": 30,
            "rate_limit_per_minute": None,
            "cost_estimate": None,
            "long_running": False,
            "idempotent": False,
            "tags": [],
            "examples": [],
        },
        "source": "acme",
    }


def test_an_empty_catalog_is_a_manifest_too() -> None:
    manifest = json.loads(Catalog(now=lambda: NOON).view(key("read")).manifest)
    assert manifest == {
        "protocol_version": "1.0",
        "scenario": {
            "name": "jackfield",
            "version": "1.0.0",
            "description": "Tools behind a Jackfield gateway",
            "base_url": None,
        },
        "tools": [],
        "categories": [],
        "generated_at": "2024-01-15T10:30:00.000Z",
    }


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 30),
        ({"metadata": Metadata(timeout_seconds=7)}, 7),
        ({"timeout_ms": 20_000}, 20),
        ({"timeout_ms": 1_500}, 2),
        ({"timeout_ms": 20_000, "metadata": Metadata(timeout_seconds=7)}, 20),
    ],
)
def test_the_published_timeout_is_the_one_that_holds(fields: dict[str, Any], seconds: int) -> None:
    assert json.loads(entry(**fields).manifest)["metadata"]["timeout_seconds"] == seconds


@requirement("DISC-params-type", "DISC-params-properties", "DISC-params-openai")
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"properties": {"a": {"type": "string"}}},
        {"type": ["object", "null"], "required": ["a"], "properties": {"a": {}}},
        properties(a={"type": "string", "description": "Which"}) | {"additionalProperties": False},
    ],
)
def test_parameters_are_an_object_with_properties_as_function_calling_wants_them(schema: dict[str, Any]) -> None:
    shown = json.loads(entry(input_schema=schema).manifest)["parameters"]
    assert shown["type"] == "object"
    assert shown["properties"] == schema.get("properties", {})
    assert {name: value for name, value in shown.items() if name not in {"type", "properties"}} == {
        name: value for name, value in schema.items() if name not in {"type", "properties"}
    }


@requirement("DISC-params-openai")
def test_a_complete_schema_is_handed_on_as_it_is() -> None:
    schema = properties(a={"type": "string"}) | {"required": ["a"], "additionalProperties": False}
    assert parameters_of(schema) is schema
    assert openai_function(tool("x", input_schema=schema), "x")["function"]["parameters"] == schema


def test_an_example_shows_an_expected_output_only_when_it_has_one() -> None:
    examples = (Example(input={"a": 1}), Example(description="d", expected_output=[1]))
    assert json.loads(entry(metadata=Metadata(examples=examples)).manifest)["metadata"]["examples"] == [
        {"description": "", "input": {"a": 1}},
        {"description": "d", "input": {}, "expected_output": [1]},
    ]


def test_the_etag_does_not_depend_on_when_the_manifest_was_generated() -> None:
    one = assemble([b"{}"], scenario=SCENARIO, categories=(), generated_at=NOON)
    later = assemble([b"{}"], scenario=SCENARIO, categories=(), generated_at=NOON + timedelta(days=1))
    other = assemble([b"{ }"], scenario=SCENARIO, categories=(), generated_at=NOON)
    assert one.body != later.body
    assert one.etag == later.etag != other.etag
    assert one.etag[0] == one.etag[-1] == '"'


def test_the_etag_changes_with_scenario_and_categories() -> None:
    etags = {
        assemble([], scenario=scenario, categories=categories, generated_at=NOON).etag
        for scenario in (SCENARIO, ScenarioInfo())
        for categories in ((), (LIFECYCLE,))
    }
    assert len(etags) == 4


def test_times_are_utc_with_milliseconds() -> None:
    east = timezone(timedelta(hours=2))
    assert timestamp(datetime(2024, 1, 15, 12, 30, 0, 123_456, tzinfo=east)) == "2024-01-15T10:30:00.123Z"
