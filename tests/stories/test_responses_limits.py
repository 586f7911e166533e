"""How far one response may go, and what becomes of a call that nobody can run: each limit set, each end told."""

from pathlib import Path

import httpx2
import pytest

from tests.harness.process import DEFAULT_TOOLS, RunningGateway, running_gateway
from tests.requirement import requirement
from tests.stories.responses import ADMIN_KEY, CATALOG, CONFIG, MODEL, SCRIPT, Sdk, calls_of, tapped
from tests.stories.test_third_party_source import install

FILES = {"tools/story.py": DEFAULT_TOOLS, "actor.toml": SCRIPT}
ENV = {"JACKFIELD_ADMIN_KEY": ADMIN_KEY}


@requirement("TOOL-ext-loop-max-turns")
@pytest.mark.parametrize("most", [2, 3])
def test_a_response_takes_as_many_turns_as_the_config_allows_and_no_more(tmp_path: Path, most: int) -> None:
    config = CONFIG.replace("max_steps = 4", f"max_steps = {most}")
    with running_gateway(tmp_path, config, files=FILES, env=ENV) as gateway, tapped(gateway) as (client, _):
        made = client.responses.create(model=MODEL, input="for ever", tools=[CATALOG])
        assert (made.status, made.incomplete_details.reason) == ("incomplete", "max_steps")
        assert len(calls_of(gateway, made.id)) == most


@requirement("TOOL-ext-loop-timeout")
def test_a_response_that_lasts_too_long_ends_and_takes_its_running_call_along(tmp_path: Path) -> None:
    config = CONFIG.replace("max_steps = 4", "timeout = 2")
    with running_gateway(tmp_path, config, files=FILES, env=ENV) as gateway, tapped(gateway) as (client, _):
        made = client.responses.create(model=MODEL, input="wait", tools=[CATALOG])
        assert (made.status, made.incomplete_details.reason) == ("incomplete", "timeout")
        assert [(call["tool"], call["status"]) for call in calls_of(gateway, made.id)] == [("wait", "cancelled")]


@requirement("TOOL-loop-no-executor")
def test_a_call_that_nobody_can_run_is_an_error_for_the_model_which_then_answers(
    client: Sdk, actor: RunningGateway
) -> None:
    made = client.responses.create(model=MODEL, input="weather?", tools=[CATALOG])
    assert made.status == "completed"
    assert made.output_text.startswith("The result is There is no tool 'get_weather'")


ACME = """
from jackfield.model.call import done
from jackfield.model.tool import Tool
from jackfield.sources.registry import Registry, RegistrySource


class Search:
    def definition(self):
        return Tool(source="", name="echo", description="Search.", type="acme:search", input_schema={"type": "object"})

    async def initialise(self): ...

    async def shutdown(self): ...

    async def execute(self, invocation):
        return done(f"Acme found {invocation.arguments['text']} in {invocation.config.get('index', 'all')}")


def make(name, options, surroundings):
    registry = Registry()
    registry.register(Search(), owner=name)
    return RegistrySource(name, registry)
"""


@requirement("TOOL-ext-provider-prefixed", "TOOL-ext-options")
def test_a_tool_type_of_a_provider_goes_to_the_package_that_registered_it(tmp_path: Path) -> None:
    install(tmp_path / "site", "acme_search", ACME, kind="acme")
    config = CONFIG.partition("[sources.local]")[0] + '[sources.acme]\nkind = "acme"\n'
    env = ENV | {"PYTHONPATH": str(tmp_path / "site")}
    with running_gateway(tmp_path, config, files=FILES, env=env) as gateway, tapped(gateway) as (client, tap):
        made = client.responses.create(model=MODEL, input="echo", tools=[{"type": "acme:search"}])
        assert made.output_text == "The result is Acme found over there in all."
        chosen = client.responses.create(model=MODEL, input="echo", tools=[{"type": "acme:search", "index": "mine"}])
        assert chosen.output_text == "The result is Acme found over there in mine."
        with pytest.raises(Exception, match="Nobody has registered the tool type 'acme:other'"):
            client.responses.create(model=MODEL, input="echo", tools=[{"type": "acme:other"}])
        assert [exchange.body["tools"][0]["type"] for exchange in tap.exchanges] == [
            "acme:search",
            "acme:search",
            "acme:other",
        ]


@requirement("TOOL-ext-options")
def test_what_a_request_says_to_such_a_tool_is_there_after_a_person_allowed_the_call(tmp_path: Path) -> None:
    install(tmp_path / "site", "acme_search", ACME, kind="acme")
    asks = "[sources.acme.tools.echo]\nmetadata = { requires_approval = true }\n"
    config = CONFIG.partition("[sources.local]")[0] + '[sources.acme]\nkind = "acme"\n' + asks
    env = ENV | {"PYTHONPATH": str(tmp_path / "site")}
    with running_gateway(tmp_path, config, files=FILES, env=env) as gateway, tapped(gateway) as (client, _):
        client.responses.create(model=MODEL, input="echo", tools=[{"type": "acme:search", "index": "mine"}])
        with httpx2.Client(base_url=gateway.url, headers=gateway.headers, timeout=30) as http:
            [waiting] = http.get("/api/v1/calls", params={"status": "pending_approval"}).json()["calls"]
            assert http.post(f"/api/v1/calls/{waiting['id']}/approve", json={}).status_code == 200
            over = http.get(f"/api/v1/calls/{waiting['id']}", params={"wait": 10}).json()["call"]
    assert (over["status"], over["result"]) == ("completed", "Acme found over there in mine")
