"""Tool files while the gateway runs: edited, added, broken, removed; and what they see of the gateway."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement
from tests.waiting import TIMEOUT, eventually

SEEN_WITHIN = TIMEOUT

CONFIG = """\
[scenario]
name = "living files"

[sources.local]
kind = "files"
path = "tools/*.py"
"""
GREET = '''\
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"
'''
LOOK = '''\
def look_around(ctx) -> dict:
    """Say what there is, from inside."""
    return {"gateway": ctx.settings["scenario"]["name"], "tools": sorted(tool["name"] for tool in ctx.registry)}


async def pass_on(name: str, ctx) -> str:
    """Have another tool do it."""
    return await ctx.call_tool("greet", name=name)
'''


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RunningGateway]:
    files = {"tools/greet.py": GREET, "tools/look.py": LOOK}
    with running_gateway(tmp_path, CONFIG, files=files) as running:
        yield running


def write(gateway: RunningGateway, name: str, text: str) -> None:
    (gateway.folder / "tools" / name).write_text(text, encoding="utf-8")


def get(gateway: RunningGateway, path: str) -> Any:
    return httpx2.get(f"{gateway.url}{path}", headers=gateway.headers).json()


def names(gateway: RunningGateway) -> list[str]:
    return [tool["name"] for tool in get(gateway, "/api/v1/tools")["tools"]]


def call(gateway: RunningGateway, tool: str, **arguments: Any) -> Any:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    return httpx2.post(url, headers=gateway.headers, json={"arguments": arguments}).json()


@requirement("WORK-inprocess-settings")
def test_the_settings_have_models_agents_sources_and_tools_and_no_secret(tmp_path: Path) -> None:
    config = (
        CONFIG
        + '[models.demo]\nprovider = "openai"\nbase_url = "http://127.0.0.1:1/hush-url/v1"\nmodel = "m1"\n'
        + 'api_key = "hush-key"\n[agents.ada]\nmodel = "demo"\ninstructions = "hush-words"\nspaces = ["lobby"]\n'
        + '[sources.far]\nkind = "manifest"\nurl = "http://127.0.0.1:1"\nheaders = { Authorization = "hush-header" }\n'
    )
    tell = 'def tell(ctx) -> dict:\n    """Tell."""\n    return ctx.settings\n'
    with running_gateway(tmp_path, config, files={"tools/tell.py": tell}) as gateway:
        told = call(gateway, "tell")["result"]
    assert told["models"] == [{"name": "demo", "provider": "openai", "model": "m1"}]
    assert [(agent["id"], agent["model"], agent["spaces"]) for agent in told["agents"]] == [("ada", "demo", ["lobby"])]
    assert told["sources"] == [{"name": "local", "kind": "files"}, {"name": "far", "kind": "manifest"}]
    assert [(tool["name"], tool["source"], tool["description"]) for tool in told["tools"]] == [
        ("tell", "local", "Tell.")
    ]
    assert "hush" not in json.dumps(told)


@requirement("CON-file-changes")
def test_an_edited_function_is_called_in_its_new_form(gateway: RunningGateway) -> None:
    assert call(gateway, "greet", name="Ada")["result"] == "Hello, Ada"
    before = get(gateway, "/api/v1/tools/greet")

    write(gateway, "greet.py", GREET.replace("Hello", "Good morning").replace("somebody.", "somebody early."))

    eventually(lambda: call(gateway, "greet", name="Ada")["result"] == "Good morning, Ada", within=SEEN_WITHIN)
    after = eventually(
        lambda: (now := get(gateway, "/api/v1/tools/greet"))["version"] != before["version"] and now, within=SEEN_WITHIN
    )
    assert after["description"] == "Greet somebody early."


@requirement("CON-file-changes")
def test_a_new_file_brings_its_tools_and_a_removed_one_takes_them_along(gateway: RunningGateway) -> None:
    write(gateway, "more.py", "def double(n: int) -> int:\n    return 2 * n\n")
    eventually(lambda: "double" in names(gateway), within=SEEN_WITHIN)
    assert call(gateway, "double", n=21)["result"] == 42

    (gateway.folder / "tools/more.py").unlink()
    eventually(lambda: "double" not in names(gateway), within=SEEN_WITHIN)
    assert call(gateway, "double", n=21)["error"]["code"] == "tool_not_found"


@requirement("CON-file-changes")
def test_a_file_that_is_broken_by_an_edit_is_shown_as_such_and_hurts_no_other(gateway: RunningGateway) -> None:
    write(gateway, "greet.py", "def greet(name: str -> str:\n")
    eventually(lambda: "greet" not in names(gateway), within=SEEN_WITHIN)
    assert "greet.py, line 1" in gateway.log
    assert call(gateway, "look_around")["result"]["tools"] == ["look_around", "pass_on"]

    write(gateway, "greet.py", GREET)
    eventually(lambda: "greet" in names(gateway), within=SEEN_WITHIN)
    assert call(gateway, "greet", name="Ada")["result"] == "Hello, Ada"


@requirement("WORK-inprocess-state", "WORK-inprocess-registry", "WORK-inprocess-config")
def test_a_tool_sees_the_gateway_as_it_is_now(gateway: RunningGateway) -> None:
    assert call(gateway, "look_around")["result"] == {
        "gateway": "living files",
        "tools": ["greet", "look_around", "pass_on"],
    }
    write(gateway, "more.py", "def double(n: int) -> int:\n    return 2 * n\n")
    eventually(lambda: "double" in call(gateway, "look_around")["result"]["tools"], within=SEEN_WITHIN)


@requirement("WORK-inprocess-state")
def test_a_tool_calls_another_by_the_same_road_and_both_are_on_record_in_one_run(gateway: RunningGateway) -> None:
    answer = call(gateway, "pass_on", name="Ada")
    assert answer["result"] == "Hello, Ada"
    records = get(gateway, f"/api/v1/calls?run_id={answer['run_id']}")["calls"]
    assert {record["tool"]: record["status"] for record in records} == {"pass_on": "completed", "greet": "completed"}
