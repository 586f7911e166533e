"""`examples/`: each README works when pasted, each config and program does what it is there for."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.harness.process import RunningGateway, clean_environment, run_cli, running_gateway
from tests.requirement import requirement
from tests.stories.provider import running_service
from tests.stories.scripts import INSTALL_SECONDS, RUN_SECONDS, packages, run_script
from tests.stories.test_tutorial import MARK, assert_prints, blocks_of

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PROGRAMS = ROOT / "tests/programs/node_modules"
OPERATOR = {"JACKFIELD_ADMIN_KEY": "operators-key-0001"}
"""For projects whose config has keys of its own."""
URL = "http://127.0.0.1:8420"
ANSWER = "It is sunny in Oslo, 21 degrees.\n"
WEB = ("fastapi==0.163.2", "flask==3.1.3", "django==5.2.19")
needs_npm = pytest.mark.skipif(not (PROGRAMS / "@ai-sdk/openai").is_dir(), reason="needs make/npm-programs")

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + RUN_SECONDS)


def copied(name: str, into: Path) -> Path:
    return Path(
        shutil.copytree(EXAMPLES / name, into / name, ignore=shutil.ignore_patterns(".jackfield", "__pycache__"))
    )


@requirement("DOC-examples")
def test_every_example_is_listed_with_its_readme() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert folders == set(re.findall(r"^\| \[(\w+)\]\(\1/README\.md\)", index, re.MULTILINE))
    assert [name for name in folders if not (EXAMPLES / name / "README.md").is_file()] == []


@requirement("DOC-examples")
@pytest.mark.parametrize("name", ["demo", "plans", "skills"])
def test_a_readme_works_when_it_is_pasted(name: str, tmp_path: Path) -> None:
    serve, *blocks = blocks_of(f"examples/{name}/README.md")
    enter = f"cd examples/{name}\n"
    assert serve.commands == f"{enter}jackfield serve\n"
    script = "".join(f"{block.commands.removeprefix(enter)}\necho '{MARK}'\n" for block in blocks)
    with running_gateway(copied(name, tmp_path), env=OPERATOR if name == "plans" else None) as gateway:
        path = f"{Path(sys.executable).parent}:{clean_environment()['PATH']}"
        done = subprocess.run(
            ["bash", "--norc", "-e"],
            input=script,
            cwd=gateway.folder,
            env=clean_environment({"JACKFIELD_URL": gateway.url, "PATH": path}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_prints(blocks, done.stdout.split(f"{MARK}\n")[:-1])


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """The gateway of the frameworks."""
    with running_gateway(copied("frameworks", tmp_path_factory.mktemp("project")), env=OPERATOR) as running:
        yield running


class TestClients:
    """Configs of other people's programs."""

    FILES: Mapping[str, str] = {
        "claude-code": ".mcp.json",
        "cursor": ".cursor/mcp.json",
        "vscode": ".vscode/mcp.json",
    }

    @requirement("DOC-example-clients")
    @pytest.mark.parametrize("name", FILES)
    def test_a_config_is_what_connect_writes(self, name: str, tmp_path: Path) -> None:
        (block,) = blocks_of("examples/clients/README.md")
        (command,) = [line for line in block.commands.splitlines() if f"connect {name} " in line]
        done = run_cli(*command.split()[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        file = self.FILES[name]
        example = (EXAMPLES / "clients" / name / file).read_text(encoding="utf-8")
        assert (tmp_path / file).read_text(encoding="utf-8") == example
        assert all(f"+{line}" in done.stdout for line in example.splitlines()), "it is shown first"

    @requirement("DOC-example-clients")
    @pytest.mark.parametrize("name", [*FILES, "codex"])
    async def test_a_client_that_follows_a_config_reaches_the_tools(
        self, name: str, gateway_project: RunningGateway
    ) -> None:
        url, headers = self.server_of(name, {"JACKFIELD_KEY": gateway_project.key})
        assert url == f"{URL}/mcp"
        http = httpx2.AsyncClient(headers=headers, timeout=30)
        where = url.replace(URL, gateway_project.url)
        async with http, Client(streamable_http_client(where, http_client=http), mode="legacy") as client:
            assert "add" in [tool.name for tool in (await client.list_tools()).tools]

    def server_of(self, name: str, environment: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """The url and headers as the program reads them, with variables of the environment filled in."""
        if name == "codex":
            config = tomllib.loads((EXAMPLES / "clients/codex/config.toml").read_text(encoding="utf-8"))
            server = config["mcp_servers"]["jackfield"]
            return server["url"], {"Authorization": f"Bearer {environment[server['bearer_token_env_var']]}"}
        text = (EXAMPLES / "clients" / name / self.FILES[name]).read_text(encoding="utf-8")
        filled = re.sub(r"\$\{(?:env:)?(\w+)\}", lambda found: environment[found[1]], text)
        (servers,) = json.loads(filled).values()
        return servers["jackfield"]["url"], servers["jackfield"]["headers"]


class TestFrameworks:
    """Agents of other people's frameworks; `make clients` runs LangChain's."""

    @requirement("DOC-example-frameworks")
    @pytest.mark.parametrize("name", ["openai_agents_example.py", "pydantic_ai_example.py"])
    def test_an_agent_in_python_answers_with_the_gateways_model_and_tools(
        self, name: str, gateway: RunningGateway
    ) -> None:
        assert run_script(gateway.folder / name, env={"JACKFIELD_URL": gateway.url}) == ANSWER

    @requirement("DOC-example-frameworks")
    @needs_npm
    def test_an_agent_of_vercels_ai_sdk_does_too(self, gateway: RunningGateway) -> None:
        (gateway.folder / "node_modules").symlink_to(PROGRAMS)
        command = ["node", str(gateway.folder / "vercel_ai.mjs")]
        env = clean_environment({"JACKFIELD_URL": gateway.url})
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert (done.stdout, done.returncode) == (ANSWER, 0), done.stderr


CALLS: Mapping[str, tuple[str, dict[str, Any], Any, str]] = {
    "fastapi": ("seats", {"room": "attic"}, 4, "/rooms"),
    "flask": ("price", {"drink": "tea"}, 2.8, "/prices"),
    "django": ("opening_hours", {"day": "monday"}, "closed", "/opening"),
}


@requirement("DOC-example-providers")
def test_services_of_fastapi_flask_and_django_offer_their_functions_to_a_gateway(tmp_path: Path) -> None:
    env = {"SHOP_KEY": "fruit-key-0001", "PYTHONPATH": str(packages(*WEB))}
    config = ""
    with ExitStack() as stack:
        for name, (_, _, _, own) in CALLS.items():
            service = stack.enter_context(running_service(EXAMPLES / f"provider/{name}_service.py", env=env))
            assert httpx2.get(f"{service.url}{own}").is_success, "what the service has of its own"
            assert httpx2.get(f"{service.url}/api/v1/tools").status_code == 401
            headers = 'headers = { Authorization = "Bearer ${SHOP_KEY}" }'
            config += f'[sources.{name}]\nkind = "manifest"\nurl = "{service.url}"\n{headers}\n'
        gateway = stack.enter_context(running_gateway(tmp_path, config, env=env))
        for name, (tool, arguments, result, _) in CALLS.items():
            where = f"{gateway.url}/api/v1/tools/{tool}/execute"
            said = httpx2.post(where, headers=gateway.headers, json={"arguments": arguments}, timeout=30).json()
            assert (said["status"], said["result"]) == ("completed", result), name
            (key,) = arguments
            failed = httpx2.post(where, headers=gateway.headers, json={"arguments": {key: "x"}}, timeout=30).json()
            assert failed["error"] == {"code": "tool_error", "message": "KeyError: 'x'"}
