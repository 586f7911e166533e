"""What stands behind every peer, and how a peer is started before it: ports, processes, and when it is ready.

Above: `peers.py`, `contextforge.py`, `litellm.py`.
"""

import signal
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from bench.comparison.environments import PeerMissing
from bench.comparison.process_tree import Cost, cost_of
from bench.comparison.talk import Endpoint, HttpWay, StreamWay, has_answered
from bench.processes import Server, running_chat_model, running_server, stopping

RESOURCES, TOOLS = 100, 50
READY_WITHIN = 180.0
LOOK_EVERY = 0.02


class Place(Struct, frozen=True, kw_only=True):
    """The servers that all peers stand before."""

    upstream: Server
    service: Server
    model: Server
    spare: Server | None = None
    """A second MCP server, which dies once all are connected to it."""

    @property
    def urls(self) -> tuple[str, ...]:
        """Of the MCP servers."""
        servers = [self.upstream, *([self.spare] if self.spare else [])]
        return tuple(f"http://127.0.0.1:{server.port}/mcp" for server in servers)

    def stop_spare(self) -> None:
        """From now on it takes connections and answers nothing."""
        assert self.spare is not None
        self.spare.process.send_signal(signal.SIGSTOP)


class Running(Struct, frozen=True, kw_only=True):
    """A peer that has answered its first call."""

    server: Server
    endpoint: Endpoint
    http: HttpWay | None = None
    streams: tuple[StreamWay, ...] = ()
    others: Mapping[str, Server] = {}
    """Of `http` and `stream`, what is answered by another process than `server`."""

    def cost(self, what: str = "") -> Cost:
        """What its processes have cost so far."""
        return cost_of(self.others.get(what, self.server).process.pid)


@contextmanager
def standing(*, with_spare: bool) -> Generator[Place]:
    """The servers behind, from when they serve."""
    counts = (str(RESOURCES), str(TOOLS))
    with ExitStack() as open_:
        upstream = open_.enter_context(running_server("-m", "bench.proxies.upstream", *counts))
        service = open_.enter_context(running_server("-m", "bench.comparison.service"))
        model = open_.enter_context(running_chat_model())
        spare = None
        if with_spare:
            spare = open_.enter_context(running_server("-m", "bench.proxies.upstream", "0", str(TOOLS), "spare"))
            open_.callback(spare.process.send_signal, signal.SIGCONT)  # a stopped process does not end
        yield Place(upstream=upstream, service=service, model=model, spare=spare)


@contextmanager
def serving(command: list[str | Path], folder: Path, port: int, environment: Mapping[str, str]) -> Generator[Server]:
    """A program that serves on a port that it was told; what it says goes to `log` in its folder."""
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    with stopping(process):
        yield Server(process, port)


def wait_for(running: Running, folder: Path) -> Running:
    """Until it has answered a call of the tool."""
    end, process = time.monotonic() + READY_WITHIN, running.server.process
    while time.monotonic() < end and process.poll() is None:
        if has_answered(running.endpoint):
            return running
        time.sleep(LOOK_EVERY)
    log = folder / "log"
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:] if log.exists() else []
    ended = f"ended with {process.returncode}" if process.poll() is not None else f"took longer than {READY_WITHIN:g} s"
    raise PeerMissing(f"could not be started: it {ended}. It said: {' '.join(said)[:300]}")


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
