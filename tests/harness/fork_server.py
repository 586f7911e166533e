"""Starts `jackfield` processes by forking one that has imported everything already.

`jackfield serve` spends 0.7 s of CPU on imports before it does anything, and the stories start hundreds of gateways and
commands. The fork server imports once, in a process with one thread; each start is a fork of it with its own pid,
open files, environment, folder and exit code, and can be killed like any other process.

Below: the module itself, run as `python -m tests.harness.fork_server FD`. Stories about the command line as such start
`python -m jackfield.cli` themselves. `TESTS_FORK=0` starts everything that way.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Protocol, TypedDict

START_SECONDS = 60.0
MOST_BYTES = 1 << 20
MOST_FILES = 1 << 16
NUMBER = struct.Struct("q")
# What an interpreter reads only when it starts.
READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG")

# The gateway, and what uvicorn imports when it starts one.
ALSO_IMPORTED = (
    "jackfield.gateway.server",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)


class Process(Protocol):
    """The part of `subprocess.Popen` that stories use."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


def start_cli(
    arguments: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], stdin: int, stdout: int, stderr: int
) -> Process:
    """Run `jackfield` with these arguments in `cwd`; the files are descriptors."""
    if _can_fork(env):
        return _server().start(arguments, cwd=cwd, env=env, files=(stdin, stdout, stderr))
    return subprocess.Popen(
        [sys.executable, "-m", "jackfield.cli", *arguments],
        cwd=cwd,
        env={"PYTHONUNBUFFERED": "1", **env},
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
    )


def _can_fork(env: Mapping[str, str]) -> bool:
    names = {name for name in {*env, *os.environ} if name.startswith(READ_AT_START)}
    is_same = all(env.get(name) == os.environ.get(name) for name in names)
    return sys.platform == "linux" and is_same and os.environ.get("TESTS_FORK") != "0"


class ForkedProcess:
    """A process that the fork server started and reaps; its exit code arrives through a pipe."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(["jackfield"], timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            said = os.read(self._status, NUMBER.size)
            os.close(self._status)
            assert said, "the fork server is gone"
            (self.returncode,) = NUMBER.unpack(said)
        return self.returncode


class ForkServer:
    """The client's side: one server process, which ends when this side of its channel is closed."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.fork_server", str(theirs.fileno())],
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.close)

    def start(
        self, arguments: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], files: tuple[int, int, int]
    ) -> ForkedProcess:
        status, theirs = os.pipe()
        request = Request(arguments=list(arguments), cwd=str(cwd), env=dict(env))
        socket.send_fds(self._channel, [json.dumps(request).encode()], [*files, theirs])
        os.close(theirs)
        assert select.select([status], [], [], START_SECONDS)[0], "the fork server does not answer"
        said = os.read(status, NUMBER.size)
        assert said, "the fork server failed"
        return ForkedProcess(NUMBER.unpack(said)[0], status)

    def close(self) -> None:
        self._channel.close()
        self._process.wait(START_SECONDS)


@cache
def _server() -> ForkServer:
    return ForkServer()


class Request(TypedDict):
    """What is to run."""

    arguments: list[str]
    cwd: str
    env: dict[str, str]


def _serve(channel: socket.socket) -> tuple[Request, list[int]] | None:
    """Fork for each request. Returns the request in the forked process, and None in the server when it is to end."""
    ends: dict[int, tuple[int, int]] = {}
    while True:
        for ready in select.select([channel.fileno(), *ends], [], [])[0]:
            if ready in ends:
                pid, status = ends.pop(ready)
                os.close(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                os.write(status, NUMBER.pack(code))
                os.close(status)
                continue
            data, files, _, _ = socket.recv_fds(channel, MOST_BYTES, 4)
            if not data:
                return None
            pid = os.fork()
            if pid == 0:
                return json.loads(data), files
            os.write(files[3], NUMBER.pack(pid))
            ends[os.pidfd_open(pid)] = pid, files[3]
            for file in files[:3]:
                os.close(file)


def _become(request: Request, files: list[int]) -> None:
    """Turn the forked process into the one that was asked for."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.closerange(3, MOST_FILES)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.path[0] = request["cwd"]
    sys.argv = ["jackfield", *request["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _import_all() -> None:
    commands = importlib.import_module("jackfield.cli")
    for command in pkgutil.iter_modules(commands.__path__):
        if not command.name.startswith("__"):
            importlib.import_module(f"jackfield.cli.{command.name}")
    for module in ALSO_IMPORTED:
        importlib.import_module(module)
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, "a process with threads cannot be forked safely"
    gc.collect()
    gc.freeze()


def _end(code: int) -> None:
    """End as an interpreter does, but leave the memory to the system: freeing it would copy what all forks share."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    asked = _serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is None:
        return 0
    _become(*asked)
    code: int = importlib.import_module("jackfield.cli.main").main()
    _end(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
