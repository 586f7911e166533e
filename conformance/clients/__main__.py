"""`python -m conformance.clients [--only NAME]… [--mcp]`: install each program, run it unchanged, say what held.

Above: `make clients`, and `make conformance` for the clients of MCP. One gateway and one scripted model serve those
that talk to models, another gateway in front of a server the clients of MCP, on free ports of loopback. The exit code
is 1 when anything did not hold.
"""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from bench.processes import BenchError, running_gateway
from conformance.clients.cases import CASES, PIXEL, Case, Checks, Scene
from conformance.clients.mcp_cases import MCP_CASES
from conformance.clients.model import ChatModel, running_model
from conformance.servers.rich import TOOLS as SERVERS_TOOLS
from conformance.suite import SuiteError

ALL = (*CASES, *MCP_CASES)
ROOT = Path(__file__).parents[2]

CONFIG = """\
[sources.local]
kind = "files"
path = "tools/*.py"

[models.default]
provider = "openai"
base_url = "{url}"
model = "scripted"

[models."gpt-5.5"]
provider = "openai"
base_url = "{url}"
model = "scripted"
"""
TOOLS = '''\
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def get_weather(city: str) -> str:
    """How the weather is."""
    return f"{{city}}: 20 degrees"


def screenshot() -> dict:
    """Show the screen."""
    image = {{"type": "image", "data": "{pixel}", "mimeType": "image/png"}}
    return {{"content": [{{"type": "text", "text": "The screen:"}}, image]}}
'''


ALLOW_ME = {
    "name": "allow_me",
    "description": "Says what it was given, if somebody allows it.",
    "executionType": "internal",
    "inputSchema": {"type": "object", "properties": {"amount": {"type": "integer"}}},
    "metadata": {"requires_approval": True},
}


class Outcome(Struct, frozen=True, kw_only=True):
    """How one program fared."""

    name: str
    version: str
    checks: Checks
    fault: str = ""
    seconds: float

    @property
    def holds(self) -> bool:
        return not self.fault and bool(self.checks) and all(self.checks.values())


def main() -> int:
    """The exit code: 0 when everything held."""
    names = [case.name for case in ALL]
    parser = ArgumentParser(prog="python -m conformance.clients", description="Other people's programs, unchanged.")
    parser.add_argument("--only", action="append", choices=names, help="this one only; may be given several times")
    parser.add_argument("--mcp", action="store_true", help="only the clients of MCP")
    given = parser.parse_args()
    wanted = given.only or [case.name for case in ALL if case.is_mcp or not given.mcp]
    return 0 if run_clients([case for case in ALL if case.name in wanted]) else 1


def run_clients(cases: Sequence[Case]) -> bool:
    """Run these and print how they fared; whether everything held."""
    outcomes = []
    for outcome in _outcomes(cases):
        outcomes.append(outcome)
        print(_report(outcome), flush=True)
    print(_table(outcomes), flush=True)
    return all(outcome.holds for outcome in outcomes)


def _outcomes(cases: Sequence[Case]) -> Iterator[Outcome]:
    with TemporaryDirectory(prefix="jackfield-clients-") as home, running_model() as model:
        for is_mcp in (False, True):
            ours = [case for case in cases if case.is_mcp is is_mcp]
            if not ours:
                continue
            project, tools = (_mcp_project if is_mcp else _model_project)(Path(home), model)
            with running_gateway(project, tools=tools) as gateway:
                for case in ours:
                    yield _outcome(case, f"http://127.0.0.1:{gateway.port}", model, Path(home) / case.name)


def _model_project(home: Path, model: ChatModel) -> tuple[Path, int]:
    """A few tool files and a model; where it is, and how many tools it has."""
    project = home / "model-project"
    (project / "tools").mkdir(parents=True)
    tools = TOOLS.format(pixel=PIXEL.partition("base64,")[2])
    (project / "tools" / "tools.py").write_text(tools, encoding="utf-8")
    (project / "jackfield.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
    return project, 3


def _mcp_project(home: Path, _: ChatModel) -> tuple[Path, int]:
    """A server that has everything there is in MCP, and a tool whose calls wait for approval."""
    project = home / "mcp-project"
    project.mkdir()
    server = [sys.executable, "-m", "conformance.servers.rich"]
    source = {"kind": "mcp", "command": server, "cwd": str(ROOT)}
    settings = {"sources": {"rich": source}, "tools": [ALLOW_ME]}
    (project / "jackfield.json").write_bytes(msgspec.json.encode(settings))
    return project, len(SERVERS_TOOLS) + 1


def _outcome(case: Case, url: str, model: ChatModel, folder: Path) -> Outcome:
    began = time.monotonic()
    checks: Checks = {}
    fault = ""
    folder.mkdir()
    model.asked.clear()
    try:
        case.what.install()
        checks = case.run(case, Scene(url=url, model=model, folder=folder))
    except SuiteError as trouble:
        fault = str(trouble)
    version = ", ".join(case.what.packages)
    return Outcome(name=case.name, version=version, checks=checks, fault=fault, seconds=time.monotonic() - began)


def _report(outcome: Outcome) -> str:
    lines = [f"{outcome.name} ({outcome.version}), {outcome.seconds:.0f} s"]
    lines += [f"  {'ok  ' if held else 'FAIL'} {check}" for check, held in outcome.checks.items()]
    return "\n".join([*lines, *([f"  FAIL {outcome.fault}"] if outcome.fault else [])])


def _table(outcomes: list[Outcome]) -> str:
    rows = [
        f"{'holds' if outcome.holds else 'FAILS':6}{outcome.name:26}"
        f"{sum(outcome.checks.values())} of {len(outcome.checks)} checks"
        for outcome in outcomes
    ]
    return "\n".join(["—", *rows])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as fault:
        sys.exit(str(fault))
