"""`@jackfield/client` in Node.js at a real gateway: `console/packages/client/test` has the programs."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from jackfield.sdk import SyncClient
from jackfield.sdk.serving import INTERRUPTED
from tests.harness.process import RunningGateway, clean_environment, running_gateway, start_gateway
from tests.requirement import requirement
from tests.stories.sdk_scene import CONFIG, ENVIRONMENT, TOOLS, WITHIN
from tests.stories.typescript.conftest import needs_npm
from tests.waiting import eventually

pytestmark = needs_npm
AGENT = """
[models.demo]
provider = "scripted"
script = "script.toml"

[agents.helper]
model = "demo"
instructions = "Help."
spaces = ["lobby"]
"""
SCRIPT = """
[[turns]]
when = { user = "send" }
calls = [{ tool = "ant_send_response", arguments = { message = "hello" } }]

[[turns]]
when = { result = "ant_send_response" }
say = "I was told: {result}"

[[turns]]
when = { user = "Good day", tool = "enter_space" }
calls = [{ tool = "enter_space", arguments = { spaceId = "lobby" } }]

[[turns]]
when = { result = "enter_space" }
calls = [{ tool = "send_message", arguments = { text = "Good day to you." } }]

[otherwise]
say = "Done."
"""


def environment(gateway: RunningGateway, folder: Path) -> dict[str, str]:
    state = {"XDG_STATE_HOME": str(folder / "state")}
    return clean_environment({"JACKFIELD_URL": gateway.url, "JACKFIELD_KEY": gateway.key, **state})


@requirement("TS-client", "TS-typed-errors", "TS-retries")
def test_the_client_does_what_its_story_says(app: Path, tmp_path: Path) -> None:
    with running_gateway(tmp_path, CONFIG + AGENT, env=ENVIRONMENT, files={**TOOLS, "script.toml": SCRIPT}) as gateway:
        command = ["node", "--test-reporter=spec", str(app / "out/story.js")]
        env = environment(gateway, tmp_path)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class ToolServer:
    """`test/server.ts` as a process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def release(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()


@contextmanager
def tool_server(app: Path, gateway: RunningGateway, folder: Path) -> Iterator[ToolServer]:
    command = ["node", str(app / "out/server.js")]
    with subprocess.Popen(
        command, env=environment(gateway, folder), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            server = ToolServer(process)
            assert server.line() == "connected"
            yield server
        finally:
            process.kill()


@requirement("TS-serve")
def test_a_server_comes_back_after_a_kill_of_the_gateway_and_begins_no_call_twice(app: Path, tmp_path: Path) -> None:
    gateway = start_gateway(tmp_path, CONFIG, env=ENVIRONMENT, files=TOOLS)

    def offers(call_id: str) -> int:
        with closing(sqlite3.connect(tmp_path / ".jackfield/jackfield.db")) as database:
            (row,) = database.execute("SELECT offers FROM calls WHERE id = ?", (call_id,))
        return int(row[0])

    try:
        with tool_server(app, gateway, tmp_path) as server:
            with SyncClient(gateway.url, gateway.key) as client:
                call = client.tools.start("job", n=7).call_id
            assert server.line() == "begun 7"
            gateway.kill()
            gateway = start_gateway(tmp_path, env=ENVIRONMENT)
            eventually(lambda: offers(call) == 2, within=WITHIN)
            server.release()
            with SyncClient(gateway.url, gateway.key) as client:
                settled = client.calls.wait(call, WITHIN)
            assert (settled.status, settled.result) == ("completed", 7)
            server.process.send_signal(signal.SIGTERM)
            said = [line.strip() for line in server.process.stdout or ()]
            assert said == ["connected", "drained"], "it was begun once"
    finally:
        gateway.stop()


@requirement("TS-serve")
def test_a_server_that_was_killed_is_known_again_and_says_that_it_cannot_know(app: Path, tmp_path: Path) -> None:
    with (
        running_gateway(tmp_path, CONFIG, env=ENVIRONMENT, files=TOOLS) as gateway,
        SyncClient(gateway.url, gateway.key) as client,
    ):
        with tool_server(app, gateway, tmp_path) as first:
            call = client.tools.start("job").call_id
            assert first.line() == "begun 0"
            first.process.kill()
            first.process.wait(WITHIN)
        (kept,) = (tmp_path / "state/jackfield/servers").iterdir()
        known = kept.read_text(encoding="utf-8")
        with tool_server(app, gateway, tmp_path) as second:
            settled = client.calls.wait(call, WITHIN)
            (now,) = (tmp_path / "state/jackfield/servers").iterdir()
            assert (now.read_text(encoding="utf-8"), now.name.split(".")[1]) == (known, str(second.process.pid))
    assert (settled.status, settled.error and settled.error.message) == ("failed", INTERRUPTED)


@requirement("TS-package")
def test_the_package_is_types_and_modules_without_dependencies(app: Path) -> None:
    package = app / "node_modules/@jackfield/client"
    described = json.loads((package / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in described
    assert {path.name for path in package.iterdir()} == {"README.md", "dist", "package.json"}
    assert (package / described["types"]).is_file()
    code = "".join(path.read_text(encoding="utf-8") for path in (package / "dist").glob("*.js"))
    assert 'from "node:' not in code, "a browser could not load it"


@requirement("TS-types")
def test_the_types_are_those_of_the_gateway() -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "make/sync_typescript.py", "--check"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
