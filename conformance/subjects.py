"""The programs that the server leg runs against, each as processes in front of a fixture of its own.

Above: the legs. Below: `fixture`, the gateway, the proxies of `conformance/proxies`.
"""

import subprocess
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import uv
from msgspec import Struct

from bench.processes import KEY, running_gateway
from conformance.results import OURS
from conformance.suite import SuiteError

DIRECT, SDK_PROXY, FASTMCP = "fixture", "plain SDK proxy", "FastMCP proxy"
CONFIG = '[sources.fixture]\nkind = "mcp"\nurl = "{url}"\n'
FIXTURE_TOOLS = 20
INSTALL_SECONDS = 300
STOPPED_WITHIN = 15.0
ROOT = Path(__file__).parent.parent
PROXIES = Path(__file__).parent / "proxies"


class Target(Struct, frozen=True, kw_only=True):
    """Where to knock, and with which key."""

    url: str
    key: str = ""


class SubjectMissing(Exception):
    """This subject cannot be run here, and why."""


@contextmanager
def fixture(folder: Path, *, legacy: bool) -> Generator[Target]:
    """The server itself."""
    with _serving(folder / "fixture.log", "-m", "conformance.fixture", *(["--legacy"] if legacy else [])) as target:
        yield target


@contextmanager
def jackfield(folder: Path, *, legacy: bool) -> Generator[Target]:
    """The gateway in front of it."""
    project = folder / "project"
    project.mkdir()
    with fixture(folder, legacy=legacy) as upstream:
        (project / "jackfield.toml").write_text(CONFIG.format(url=upstream.url), encoding="utf-8")
        with running_gateway(project, tools=FIXTURE_TOOLS) as gateway:
            yield Target(url=f"http://127.0.0.1:{gateway.port}/mcp", key=KEY)


@contextmanager
def sdk_proxy(folder: Path, *, legacy: bool) -> Generator[Target]:
    """A server and a client of the Python SDK, back to back."""
    with fixture(folder, legacy=legacy) as upstream, proxy(SDK_PROXY, upstream.url, folder) as target:
        yield target


@contextmanager
def fastmcp(folder: Path, *, legacy: bool) -> Generator[Target]:
    """FastMCP's proxy as its documentation makes it, in an environment of its own."""
    with fixture(folder, legacy=legacy) as upstream, proxy(FASTMCP, upstream.url, folder) as target:
        yield target


@contextmanager
def proxy(name: str, url: str, folder: Path, *more: str) -> Generator[Target]:
    """One of the other proxies, in front of the server at this URL."""
    program = (str(PROXIES / "fast.py"),) if name == FASTMCP else ("-m", "conformance.proxies.plain")
    with _serving(folder / "proxy.log", *program, url, *more, python=proxy_python(name)) as target:
        yield target


def proxy_python(name: str) -> str:
    """The Python that runs it: our own, or that of an environment which uv makes where it is missing."""
    return _script_python(PROXIES / "fast.py") if name == FASTMCP else sys.executable


@contextmanager
def _serving(log: Path, *arguments: str, python: str = sys.executable) -> Generator[Target]:
    """A Python program that prints its port and serves; what else it says goes to the log."""
    with log.open("wb") as said_aside:
        process = subprocess.Popen(
            [python, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said_aside
        )
    try:
        assert process.stdout is not None
        port = process.stdout.readline()
        if not port:
            raise SuiteError(f"{' '.join(arguments)} did not start: {log.read_text(encoding='utf-8')}")
        yield Target(url=f"http://127.0.0.1:{int(port)}/mcp")
    finally:
        process.terminate()
        try:
            process.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOPPED_WITHIN)
        if process.stdout is not None:
            process.stdout.close()


def _script_python(script: Path) -> str:
    """The Python of the environment that a script asks for; uv makes it where it is missing."""
    try:
        for command in (("sync", "--quiet"), ("python", "find")):
            said = subprocess.run(
                [uv.find_uv_bin(), *command, "--script", str(script)],
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
                check=True,
            )
    except (OSError, subprocess.SubprocessError) as fault:
        why = (getattr(fault, "stderr", None) or str(fault)).strip()
        sys.stderr.write(f"{script.name} cannot be installed: {why}\n")
        raise SubjectMissing(why.splitlines()[-1]) from None
    return said.stdout.strip()


Running = Callable[..., AbstractContextManager[Target]]
SUBJECTS: Mapping[str, Running] = {DIRECT: fixture, OURS: jackfield, SDK_PROXY: sdk_proxy, FASTMCP: fastmcp}
