"""`python -m conformance [--revision R]… [--legacy-upstream] [--write]`: run the suite and Inspector, say what failed.

Above: `make conformance`. What is meant to fail is in `exceptions.toml`; anything else makes the exit code 1.
"""

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.document import write_into
from bench.processes import KEY, BenchError, running_gateway
from conformance.suite import SuiteError, Tools, inspect, installed, run_suite
from conformance.verdict import Verdict, document, judge, read_exceptions, report

REVISIONS = ("2025-11-25", "2026-07-28")
ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "conformance.md"
CONFIG = '[sources.fixture]\nkind = "mcp"\nurl = "http://127.0.0.1:{port}/mcp"\n'
FIXTURE_TOOLS = 20
SIMPLE = "test_simple_text"
STOPPED_WITHIN = 15.0


def main() -> int:
    """The exit code: 0 when nothing failed but what is meant to."""
    parser = ArgumentParser(prog="python -m conformance", description="The MCP project's suite against the gateway.")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="this one only; may be given twice")
    parser.add_argument("--legacy-upstream", action="store_true", help="the server behind the gateway is of 2025")
    parser.add_argument("--write", action="store_true", help=f"also put the totals into {DOCUMENT.relative_to(ROOT)}")
    given = parser.parse_args()
    if given.write and (given.revision or given.legacy_upstream):
        parser.error("--write is for a whole run: leave --revision and --legacy-upstream out")
    try:
        tools = installed()
        with TemporaryDirectory(prefix="jackfield-conformance-") as folder:
            verdicts = _verdicts(tools, Path(folder), given.revision or REVISIONS, legacy=given.legacy_upstream)
    except (SuiteError, BenchError) as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    if given.write:
        write_into(DOCUMENT, document(verdicts, read_exceptions()))
    return 0 if all(verdict.holds for verdict in verdicts) else 1


def _verdicts(tools: Tools, folder: Path, revisions: tuple[str, ...], *, legacy: bool) -> list[Verdict]:
    """Of each revision, printed as they come; at the end what Inspector says."""
    meant = [exception for exception in read_exceptions() if legacy or not exception.legacy_upstream]
    project = folder / "project"
    project.mkdir()
    with _fixture(folder / "fixture.log", legacy=legacy) as port:
        (project / "jackfield.toml").write_text(CONFIG.format(port=port), encoding="utf-8")
        with running_gateway(project, tools=FIXTURE_TOOLS) as gateway:
            url = f"http://127.0.0.1:{gateway.port}/mcp"
            verdicts: list[Verdict] = []
            for revision in revisions:
                checks = run_suite(tools, url=url, key=KEY, revision=revision, folder=folder / revision)
                verdicts.append(judge(revision, checks, meant))
                print(report(verdicts[-1]), flush=True)
            found = _inspected(tools, url=url, folder=folder)
    print("\n".join(["—", *(verdict.totals for verdict in verdicts), found]))
    return verdicts


def _inspected(tools: Tools, *, url: str, folder: Path) -> str:
    """What MCP Inspector's command line sees of the same gateway."""
    listed = inspect(tools, url=url, key=KEY, folder=folder, asked=("--method", "tools/list"))
    names = [tool["name"] for tool in listed.get("tools", [])]
    called = inspect(tools, url=url, key=KEY, folder=folder, asked=("--method", "tools/call", "--tool-name", SIMPLE))
    texts = [block.get("text") for block in called.get("content", [])]
    if SIMPLE not in names or texts != ["This is a simple text response for testing."]:
        raise SuiteError(f"Inspector saw the tools {names}, and {called} as the answer of {SIMPLE}.")
    return f"MCP Inspector: lists {len(names)} tools, calls {SIMPLE}"


@contextmanager
def _fixture(log: Path, *, legacy: bool) -> Generator[int]:
    """The server behind the gateway, and its port."""
    with log.open("wb") as said_aside:
        process = subprocess.Popen(
            [sys.executable, "-m", "conformance.fixture", *(["--legacy"] if legacy else [])],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said_aside,
        )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        if not said:
            raise SuiteError(f"The server behind the gateway did not start: {log.read_text(encoding='utf-8')}")
        yield int(said)
    finally:
        process.terminate()
        process.wait(STOPPED_WITHIN)
        if process.stdout is not None:
            process.stdout.close()


if __name__ == "__main__":
    sys.exit(main())
