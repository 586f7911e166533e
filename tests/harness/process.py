"""A real gateway process for stories: `jackfield serve` in a folder of its own, on a free port, stopped by its pid.

    gateway = start_gateway(tmp_path, 'sources.local = { kind = "files", path = "tools/*.py" }')
    httpx2.get(f"{gateway.url}/api/v1/tools", headers=gateway.headers)
    gateway.kill()                                  # kill -9
    gateway = start_gateway(tmp_path)               # the same folder, data and port again
    gateway.stop()

`running_gateway(...)` is the same as a context manager. Tests that need no special config take the fixture
`gateway_project` (conftest.py here), a gateway that serves `DEFAULT_CONFIG` and `DEFAULT_TOOLS`.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TypeVar

import msgspec

from tests.harness.fork_server import Process, start_cli
from tests.waiting import eventually

T = TypeVar("T")

START_WITHIN = 30.0
STOP_WITHIN = 15.0

DEFAULT_CONFIG = """\
[scenario]
name = "story"

[[categories]]
id = "maths"
name = "Maths"

[sources.local]
kind = "files"
path = "tools/*.py"

[sources.local.tools.add]
category = "maths"

[sources.local.tools.guarded]
metadata = { requires_approval = true }

[[tools]]
name = "confirm"
description = "Give the arguments back as they are."
inputSchema = { type = "object", properties = { question = { type = "string" } }, required = ["question"] }
executionType = "internal"
"""

DEFAULT_TOOLS = '''\
"""Tools of every temper, for stories."""

import asyncio


def echo(text: str) -> str:
    """Say the text again."""
    return text


def add(a: int, b: int = 1) -> int:
    """Add two whole numbers.

    The second one is 1 unless you say otherwise.
    """
    return a + b


def shapes(flag: bool, ratio: float, names: list[str], options: dict[str, int] | None = None) -> dict:
    """Give every argument back, by name."""
    return {"flag": flag, "ratio": ratio, "names": names, "options": options}


def nothing() -> None:
    """Answer null."""


def boom(reason: str = "no reason") -> str:
    """Fail, always."""
    raise ValueError(reason)


async def wait(seconds: float = 60) -> str:
    """Answer after a while."""
    await asyncio.sleep(seconds)
    return "done waiting"


async def steps(ctx, count: int = 3) -> int:
    """Tell every step."""
    for step in range(count):
        ctx.progress(step + 1, count, f"step {step + 1}")
        await asyncio.sleep(0)
    return count


def guarded(amount: int) -> int:
    """Only with a person's consent."""
    return amount
'''


@dataclass(frozen=True, kw_only=True)
class RunningGateway:
    """One `jackfield serve` process that has said it is ready."""

    url: str
    key: str
    folder: Path
    port: int
    process: Process = field(repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to talk to this gateway: a clean environment with its url and key."""
        return clean_environment({"JACKFIELD_URL": self.url, "JACKFIELD_KEY": self.key})

    @property
    def printed(self) -> str:
        """What it has printed so far (stdout)."""
        return (self.folder / "gateway.out").read_text(encoding="utf-8")

    @property
    def log(self) -> str:
        """What it has logged so far (stderr)."""
        return (self.folder / "gateway.log").read_text(encoding="utf-8")

    def stop(self) -> int:
        """Ask it to end (SIGTERM) and give its exit code. Harmless when it is gone already."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the gateway did not end within {STOP_WITHIN} s of SIGTERM:\n{self.log}") from None

    def kill(self) -> None:
        """kill -9, as a power cut would. Harmless when it is gone already."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_WITHIN)


def start_gateway(
    folder: Path,
    config_text: str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    args: tuple[str, ...] = (),
    within: float = START_WITHIN,
) -> RunningGateway:
    """Write the project into `folder`, run `jackfield serve` there and wait until it is ready.

    Without `config_text` the folder is served as it is, on the port it had before, so that a restart is just
    `start_gateway(folder)`. Ready means: `/readyz` is 200 and no source is starting any more (one may be down).
    """
    for name, text in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if config_text is not None:
        (folder / "jackfield.toml").write_text(config_text, encoding="utf-8")
    given = dict(env or {})
    port = int(given.setdefault("JACKFIELD_PORT", str(_port_of(folder))))
    process = _spawn(folder, given, args)
    url = f"http://127.0.0.1:{port}"
    try:
        key_file = folder / given.get("JACKFIELD_DATA", ".jackfield") / "admin.key"

        def key_now() -> str:
            return given.get("JACKFIELD_ADMIN_KEY") or _first_line(key_file)

        _wait_until_ready(process, port, folder, key=key_now, within=within)
        key = key_now()
    except BaseException:
        process.kill()
        process.wait(STOP_WITHIN)
        raise
    return RunningGateway(url=url, key=key, folder=folder, port=port, process=process)


@contextmanager
def running_gateway(
    folder: Path,
    config_text: str | None = None,
    *,
    env: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    args: tuple[str, ...] = (),
) -> Iterator[RunningGateway]:
    """`start_gateway`, and the process gone at the end, whatever the test did with it."""
    gateway = start_gateway(folder, config_text, env=env, files=files, args=args)
    try:
        yield gateway
    finally:
        gateway.kill() if sys.exc_info()[0] else gateway.stop()


@contextmanager
def default_gateway(folder: Path) -> Iterator[RunningGateway]:
    """The handy project, served."""
    with running_gateway(folder, DEFAULT_CONFIG, files={"tools/story.py": DEFAULT_TOOLS}) as gateway:
        yield gateway


def run_cli(
    *args: str,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    timeout: float = 60,
) -> "subprocess.CompletedProcess[str]":
    """One `jackfield …` command to its end, in a clean environment, outside a terminal."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write((stdin or "").encode())
        given.seek(0)
        files = {"stdin": given.fileno(), "stdout": out.fileno(), "stderr": err.fileno()}
        process = start_cli(args, cwd=cwd, env=clean_environment(env), **files)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        printed, said = (_text_of(file) for file in (out, err))
    return subprocess.CompletedProcess(["jackfield", *args], code, printed, said)


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any JACKFIELD_* variable, plus `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JACKFIELD_")}
    return {**kept, **(extra or {})}


def free_port() -> int:
    """A TCP port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _port_of(folder: Path) -> int:
    """The port this folder's gateway had before, else a free one, written down for the next start."""
    note = folder / "gateway.port"
    if not note.exists():
        note.write_text(str(free_port()), encoding="utf-8")
    return int(note.read_text(encoding="utf-8"))


def _spawn(folder: Path, env: Mapping[str, str], args: tuple[str, ...]) -> Process:
    with (
        Path(os.devnull).open("rb") as nothing,
        (folder / "gateway.out").open("ab") as out,
        (folder / "gateway.log").open("ab") as log,
    ):
        return start_cli(
            ("serve", *args),
            cwd=folder,
            env=clean_environment(env),
            stdin=nothing.fileno(),
            stdout=out.fileno(),
            stderr=log.fileno(),
        )


def _wait_until_ready(process: Process, port: int, folder: Path, *, key: Callable[[], str], within: float) -> None:
    def ready() -> bool:
        if process.poll() is not None:
            said = (folder / "gateway.log").read_text(encoding="utf-8")
            raise AssertionError(f"'jackfield serve' ended with exit code {process.returncode}:\n{said}")
        try:
            status, body = _get(port, "/readyz", key())
        except (OSError, HTTPException, FileNotFoundError, IndexError):
            return False
        sources = msgspec.json.decode(body).get("sources", [])
        return status == 200 and not any(source["status"] == "starting" for source in sources)

    try:
        eventually(ready, within=within)
    except AssertionError as fault:
        said = (folder / "gateway.log").read_text(encoding="utf-8")
        raise AssertionError(f"{fault}\nthe gateway's log:\n{said}") from None


def _get(port: int, path: str, key: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers={"x-api-key": key})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0].strip()
