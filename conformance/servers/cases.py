"""One case a server: how it is installed and started, what is asked of it, and what it says differently each time.

Above: `__main__.py`. The folder that a server works in is made anew at the same place for each run of it, so that it
says the same to a client of its own and to one of the gateway.
"""

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from conformance.clients.cases import PIXEL
from conformance.clients.installing import NpmSet, PythonSet
from conformance.servers.differences import Expected, Mask
from conformance.servers.view import MODERN, Answers, Step, call, complete, get, read, subscribe
from conformance.suite import SuiteError

LEGACY = "2025-11-25"
HTTP, SSE, STDIO = "http", "sse", "stdio"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PAGE = "<title>A page</title><h1>Hello</h1><button onclick=\"document.title='Clicked'\">Press</button>"
_GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
"""For commits that have the same id each time."""


class ServerCase(Struct, frozen=True, kw_only=True):
    """A server, and what is asked of it. Its folder is the argument of everything here."""

    name: str
    what: NpmSet | PythonSet | None
    """None: it is ours, and installed."""
    transport: str = STDIO
    """`http` and `sse`: it listens on the port that the variable PORT has."""
    revision: str = LEGACY
    """Which its own client speaks."""
    command: Callable[[Path], list[str]]
    prepare: Callable[[Path], None] = lambda _: None
    script: Callable[[Path], tuple[Step, ...]]
    env: Mapping[str, str] = {}
    answers: Answers = Answers()
    masks: tuple[Mask, ...] = ()
    expected: tuple[Expected, ...] = ()


def _npm(name: str, version: str) -> NpmSet:
    return NpmSet(name=name.rpartition("/")[2], packages=(f"{name}@{version}",))


EVERYTHING, FILES, MEMORY = (
    _npm(f"@modelcontextprotocol/server-{name}", "2026.8.31") for name in ("everything", "filesystem", "memory")
)
BROWSER = NpmSet(name="playwright-mcp", packages=("@playwright/mcp@0.0.83",))
GIT, TIME = (PythonSet(name=name, packages=(f"{name}==2026.10.19",)) for name in ("mcp-server-git", "mcp-server-time"))


def _program(what: NpmSet | PythonSet, name: str) -> str:
    return str(what.program(name) if isinstance(what, NpmSet) else what.python.with_name(name))


def _everything(_: Path) -> tuple[Step, ...]:
    return (
        call("echo", message="Hello, Wörld"),
        call("echo", "echo nothing"),
        call("get-sum", a=2, b=3.5),
        call("get-tiny-image"),
        call("get-structured-content", location="Chicago"),
        call("get-annotated-message", messageType="error", includeImage=True),
        call("get-resource-reference", resourceType="Blob", resourceId=2),
        call("get-resource-links", count=3),
        call("gzip-file-as-resource", name="a.gz", data="data:text/plain,hello", outputType="resource"),
        call("trigger-long-running-operation", duration=0.4, steps=4, _told=("progress",)),
        call("trigger-elicitation-request"),
        call("trigger-url-elicitation", url="https://example.com/go", elicitationId="e1"),
        call(
            "trigger-url-elicitation", "url by error", url="https://example.com/go", elicitationId="e2", errorPath=True
        ),
        call("trigger-sampling-request", prompt="Say something", maxTokens=20),
        call("get-roots-list"),
        read("demo://resource/static/document/features.md"),
        read("demo://resource/dynamic/text/1"),
        read("demo://resource/dynamic/blob/2"),
        read("demo://no/such/thing"),
        get("simple-prompt"),
        get("args-prompt", city="Lisbon", state="None"),
        get("resource-prompt", resourceType="Text", resourceId="1"),
        complete({"type": "ref/prompt", "name": "completable-prompt"}, "department", "E"),
        complete({"type": "ref/prompt", "name": "completable-prompt"}, "name", "A", department="Engineering"),
        complete({"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"}, "resourceId", "1"),
    )


def _prepare_files(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (folder / "sub" / "b.md").write_text("# B\n", encoding="utf-8")
    (folder / "dot.png").write_bytes(base64.b64decode(PIXEL.partition("base64,")[2]))


def _files(folder: Path) -> tuple[Step, ...]:
    at = str(folder)
    return (
        call("list_allowed_directories"),
        call("read_text_file", path=f"{at}/a.txt", head=2),
        call("read_text_file", "a file that is not there", path=f"{at}/none.txt"),
        call("read_media_file", path=f"{at}/dot.png"),
        call("read_multiple_files", paths=[f"{at}/a.txt", f"{at}/sub/b.md", f"{at}/none"]),
        call("write_file", path=f"{at}/new.txt", content="new"),
        call("edit_file", path=f"{at}/a.txt", edits=[{"oldText": "two", "newText": "zwei"}], dryRun=False),
        call("create_directory", path=f"{at}/made"),
        call("list_directory", path=at),
        call("list_directory_with_sizes", path=at),
        call("directory_tree", path=at),
        call("move_file", source=f"{at}/new.txt", destination=f"{at}/moved.txt"),
        call("search_files", path=at, pattern="**/*.md"),
        call("get_file_info", path=f"{at}/sub/b.md"),
        call("read_text_file", "outside", path="/etc/hostname"),
    )


def _memory(_: Path) -> tuple[Step, ...]:
    ada = {"name": "Ada", "entityType": "person", "observations": ["likes engines"]}
    engine = {"name": "Engine", "entityType": "machine", "observations": []}
    knows = {"from": "Ada", "to": "Engine", "relationType": "programs"}
    return (
        subscribe("memory://knowledge-graph"),
        call("create_entities", entities=[ada, engine], _told=("updates",)),
        call("create_relations", relations=[knows]),
        call("add_observations", observations=[{"entityName": "Ada", "contents": ["wrote notes"]}]),
        call("add_observations", "to nobody", observations=[{"entityName": "Nobody", "contents": ["x"]}]),
        call("search_nodes", query="engine"),
        call("open_nodes", names=["Ada"]),
        call("read_graph"),
        read("memory://knowledge-graph"),
        call("delete_observations", deletions=[{"entityName": "Ada", "observations": ["wrote notes"]}]),
        call("delete_relations", relations=[knows]),
        call("delete_entities", entityNames=["Engine"]),
        call("read_graph", "read_graph at the end"),
    )


def _prepare_git(folder: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **_GIT}, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n", encoding="utf-8")
    git("add", ".")
    git("commit", "-q", "-m", "First")
    (folder / "a.txt").write_text("one\ntwo\n", encoding="utf-8")


def _git(folder: Path) -> tuple[Step, ...]:
    at = str(folder)
    return (
        call("git_status", repo_path=at),
        call("git_diff_unstaged", repo_path=at),
        call("git_add", repo_path=at, files=["a.txt"]),
        call("git_diff_staged", repo_path=at),
        call("git_commit", repo_path=at, message="Second"),
        call("git_log", repo_path=at, max_count=5),
        call("git_create_branch", repo_path=at, branch_name="side"),
        call("git_checkout", repo_path=at, branch_name="side"),
        call("git_branch", repo_path=at, branch_type="local"),
        call("git_show", repo_path=at, revision="HEAD"),
        call("git_diff", repo_path=at, target="HEAD~1"),
        call("git_reset", repo_path=at),
        call("git_show", "what is not there", repo_path=at, revision="nowhere"),
        call("git_status", "no repository", repo_path=f"{at}/none"),
    )


def _time(_: Path) -> tuple[Step, ...]:
    there: dict[str, Any] = {"source_timezone": "Europe/Lisbon", "target_timezone": "Asia/Tokyo"}
    return (
        call("get_current_time", timezone="Europe/Lisbon"),
        call("convert_time", time="16:30", **there),
        call("convert_time", "no time", time="half past four", **there),
        call("get_current_time", "nowhere", timezone="Europe/Nowhere"),
    )


def _browser_command(folder: Path) -> list[str]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise SuiteError("Chromium is needed for @playwright/mcp and was not found. Install it.")
    flags = ("--headless", "--isolated", "--no-sandbox", "--executable-path", found, "--output-dir", str(folder))
    return [_program(BROWSER, "playwright-mcp"), *flags]


def _browser(_: Path) -> tuple[Step, ...]:
    return (
        call("browser_resize", width=400, height=300),
        call("browser_navigate", url=f"data:text/html,{PAGE}"),
        call("browser_snapshot"),
        call("browser_evaluate", function="() => ({title: document.title, list: [1, 2.5, null]})"),
        call("browser_take_screenshot", type="png"),
        call("browser_click", element="Press", target="button"),
        call("browser_click", "what is not there", element="Nothing", target="#nothing"),
        call("browser_tabs", action="list"),
        call("browser_console_messages"),
        call("browser_close"),
    )


def _rich(_: Path) -> tuple[Step, ...]:
    return (
        call("rich", "rich", text="hello"),
        call("rich", "rich without its argument"),
        call("progress", _told=("progress",)),
        call("logs", _told=("logs",)),
        call("ask"),
        call("open", _told=("opened",)),
        call("open_first"),
        call("sample"),
        call("roots"),
        call("fail"),
        call("many"),
        call("refuse"),
        read("rich://text"),
        read("rich://blob"),
        read("rich://item/7"),
        read("ui://rich/app"),
        read("rich://nothing"),
        get("rich", topic="fields"),
        complete({"type": "ref/prompt", "name": "rich"}, "topic", "f"),
        complete({"type": "ref/resource", "uri": "rich://item/{id}"}, "id", "7"),
        subscribe("rich://text"),
        call("touch", _told=("updates",)),
    )


VALIDATED = "The gateway checks arguments itself, and says so in its own words."
ACTABLE = "A server's error is a result with isError, so that a model can act on it."
NAMED = "At 2025-11-25 it must have an id, so the gateway gives it one."
NAMELESS = "Since 2026-07-28 a url that is to be opened has no id."
NOT_FOUND = "A resource that is not there has another number since 2026-07-28."


def _everything_over(transport: str, *arguments: str) -> ServerCase:
    return ServerCase(
        name=EVERYTHING.name if transport == STDIO else f"{EVERYTHING.name}-{transport}",
        transport=transport,
        what=EVERYTHING,
        command=lambda _: [_program(EVERYTHING, "mcp-server-everything"), *arguments],
        script=_everything,
        answers=Answers(form={"name": "Ada", "check": True}),
        expected=(
            Expected(r"call echo nothing\.result\.content\[0\]\.text", VALIDATED),
            Expected(r"call url by error\.(error|result)", ACTABLE, MODERN),
            Expected(r"call trigger-url-elicitation\.asked\[0\]\.params\.elicitationId", NAMELESS, MODERN),
        ),
        masks=(
            Mask(r"\d+:\d\d:\d\d [AP]M", "(time)", "It says when it made a resource."),
            Mask(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "(id)", "It makes an id each time."),
            Mask(r"UmVzb3VyY2Ug[\w+/]+=*", "(time)", "The same in base64."),
        ),
    )


CASES = (
    ServerCase(
        name="rich-modern",
        what=None,
        revision=MODERN,
        command=lambda _: [sys.executable, "-m", "conformance.servers.rich", "modern"],
        script=_rich,
        answers=Answers(form={"name": "Ada"}, roots=("file:///tmp/project",)),
        expected=(
            Expected(r"call rich without its argument\.result\..*", VALIDATED),
            Expected(r"call (refuse|open_first)\.(error|result)", ACTABLE),
            Expected(r"call open\.asked\[0\]\.params\.elicitationId", NAMED, LEGACY),
            Expected(r"read rich://nothing\.error\.code", NOT_FOUND, LEGACY),
        ),
    ),
    ServerCase(
        name="rich",
        what=None,
        command=lambda _: [sys.executable, "-m", "conformance.servers.rich"],
        script=_rich,
        answers=Answers(form={"name": "Ada"}, roots=("file:///tmp/project",)),
        expected=(
            Expected(r"call rich without its argument\.result\..*", VALIDATED),
            Expected(r"call refuse\.(error|result)", ACTABLE),
            Expected(r"call open_first\.(error|result)", ACTABLE, MODERN),
            Expected(r"read rich://nothing\.error\.code", NOT_FOUND, MODERN),
            Expected(r"call open\.asked\[0\]\.params\.elicitationId|call open\.opened\[0\]", NAMELESS, MODERN),
        ),
    ),
    _everything_over(STDIO),
    _everything_over(HTTP, "streamableHttp"),
    _everything_over(SSE, "sse"),
    ServerCase(
        name="server-filesystem",
        what=FILES,
        command=lambda folder: [_program(FILES, "mcp-server-filesystem"), str(folder)],
        prepare=_prepare_files,
        script=_files,
        masks=(Mask(r"(created|modified|accessed): .*", r"\1: (time)", "It says when a file was made."),),
    ),
    ServerCase(
        name="server-memory",
        what=MEMORY,
        command=lambda folder: [
            *("/usr/bin/env", f"MEMORY_FILE_PATH={folder / 'memory.jsonl'}"),
            _program(MEMORY, "mcp-server-memory"),
        ],
        script=_memory,
    ),
    ServerCase(
        name="mcp-server-git",
        what=GIT,
        command=lambda _: [_program(GIT, "mcp-server-git")],
        prepare=_prepare_git,
        script=_git,
        env=_GIT,
    ),
    ServerCase(
        name="mcp-server-time",
        what=TIME,
        command=lambda _: [_program(TIME, "mcp-server-time"), "--local-timezone", "Etc/UTC"],
        script=_time,
        masks=(Mask(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "(time)", "It says what time it is."),),
    ),
    ServerCase(
        name="playwright-mcp",
        what=BROWSER,
        command=_browser_command,
        script=_browser,
        masks=(
            Mask(r"page-[\dTZ-]+", "page-(time)", "Files are named by the time."),
            Mask(r"\d+ms", "(time)", "It says how long it took."),
        ),
    ),
)
