"""One case a program: how it is installed, configured and run, and what must have held. Above: `__main__.py`."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.processes import KEY
from conformance.clients.dialogue import Json, heard_in
from conformance.clients.installing import NpmSet, PythonSet, SuiteSet
from conformance.clients.model import ChatModel
from conformance.suite import SuiteError

SECONDS = 180
"""For one run of one program."""
PROGRAMS = Path(__file__).with_name("programs")
EXAMPLES = Path(__file__).parents[2] / "examples"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PLAY = "Do the whole play."
AGAIN = "What did you say?"
TALKS = ("default", "gpt-5.5")
"""What Codex is told to ask: a name that it does not know, and one for which it brings its own ways along."""


class Scene(Struct, frozen=True, kw_only=True):
    """Where a program runs."""

    url: str
    model: ChatModel
    folder: Path

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("JACKFIELD_", "OPENAI_"))}
        return {
            **kept,
            "HOME": str(self.folder),
            "JACKFIELD_URL": self.url,
            "JACKFIELD_KEY": KEY,
            "MODEL_URL": self.model.url,
            "PIXEL": PIXEL,
            "CI": "1",
            **more,
        }


Checks = dict[str, bool]


class Case(Struct, frozen=True, kw_only=True):
    """A program, and whether it works."""

    name: str
    what: NpmSet | PythonSet | SuiteSet
    run: "Callable[[Case, Scene], Checks]"
    is_mcp: bool = False
    """It is a client of `/mcp` and of nothing else: it needs no model, but a server with everything MCP has."""


def run_program(case: Case, scene: Scene, command: Sequence[str], **environment: str) -> str:
    """What it printed. A program that fails, or takes too long, has shown nothing."""
    process = subprocess.Popen(
        command,
        cwd=scene.folder,
        env=scene.environment(**environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # many are a launcher and what it launches: both end together
    )
    try:
        printed, complained = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, complained = process.communicate()
        said = f"{printed[-1500:]}{complained[-1500:]}"
        raise SuiteError(f"{case.name} was not done after {SECONDS} s. It said: {said}") from None
    if process.returncode:
        raise SuiteError(f"{case.name} ended with {process.returncode}: {printed[-1500:]}{complained[-3000:]}")
    return printed


def script(name: str, **environment: str) -> Callable[[Case, Scene], Checks]:
    """A small program of ours that uses an SDK; the last line that it prints has its checks."""

    def run(case: Case, scene: Scene) -> Checks:
        if isinstance(case.what, PythonSet):
            command = [str(case.what.python), str(PROGRAMS / name)]
        else:
            node = shutil.which("node")
            if node is None:
                raise SuiteError(f"Node.js is needed for {case.name} and was not found. Install it.")
            assert isinstance(case.what, NpmSet)
            copy = case.what.folder / name  # modules are found from where a script lies
            shutil.copyfile(PROGRAMS / name, copy)
            command = [node, str(copy)]
        printed = run_program(case, scene, command, **environment)
        try:
            return msgspec.json.decode(printed.strip().splitlines()[-1], type=Checks)
        except (msgspec.DecodeError, IndexError):
            raise SuiteError(f"{case.name} printed no checks: {printed[-1500:]}") from None

    return run


def _codex(case: Case, scene: Scene) -> Checks:
    """`codex exec` with its shell, our /mcp as its server, a patch where it has one, then `resume`."""
    checks: Checks = {}
    for talk in TALKS:
        home = scene.folder / f"codex-{talk}"
        work = home / "work"
        work.mkdir(parents=True)
        (home / "config.toml").write_text(_codex_config(scene, talk), encoding="utf-8")
        asked_before = len(scene.model.asked)
        flags = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
        assert isinstance(case.what, NpmSet)
        codex = str(case.what.program("codex"))
        environment = {"CODEX_HOME": str(home)}
        told = run_program(case, scene, [codex, "exec", *flags, "-C", str(work), PLAY], **environment)
        asked = scene.model.asked[asked_before:]
        again = run_program(
            case, scene, [codex, "exec", *flags, "-C", str(work), "resume", "--last", AGAIN], **environment
        )
        last = heard_in(asked[-1])
        patches = "apply_patch" in last.tools
        checks |= {
            f"{talk}: its shell": "hello from the shell" in told,
            f"{talk}: our /mcp as its server": "42" in told,
            f"{talk}: a tool's image": last.images == 1,
            f"{talk}: one message for calls at once": _calls_at_once(asked[-1]) == 2,  # noqa: PLR2004 - two calls
            f"{talk}: second turn": "I said: All done." in again,
        }
        if patches:
            checks[f"{talk}: apply_patch"] = (work / "patched.txt").exists()
        if "tool_search" in last.tools:
            checks[f"{talk}: tool_search"] = "tool_search" in last.called
    return checks


def _calls_at_once(body: Json) -> int:
    return max(len(message.get("tool_calls", ())) for message in body["messages"])


def _codex_config(scene: Scene, talk: str) -> str:
    """The example's, for this gateway and model; nothing is hidden by a second try."""
    changes = {
        "http://127.0.0.1:8420": scene.url,
        'model = "default"': f'model = "{talk}"\nmodel_reasoning_summary = "auto"',
        'wire_api = "responses"': 'wire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0',
    }
    text = (EXAMPLES / "clients/codex/config.toml").read_text(encoding="utf-8")
    for written, wanted in changes.items():
        assert written in text, written
        text = text.replace(written, wanted)
    return text


def _langchain_example(case: Case, scene: Scene) -> Checks:
    """The example as it is: its model is the Responses API, its tools are those of `/mcp`."""
    assert isinstance(case.what, PythonSet)
    said = run_program(case, scene, [str(case.what.python), str(EXAMPLES / "frameworks/langchain_example.py")])
    return {"our /mcp as its server": "Lisbon: 20" in said and "Porto: 20" in said, "answers": "All done." in said}


def _opencode(case: Case, scene: Scene) -> Checks:
    """`opencode run` over the Responses API, with its shell and our /mcp as its server, then `--continue`."""
    work = scene.folder / "work"
    work.mkdir()
    (work / "opencode.json").write_bytes(msgspec.json.encode(_opencode_config(scene)))
    assert isinstance(case.what, NpmSet)
    command = [str(_opencode_program(case.what)), "run", "--dir", str(work), "--model", "jackfield/default"]
    environment = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    told = run_program(case, scene, [*command, PLAY], **environment)
    plays = [heard for body in scene.model.asked if (heard := heard_in(body)).user.startswith((PLAY, f'"{PLAY}'))]
    again = run_program(case, scene, [*command, "--continue", AGAIN], **environment)
    last = plays[-1]
    return {
        "its shell": any("hello from the shell" in result for result in last.results),
        "our /mcp as its server": any("42" in result for result in last.results),
        "a tool's image": last.images == 1,
        "answers": "All done." in told,
        "second turn": "I said: All done." in again,
    }


def _opencode_program(what: NpmSet) -> Path:
    """The binary for this machine, which a script of the package would link; the one for any processor, if there."""
    found = sorted(
        what.folder.glob("node_modules/opencode-*/bin/opencode"), key=lambda path: "baseline" not in str(path)
    )
    if not found:
        raise SuiteError("npm brought no binary of opencode for this machine.")
    return found[0]


def _opencode_config(scene: Scene) -> Json:
    provider = {
        "npm": "@ai-sdk/openai",
        "name": "Jackfield",
        "options": {"baseURL": f"{scene.url}/v1", "apiKey": KEY},
        "models": {
            "default": {
                "name": "default",
                "tool_call": True,
                "reasoning": True,
                "attachment": True,
                "modalities": {"input": ["text", "image"], "output": ["text"]},
            }
        },
    }
    server = {
        "type": "remote",
        "url": f"{scene.url}/mcp",
        "headers": {"Authorization": f"Bearer {KEY}"},
        "oauth": False,
        "enabled": True,
    }
    return {
        "provider": {"jackfield": provider},
        "model": "jackfield/default",
        "small_model": "jackfield/default",
        "mcp": {"gate": server},
        "permission": {"*": "allow"},
        "share": "disabled",
        "autoupdate": False,
    }


CASES = (
    Case(name="codex", what=NpmSet(name="codex", packages=("@openai/codex@0.166.0",)), run=_codex),
    Case(name="codex-older", what=NpmSet(name="codex-older", packages=("@openai/codex@0.130.0",)), run=_codex),
    Case(name="opencode", what=NpmSet(name="opencode", packages=("opencode-ai@1.18.33",)), run=_opencode),
    Case(
        name="openai-node",
        what=NpmSet(name="openai-node", packages=("openai@7.53.0",)),
        run=script("openai_node.mjs"),
    ),
    Case(
        name="ai-sdk-7",
        what=NpmSet(name="ai-sdk-7", packages=("ai@7.0.169", "@ai-sdk/openai@4.0.114", "zod@4")),
        run=script("ai_sdk.mjs"),
    ),
    Case(
        name="ai-sdk-6",
        what=NpmSet(name="ai-sdk-6", packages=("ai@6.0.326", "@ai-sdk/openai@3.0.139", "zod@4")),
        run=script("ai_sdk.mjs"),
    ),
    Case(
        name="pydantic-ai",
        what=PythonSet(name="pydantic-ai", packages=("pydantic-ai-slim[openai]==2.66.0",)),
        run=script("pydantic_ai_run.py"),
    ),
    Case(
        name="langchain",
        what=PythonSet(name="langchain", packages=("langchain-openai==1.7.3",)),
        run=script("langchain_run.py"),
    ),
    Case(
        name="langchain-example",
        what=PythonSet(
            name="langchain-example",
            packages=("langchain==1.4.7", "langchain-mcp-adapters==0.3.2", "langchain-openai==1.7.3"),
        ),
        run=_langchain_example,
    ),
    Case(
        name="openai-agents",
        what=PythonSet(name="openai-agents", packages=("openai-agents==0.24.0",)),
        run=script("openai_agents_run.py"),
    ),
    Case(
        name="smolagents",
        what=PythonSet(name="smolagents", packages=("smolagents[mcp,openai]==1.26.0", "mcp<2")),
        run=script("smolagents_run.py"),
    ),
)
