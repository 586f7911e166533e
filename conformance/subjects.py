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

from bench.processes import KEY, running_gateway, running_server
from conformance.results import OURS

DIRECT, SDK_PROXY, FASTMCP = "fixture", "plain SDK proxy", "FastMCP proxy"
CONFIG = '[sources.fixture]\nkind = "mcp"\nurl = "{url}"\n'
FIXTURE_TOOLS = 20
INSTALL_SECONDS = 300
PROXIES = Path(__file__).parent / "proxies"


class Target(Struct, frozen=True, kw_only=True):
    """Where to knock, and with which key."""

    url: str
    key: str = ""


class SubjectMissing(Exception):
    """This subject cannot be run here, and why."""


@contextmanager
def fixture(_: Path, *, legacy: bool) -> Generator[Target]:
    """The server itself."""
    with running_server("-m", "conformance.fixture", *(["--legacy"] if legacy else [])) as server:
        yield Target(url=f"http://127.0.0.1:{server.port}/mcp")


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
    with (
        fixture(folder, legacy=legacy) as upstream,
        running_server("-m", "conformance.proxies.plain", upstream.url) as server,
    ):
        yield Target(url=f"http://127.0.0.1:{server.port}/mcp")


@contextmanager
def fastmcp(folder: Path, *, legacy: bool) -> Generator[Target]:
    """FastMCP's proxy as its documentation makes it, in an environment of its own."""
    script = PROXIES / "fast.py"
    python = _script_python(script)
    with (
        fixture(folder, legacy=legacy) as upstream,
        running_server(str(script), upstream.url, python=python) as server,
    ):
        yield Target(url=f"http://127.0.0.1:{server.port}/mcp")


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
