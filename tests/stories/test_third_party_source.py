"""Tools from another package, by an entry point in `jackfield.sources`: found where Python finds packages, no fork.

The package here is real: a module and its dist-info in a folder on PYTHONPATH, which is all that pip would install.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.process import RunningGateway, run_cli, running_gateway
from tests.requirement import requirement
from tests.waiting import eventually

MODULE = '''
"""Hosted tools that Jackfield does not ship: a file search and a little interpreter."""

import ast
import operator
from pathlib import Path

from jackfield.errors import ConfigError
from jackfield.model.call import Failed, done
from jackfield.model.tool import Metadata, Tool
from jackfield.sources.registry import Registry, RegistrySource

OPERATIONS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


class Hosted:
    name = description = ""
    schema = {"type": "object"}

    def __init__(self, folder, diary):
        self.folder, self.diary = folder, diary

    def write(self, word):
        with self.diary.open("a") as file:
            file.write(f"{word} {self.name}\\n")

    def definition(self):
        return Tool(source="", name=self.name, description=self.description, input_schema=self.schema, type="acme")

    async def initialise(self):
        self.write("initialise")

    async def shutdown(self):
        self.write("shutdown")


class FileSearch(Hosted):
    name, description = "file_search", "Find the files that hold a word."
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}

    async def initialise(self):
        await super().initialise()
        self.index = {path.name: path.read_text().split() for path in sorted(self.folder.glob("*.txt"))}

    async def execute(self, invocation):
        self.write("execute")
        return done([name for name, words in self.index.items() if invocation.arguments["word"] in words])


class Interpreter(Hosted):
    name, description = "interpret", "Work out a sum."
    schema = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}

    async def execute(self, invocation):
        try:
            return done(self.value(ast.parse(invocation.arguments["code"], mode="eval").body))
        except (SyntaxError, KeyError):
            return Failed("cannot_interpret", "This is no sum of whole numbers.")

    def value(self, node):
        if isinstance(node, ast.Constant):
            return node.value
        return OPERATIONS[type(node.op)](self.value(node.left), self.value(node.right))


class Broken(Hosted):
    name, description = "broken", "Never comes up."

    async def initialise(self):
        await super().initialise()
        raise RuntimeError("the licence server does not answer")

    async def execute(self, invocation):
        return done("never")


class Acme(RegistrySource):
    kind = "acme"


def make(name, options, surroundings):
    unknown = options.keys() - {"library", "diary"}
    if unknown:
        raise ConfigError(f"sources.{name} has an unknown key '{unknown.pop()}'. Known here: library, diary.")
    registry = Registry()
    for tool in (FileSearch, Interpreter, Broken):
        registry.register(tool(surroundings.folder / options["library"], Path(options["diary"])), owner=name)
    return Acme(name, registry)
'''
CONFIG = """
[sources.hosted]
kind = "acme"
library = "library"
diary = "{diary}"

[sources.hosted.tools.interpret]
metadata = {{ tags = ["maths"] }}

[sources.local]
kind = "files"
path = "tools/*.py"
"""


def install(site: Path, name: str, module: str, *, kind: str) -> None:
    """Put a package into `site` as pip would."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[jackfield.sources]\n{kind} = {name}:make\n", encoding="utf-8")
    (site / f"{name}.py").write_text(module, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a library to search, a tool file, and a site folder with the package installed."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "sea.txt").write_text("ships and waves", encoding="utf-8")
    (tmp_path / "library" / "land.txt").write_text("hills and ships", encoding="utf-8")
    install(tmp_path / "site", "acme_tools", MODULE, kind="acme")
    return tmp_path


@pytest.fixture
def gateway(folder: Path) -> Iterator[RunningGateway]:
    files = {"tools/hello.py": 'def hello() -> str:\n    """Greet."""\n    return "hello"\n'}
    config = CONFIG.format(diary=folder / "diary")
    with running_gateway(folder, config, env={"PYTHONPATH": str(folder / "site")}, files=files) as gateway:
        yield gateway


def execute(gateway: RunningGateway, tool: str, **arguments: Any) -> httpx2.Response:
    url = f"{gateway.url}/api/v1/tools/{tool}/execute"
    return httpx2.post(url, json={"arguments": arguments}, headers=gateway.headers, timeout=10)


def get(gateway: RunningGateway, path: str) -> Any:
    return httpx2.get(f"{gateway.url}{path}", headers=gateway.headers, timeout=10).raise_for_status().json()


def report_of(gateway: RunningGateway, source: str) -> dict[str, Any]:
    [found] = [report for report in get(gateway, "/readyz")["sources"] if report["name"] == source]
    report: dict[str, Any] = found
    return report


def diary(gateway: RunningGateway) -> list[str]:
    return (gateway.folder / "diary").read_text(encoding="utf-8").splitlines()


@requirement(
    "TOOL-ext-custom-internal", "TOOL-question-plugins", "TOOL-scope-internal-hosting", "TOOL-internal-definition"
)
def test_a_package_with_an_entry_point_brings_tools_that_are_listed_and_called_like_any_other(
    gateway: RunningGateway,
) -> None:
    tools = {tool["name"]: tool for tool in get(gateway, "/api/v1/tools")["tools"]}
    assert tools.keys() == {"file_search", "hello", "interpret"}
    search = tools["file_search"]
    assert (search["source"], search["description"]) == ("hosted", "Find the files that hold a word.")
    assert search["parameters"]["required"] == ["word"]
    assert tools["interpret"]["metadata"]["tags"] == ["maths"]

    assert execute(gateway, "file_search", word="ships").json()["result"] == ["land.txt", "sea.txt"]
    assert execute(gateway, "file_search", word="hills").json()["result"] == ["land.txt"]
    assert execute(gateway, "interpret", code="6 * 7").json()["result"] == 42
    assert execute(gateway, "hello").json()["result"] == "hello"

    failed = execute(gateway, "interpret", code="import os").json()
    assert (failed["status"], failed["error"]["code"]) == ("failed", "cannot_interpret")
    refused = execute(gateway, "file_search")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_arguments")


@requirement("TOOL-internal-initialize", "TOOL-internal-shutdown")
def test_its_tools_are_initialised_before_the_first_call_and_shut_down_with_the_gateway(
    gateway: RunningGateway,
) -> None:
    execute(gateway, "file_search", word="ships")
    written = diary(gateway)
    assert written.index("initialise file_search") < written.index("execute file_search")
    assert not [line for line in written if line.startswith("shutdown")]

    assert gateway.stop() == 0

    assert diary(gateway)[len(written) :] == ["shutdown interpret", "shutdown file_search"]


@requirement("TOOL-internal-initialize-fails")
def test_a_tool_that_cannot_be_initialised_is_shown_as_a_fault_and_the_others_work(gateway: RunningGateway) -> None:
    report = report_of(gateway, "hosted")
    assert (report["status"], report["kind"], report["tools"], report["error"]) == ("up", "acme", 2, None)
    assert report["faults"] == [
        (
            "Tool 'broken' of 'hosted' could not be initialised: RuntimeError: the licence server does not answer. "
            "It is tried again at the next refresh."
        )
    ]
    assert execute(gateway, "broken").status_code == 404
    assert execute(gateway, "file_search", word="waves").json()["result"] == ["sea.txt"]
    assert execute(gateway, "hello").json()["result"] == "hello"

    gateway.stop()
    assert "shutdown broken" not in diary(gateway)


def test_the_factorys_own_word_about_its_options_stops_the_start(folder: Path) -> None:
    config = CONFIG.format(diary=folder / "diary") + '\n[sources.second]\nkind = "acme"\nlibary = "x"\n'
    (folder / "jackfield.toml").write_text(config, encoding="utf-8")

    refused = run_cli("serve", "--port", "0", cwd=folder, env={"PYTHONPATH": str(folder / "site")})

    assert refused.returncode == 1
    path = folder / "jackfield.toml"
    said = f"error: {path}: sources.second has an unknown key 'libary'. Known here: library, diary."
    assert refused.stderr.strip() == said


def test_a_kind_that_nothing_brings_is_a_sentence_with_all_that_are_known(folder: Path) -> None:
    (folder / "jackfield.toml").write_text('[sources.x]\nkind = "akme"\n', encoding="utf-8")

    refused = run_cli("serve", "--port", "0", cwd=folder, env={"PYTHONPATH": str(folder / "site")})

    assert refused.returncode == 1
    assert refused.stderr.strip() == (
        f"error: {folder}/jackfield.toml: sources.x.kind is 'akme', which nothing installed here knows. "
        "Did you mean 'acme'? Known: acme, files, manifest, mcp, openapi, skills."
    )


def test_a_package_that_cannot_be_loaded_is_a_sentence_that_names_it(folder: Path) -> None:
    install(folder / "site", "sorry_tools", "raise RuntimeError('built for another age')", kind="sorry")
    (folder / "jackfield.toml").write_text('[sources.x]\nkind = "sorry"\n', encoding="utf-8")

    refused = run_cli("serve", "--port", "0", cwd=folder, env={"PYTHONPATH": str(folder / "site")})

    assert refused.returncode == 1
    assert refused.stderr.strip() == (
        f"error: {folder}/jackfield.toml: sources.x.kind 'sorry' comes from sorry_tools:make, "
        "which cannot be loaded: built for another age. "
        "Mend or remove that package."
    )


def test_the_installed_package_serves_the_command_line_without_a_gateway_too(folder: Path) -> None:
    (folder / "jackfield.toml").write_text(CONFIG.format(diary=folder / "diary"), encoding="utf-8")
    (folder / "tools").mkdir()

    called = run_cli(
        "call",
        "--config",
        "jackfield.toml",
        "interpret",
        "code=20+3",
        cwd=folder,
        env={"PYTHONPATH": str(folder / "site")},
    )

    assert (called.returncode, called.stdout.strip()) == (0, "23")
    assert "shutdown interpret" in (folder / "diary").read_text(encoding="utf-8")


FLAKY = '''
from jackfield.model.call import done
from jackfield.model.tool import Tool, ToolKind
from jackfield.sources.base import Listing


class Flaky:
    """Up as long as its switch is there; asks for a look when it is not."""

    kind, tool_kind, max_concurrency = "flaky", ToolKind.INTERNAL, None

    def __init__(self, name, options, surroundings):
        self.name, self.changed = name, surroundings.changed
        self.switch, self.opened = surroundings.folder / options["switch"], surroundings.folder / "opened"

    async def open(self):
        with self.opened.open("a") as file:
            file.write("open\\n")
        self.check()

    def check(self):
        if not self.switch.exists():
            raise ConnectionError("the far side does not answer")

    async def refresh(self):
        self.check()
        return Listing(tools=(Tool(source=self.name, name="ping", description="Ping."),))

    async def execute(self, invocation):
        if not self.switch.exists():
            self.changed(self.name)
        return done("pong")

    def can_execute(self, tool):
        return tool.source == self.name

    async def close(self):
        pass


make = Flaky
'''


@requirement("CON-config-source-down", "DISC-error-503")
def test_a_source_that_is_down_is_shown_and_retried_while_the_rest_works(tmp_path: Path) -> None:
    install(tmp_path / "site", "flaky_tools", FLAKY, kind="flaky")
    config = '[sources.far]\nkind = "flaky"\nswitch = "on"\n[sources.local]\nkind = "files"\npath = "tools/*.py"\n'
    files = {"tools/hello.py": 'def hello() -> str:\n    """Greet."""\n    return "hello"\n'}
    switch = tmp_path / "on"

    def names(gateway: RunningGateway) -> list[str]:
        return [tool["name"] for tool in get(gateway, "/api/v1/tools")["tools"]]

    with running_gateway(tmp_path, config, env={"PYTHONPATH": str(tmp_path / "site")}, files=files) as gateway:
        down = report_of(gateway, "far")
        assert (down["status"], down["error"], down["tools"]) == ("down", "the far side does not answer.", 0)
        assert get(gateway, "/readyz")["status"] == "ready"
        assert names(gateway) == ["hello"]
        assert execute(gateway, "hello").json()["result"] == "hello"
        eventually(lambda: (tmp_path / "opened").read_text().count("open") >= 3)

        switch.touch()
        eventually(lambda: report_of(gateway, "far")["status"] == "up", within=20)
        assert eventually(lambda: "ping" in names(gateway))
        assert execute(gateway, "ping").json()["result"] == "pong"

        switch.unlink()
        execute(gateway, "ping")
        eventually(lambda: report_of(gateway, "far")["status"] == "down")
        refused = execute(gateway, "ping")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "source_unavailable")
        assert refused.json()["error"]["message"] == (
            "Source 'far' of tool 'ping' is down: the far side does not answer. Try again later."
        )
        assert int(refused.headers["retry-after"]) >= 1
        assert (report_of(gateway, "far")["tools"], names(gateway)) == (1, ["hello", "ping"])
        assert execute(gateway, "hello").json()["result"] == "hello"

        switch.touch()
        eventually(lambda: execute(gateway, "ping").status_code == 200, within=20)
        assert report_of(gateway, "far")["status"] == "up"
