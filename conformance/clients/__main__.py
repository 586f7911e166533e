"""`python -m conformance.clients [--only NAME]…`: install each program, run it unchanged, say what held.

Above: `make clients`. One gateway and one scripted model serve all of them, on free ports of loopback. The exit code is
1 when anything did not hold.
"""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from bench.processes import BenchError, running_gateway
from conformance.clients.cases import CASES, PIXEL, Case, Checks, Scene
from conformance.clients.model import ChatModel, running_model
from conformance.suite import SuiteError

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
    names = [case.name for case in CASES]
    parser = ArgumentParser(prog="python -m conformance.clients", description="Other people's programs, unchanged.")
    parser.add_argument("--only", action="append", choices=names, help="this one only; may be given several times")
    wanted = parser.parse_args().only or names
    outcomes = []
    for outcome in _outcomes([case for case in CASES if case.name in wanted]):
        outcomes.append(outcome)
        print(_report(outcome), flush=True)
    print(_table(outcomes))
    return 0 if all(outcome.holds for outcome in outcomes) else 1


def _outcomes(cases: list[Case]) -> Iterator[Outcome]:
    with TemporaryDirectory(prefix="jackfield-clients-") as home, running_model() as model:
        project = Path(home) / "project"
        (project / "tools").mkdir(parents=True)
        tools = TOOLS.format(pixel=PIXEL.partition("base64,")[2])
        (project / "tools" / "tools.py").write_text(tools, encoding="utf-8")
        (project / "jackfield.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
        try:
            with running_gateway(project, tools=3) as gateway:
                for case in cases:
                    yield _outcome(case, f"http://127.0.0.1:{gateway.port}", model, Path(home) / case.name)
        except BenchError as fault:
            raise SystemExit(str(fault)) from None


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
        f"{'holds' if outcome.holds else 'FAILS':6}{outcome.name:15}"
        f"{sum(outcome.checks.values())} of {len(outcome.checks)} checks"
        for outcome in outcomes
    ]
    return "\n".join(["—", *rows])


if __name__ == "__main__":
    sys.exit(main())
