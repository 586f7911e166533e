"""Gateways and a service in processes of their own: tools called across them, one killed and revived."""

import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, free_port, run_cli, running_gateway, start_gateway
from tests.requirement import requirement
from tests.waiting import Stopwatch, eventually

SERVICE = Path(__file__).parent / "plain_service.py"
FILES = {"tools/a.py": 'def greet(name: str) -> str:\n    """Say hello."""\n    return f"Hello {name}"\n'}
LOCAL = '[sources.local]\nkind = "files"\npath = "tools/*.py"\n'


def knows(name: str, url: str, key: str = "", *, more: str = "") -> str:
    """The config of a source: another gateway or service, and the key for it."""
    headers = f'headers = {{ Authorization = "Bearer {key}" }}\n' if key else ""
    return f'[sources.{name}]\nkind = "manifest"\nurl = "{url}"\n{headers}{more}'


def ask(gateway: RunningGateway, method: str, path: str, **more: Any) -> Any:
    headers = {**gateway.headers, **more.pop("headers", {})}
    return httpx2.request(method, f"{gateway.url}{path}", headers=headers, timeout=20, **more)


def execute(gateway: RunningGateway, tool: str, **arguments: Any) -> Any:
    return ask(gateway, "POST", f"/api/v1/tools/{tool}/execute", json={"arguments": arguments}).json()


def names(gateway: RunningGateway) -> list[str]:
    return [tool["name"] for tool in ask(gateway, "GET", "/api/v1/tools").json()["tools"]]


def states(gateway: RunningGateway) -> dict[str, bool]:
    return {one["scenario"]: one["available"] for one in ask(gateway, "GET", "/api/v1/tools/scenarios").json()}


@contextmanager
def plain_service() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, str(SERVICE), str(port)], stdin=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: _answers(url), within=20)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _answers(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/api/v1/tools", timeout=5).status_code == 200
    except httpx2.TransportError:
        return False


class Town:
    """`first` has a tool of its own, `second` knows it and a plain service, `third` knows only `second`."""

    def __init__(self, folder: Path, service: str, stack: ExitStack) -> None:
        for name in ("first", "second", "third"):
            (folder / name).mkdir()
        self._stack = stack
        self.first = stack.enter_context(running_gateway(folder / "first", LOCAL, files=FILES))
        known = knows("first", self.first.url, self.first.key) + knows("plain", service)
        self.second = stack.enter_context(running_gateway(folder / "second", known))
        known = knows("second", self.second.url, self.second.key)
        self.third = stack.enter_context(running_gateway(folder / "third", known))

    def revive_first(self) -> None:
        self.first = start_gateway(self.first.folder)
        self._stack.callback(self.first.kill)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Generator[Town]:
    with ExitStack() as stack:
        service = stack.enter_context(plain_service())
        yield Town(tmp_path_factory.mktemp("town"), service, stack)


@requirement("DISC-future-execution-peer", "DISC-any-provider", "DISC-future-authentication-peer")
def test_tools_of_another_gateway_and_of_a_plain_service_are_called_as_ones_own(town: Town) -> None:
    assert names(town.second) == ["greet", "shout"]
    assert execute(town.second, "greet", name="Ada")["result"] == "Hello Ada"
    assert execute(town.second, "shout", text="hey")["result"] == "HEY"
    [made] = ask(town.first, "GET", "/api/v1/calls?tool=greet&limit=1").json()["calls"]
    assert made["arguments"] == {"name": "Ada"}, "the other gateway has a record of its own"


def test_a_chain_of_three_works(town: Town) -> None:
    assert names(town.third) == ["greet", "shout"]
    answer = execute(town.third, "greet", name="Eve")
    assert (answer["status"], answer["result"]) == ("completed", "Hello Eve")
    assert execute(town.third, "shout", text="hey")["result"] == "HEY"
    wrong = ask(town.third, "POST", "/api/v1/tools/greet/execute", json={"arguments": {}})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_arguments"), "each hop checks"


@requirement("DISC-future-websocket-peer")
def test_a_new_tool_at_the_end_of_a_chain_is_there_within_a_moment(town: Town) -> None:
    took = []
    for name in ("fresh", "fresher", "freshest"):
        text = f'def {name}() -> int:\n    """New."""\n    return 1\n'
        (town.first.folder / f"tools/{name}.py").write_text(text, encoding="utf-8")
        eventually(lambda: name in names(town.first))  # noqa: B023 - asked within this turn
        watch = Stopwatch()
        eventually(lambda: name in names(town.second))  # noqa: B023
        took.append(watch.seconds())
        eventually(lambda: name in names(town.third))  # noqa: B023
    # Their manifests are good for a minute; what is there sooner was told. The best of three: a busy machine is late.
    assert min(took) < 1
    assert execute(town.third, "fresh")["result"] == 1


@requirement("CON-manifest-stale", "DISC-cache-restart")
def test_a_gateway_that_is_killed_keeps_its_tools_listed_and_works_again_when_it_is_back(town: Town) -> None:
    listed = names(town.second)
    town.first.kill()
    eventually(lambda: not states(town.second)["first"])
    assert names(town.second) == names(town.third) == listed
    assert states(town.second)["plain"] is True
    assert execute(town.second, "shout", text="hey")["result"] == "HEY", "a dead source hurts no other"
    refused = ask(town.third, "POST", "/api/v1/tools/greet/execute", json={"arguments": {"name": "Bob"}}).json()
    assert refused["error"]["code"] == "source_unavailable"
    listed_by_cli = run_cli("sources", cwd=town.second.folder, env=town.second.environment)
    assert listed_by_cli.returncode == 1
    assert "first" in listed_by_cli.stdout
    assert "down" in listed_by_cli.stdout
    (town.first.folder / "tools/c.py").write_text('def later() -> int:\n    """Later."""\n    return 2\n')
    town.revive_first()
    eventually(lambda: states(town.second)["first"] and "later" in names(town.second))
    assert execute(town.third, "greet", name="Bob")["result"] == "Hello Bob"
