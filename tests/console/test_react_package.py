"""`@jackfield/react` as it is packed: an app of another origin, the Vercel AI SDK and AG-UI show a space with it."""

import json
import re
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copy, copytree, ignore_patterns, which
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.scene import ADMIN, CONFIG, FILES, HUSAM_KEY, messages
from tests.console.visitor import Visitor
from tests.harness.process import RunningGateway, running_gateway
from tests.requirement import requirement

Visit = Callable[..., Visitor]
ROOT = Path(__file__).parents[2]
CONSOLE, PROGRAMS = ROOT / "console", ROOT / "tests/programs"
CAME_BACK = re.compile(r'confirmAction came back:.* \{"confirmed":true\}')
needs_npm = pytest.mark.skipif(
    which("npm") is None or not (PROGRAMS / "node_modules/ai").is_dir(), reason="needs Node.js and make/npm-programs"
)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with the package as npm packs it, its types checked, and built."""
    folder = tmp_path_factory.mktemp("app")
    copytree(ROOT / "examples/react", folder, dirs_exist_ok=True)
    # Packed from a copy: other tests may run at the same time.
    for modules in (PROGRAMS / "node_modules", CONSOLE / "node_modules"):
        _link(modules, folder / "node_modules")
    for name in ("client", "react"):  # the second is built on the first
        source = folder / f"source-{name}"
        copytree(CONSOLE / "packages" / name, source, ignore=ignore_patterns("dist", "node_modules"))
        _run(source, "npm", "pack", "--pack-destination", str(folder))
        with tarfile.open(next(folder.glob(f"jackfield-{name}-*.tgz"))) as packed:
            packed.extractall(folder, filter="data")
        assert {file.name for file in (folder / "package").iterdir()} == {"README.md", "dist", "package.json"}
        (folder / "package").rename(folder / "node_modules/@jackfield" / name)
    _run(folder, "npm", "run", "build")
    _run(folder, "npx", "--no-install", "tsc", "--noEmit", "false", "--rootDir", "src", "--outDir", "out")
    copy(PROGRAMS / "ag_ui.mjs", folder)
    return folder


def _link(modules: Path, into: Path) -> None:
    """Packages that are installed already, as if they had been installed here; the last one of a name counts."""
    for module in modules.iterdir():
        if module.name == "@jackfield":
            (into / module.name).mkdir(exist_ok=True)
        elif module.name.startswith("@"):
            _link(module, into / module.name)
        else:
            into.mkdir(parents=True, exist_ok=True)
            (into / module.name).unlink(missing_ok=True)
            (into / module.name).symlink_to(module)


def _run(folder: Path, *command: str, **env: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False, env=env or None
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def origin(app: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=app / "dist"))
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.fixture(scope="module")
def gateway(origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    config = f'[server]\ncors_origins = ["{origin}"]\n{CONFIG}'
    with running_gateway(tmp_path_factory.mktemp("gateway"), config, files=FILES, env=ADMIN) as running:
        yield running


def open_app(visit: Visit, gateway: RunningGateway, address: str, space: str) -> Page:
    """The app, connected; what it asks of its own origin is its own affair."""
    visitor = visit("", gateway=gateway)
    page = visitor.page
    page.goto(address)
    page.get_by_label("Gateway").fill(gateway.url)
    page.get_by_label("Key").fill(HUSAM_KEY)
    page.get_by_label("Space").fill(space)
    page.get_by_role("button", name="Connect").click()
    assert {host for host in visitor.foreign if not host.startswith(address.rsplit("/", 1)[0])} == set()
    visitor.foreign.clear()
    return page


def say(page: Page, words: str) -> None:
    page.get_by_label("Message").fill(words)
    page.get_by_role("button", name="Send").click()


@needs_npm
@requirement("CON-react-package")
def test_an_app_of_another_origin_shows_a_space_and_answers_its_calls(
    visit: Visit, gateway: RunningGateway, origin: str
) -> None:
    page = open_app(visit, gateway, f"{origin}/index.html", "lobby")
    say(page, "Please confirm it")
    expect(page.get_by_text("Shall I?")).to_be_visible()  # a component of the app's own
    page.get_by_role("button", name="Yes").click()
    expect(page.get_by_role("listitem").filter(has_text="confirmAction came back")).to_be_visible()
    say(page, "And the weather?")
    expect(page.locator(".jackfield-tool", has_text="get_weather")).to_contain_text("Tokyo")  # the package's fallback
    expect(page.locator(".jackfield-tool", has_text="get_weather")).to_contain_text("celsius")


@needs_npm
@requirement("CON-ai-sdk")
def test_the_chat_of_the_ai_sdk_shows_a_space_and_answers_its_calls(
    visit: Visit, gateway: RunningGateway, origin: str
) -> None:
    page = open_app(visit, gateway, f"{origin}/chat.html", "hall")
    say(page, "Please confirm it")
    expect(page.get_by_text("Shall I?")).to_be_visible()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text(CAME_BACK)).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("ready")
    assert [one["content"] for one in messages(gateway, "hall") if one["entityId"] == "husam"] == ["Please confirm it"]


@needs_npm
@requirement("CON-ag-ui")
def test_a_front_end_of_ag_ui_shows_a_space_and_answers_its_calls(app: Path, gateway: RunningGateway) -> None:
    env = {**gateway.environment, "JACKFIELD_KEY": HUSAM_KEY}
    said = json.loads(_run(app, "node", "ag_ui.mjs", **env))
    assert said["call"] == {"name": "confirmAction", "arguments": '{"question":"Shall I?"}'}
    assert said["events"].count("RUN_FINISHED") == 2
    assert "RUN_ERROR" not in said["events"]
    assert CAME_BACK.search(said["messages"][-1]["content"])
