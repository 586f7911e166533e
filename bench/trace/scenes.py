"""The four calls that are traced, each made of a gateway that runs for it and is warm.

Above: `__main__`. Below: `recorder` in a process of the checkout's own interpreter, an MCP server made with the SDK,
and `model`. Of the checkout nothing is used but its `jackfield` command, its config file and its HTTP API.
"""

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from bench.processes import BenchError, running_server

KEY = "key-of-the-trace"
READY_WITHIN = 60.0
WARM_UP = 5
TIMES = 20
"""How often a call is traced. The shortest turn counts, because no timer went off during it."""
USUAL = 0.75
"""A function that no timer runs and that ran in so many of the turns: a turn without it was cut short."""
RECORDER = Path(__file__).with_name("recorder.py")
LEGACY = "2025-11-25"

IN_PROCESS = '''\
"""Runs in the gateway."""


async def echo(text: str, count: int) -> dict:
    """Give the arguments back."""
    return {"text": text, "count": count}
'''
WORKER = '''\
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Runs in a worker."""


async def echo_in_worker(text: str, count: int) -> dict:
    """Give the arguments back."""
    return {"text": text, "count": count}
'''
CONFIG = """\
[sources.local]
kind = "files"
path = "tools/*.py"

[sources.upstream]
kind = "mcp"
url = "http://127.0.0.1:{upstream}/mcp"
prefix = "up_"

[models.default]
provider = "openai"
base_url = "http://127.0.0.1:{model}/v1"
model = "tiny"

[[tools]]
name = "ask"
description = "Answered later, by somebody else."
executionType = "external"
isAsync = true
visible = false
inputSchema = {{ type = "object" }}

[agents.tester]
instructions = "Ask, then say the answer in the lobby."
spaces = ["lobby"]
"""
Act = Callable[[], None]
Scene = Callable[[], Act]
"""Makes everything ready, and gives what is traced."""
ARGUMENTS = {"text": "What should I wear in Lisbon tomorrow?", "count": 3}


class Trace(Struct, frozen=True, kw_only=True):
    """What one call passed through, of the gateway's own code."""

    functions: int
    modules: int
    package_changes: int
    """In the order in which the functions were first entered: how often the next one is of another package."""
    reads: int
    transactions: int


class Gateway:
    """A gateway that records, and requests of it."""

    def __init__(self, port: int, process: "subprocess.Popen[str]", recorded: IO[str]) -> None:
        self._port = port
        self._process = process
        self._recorded = recorded

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> "Reply":
        """One request with the gateway's key."""
        given = {"x-api-key": KEY, "content-type": "application/json", **(headers or {})}
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=30)) as connection:
            connection.request(method, path, None if body is None else msgspec.json.encode(body), given)
            answer = connection.getresponse()
            return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def trace(self, act: Act) -> Any:
        """What the recorder saw of the act and of all that followed it."""
        self._tell("start")
        act()
        return self._tell("stop")

    def learn_idle(self) -> None:
        """Let the recorder see what the gateway does when nobody asks."""
        self._tell("idle")

    def _tell(self, command: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        line = self._recorded.readline()
        if not line:
            raise BenchError("The traced gateway ended.")
        return json.loads(line)


class Reply(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.content)

    def needs(self, status: int) -> "Reply":
        if self.status != status:
            raise BenchError(f"The answer was {self.status}, not {status}: {self.content.decode(errors='replace')}")
        return self


def measure(checkout: Path, folder: Path, *, listing: Path | None = None) -> dict[str, Trace]:
    """The traces by the letter of their call. With `listing` a folder, the functions are written there too."""
    with ExitStack() as stack:
        upstream = stack.enter_context(running_server("-m", "bench.proxies.upstream"))
        model = stack.enter_context(running_server("-m", "bench.trace.model"))
        _write_project(folder, CONFIG.format(upstream=upstream.port, model=model.port))
        gateway = stack.enter_context(_running(checkout, folder))
        gateway.learn_idle()
        over_mcp = _calling_over_mcp(gateway)
        scenes: dict[str, Scene] = {
            "a": lambda: partial(_execute, gateway, "echo"),
            "b": lambda: over_mcp,
            "c": lambda: partial(_answer, gateway, _pending_call(gateway), 42),
            "c0": lambda: partial(_answer, gateway, _pending_call(gateway), 0),
            "d": lambda: partial(_execute, gateway, "echo_in_worker"),
        }
        return {letter: _trace(gateway, letter, scene, listing) for letter, scene in scenes.items()}


def _trace(gateway: Gateway, letter: str, scene: Scene, listing: Path | None) -> Trace:
    """The shortest of many turns that lacks nothing. What has to happen before a turn is not traced."""
    turns = [gateway.trace(scene()) for _ in range(WARM_UP + TIMES)][WARM_UP:]
    counts = Counter(name for turn in turns for name in set(turn["asked_for"]))
    usual = {name for name, count in counts.items() if count >= len(turns) * USUAL}
    whole = [turn for turn in turns if usual <= set(turn["asked_for"])]
    chosen = min(whole or turns, key=lambda turn: len(turn["functions"]) + turn["reads"] + turn["transactions"])
    if listing is not None:
        listing.mkdir(parents=True, exist_ok=True)
        lines = [f"{file}:{line} {name}\n" for file, line, name in chosen["functions"]]
        (listing / f"{letter}.txt").write_text("".join(lines), encoding="utf-8")
    packages = [file.split("/")[0] for file, _, _ in chosen["functions"]]
    return Trace(
        functions=len(chosen["functions"]),
        modules=len({file for file, _, _ in chosen["functions"]}),
        package_changes=sum(one != other for one, other in pairwise(packages)),
        reads=chosen["reads"],
        transactions=chosen["transactions"],
    )


def _execute(gateway: Gateway, tool: str) -> None:
    answer = gateway.ask("POST", f"/api/v1/tools/{tool}/execute", {"arguments": ARGUMENTS}).needs(200).json
    if answer["result"] != ARGUMENTS:
        raise BenchError(f"{tool} did not give its arguments back: {answer}")


def _calling_over_mcp(gateway: Gateway) -> Act:
    """A call in a session that is open."""
    headers = {"accept": "application/json, text/event-stream"}
    opening = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "trace", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}
    session = gateway.ask("POST", "/mcp", hello, headers).needs(200).headers["mcp-session-id"]
    headers |= {"mcp-session-id": session, "mcp-protocol-version": LEGACY}
    gateway.ask("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers).needs(202)
    params = {"name": "up_echo", "arguments": ARGUMENTS}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    def act() -> None:
        answer = gateway.ask("POST", "/mcp", call, headers).needs(200)
        if b"Lisbon" not in answer.content or b'"isError":true' in answer.content:
            raise BenchError(f"The upstream tool did not answer: {answer.content.decode()}")

    return act


def _pending_call(gateway: Gateway) -> Mapping[str, str]:
    """The call that the agent has made and sleeps over."""
    gateway.ask("POST", "/api/agents/tester/trigger", {"serviceName": "trace", "payload": "Ask."}).needs(200)

    gateway.trace(lambda: None)  # until it has nothing more to do

    def found() -> Mapping[str, str] | None:
        calls = gateway.ask("GET", "/api/v1/calls?tool=ask&status=pending").needs(200).json["calls"]
        return calls[0] if calls and _cycles_are_over(gateway) else None

    pending: Mapping[str, str] = _until(found)
    return pending


def _cycles_are_over(gateway: Gateway) -> bool:
    cycles = gateway.ask("GET", "/api/agents/tester/cycles?limit=1").needs(200).json["cycles"]
    return bool(cycles) and cycles[0]["status"] == "done"


def _answer(gateway: Gateway, call: Mapping[str, str], result: int) -> None:
    body = {"callId": call["id"], "result": {"answer": result}}
    gateway.ask("POST", f"/api/runs/{call['run_id']}/tool-results", body).needs(200)


def _until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + READY_WITHIN
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise BenchError(f"What was waited for did not happen within {READY_WITHIN:g} s.")


def _write_project(folder: Path, config: str) -> None:
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "here.py").write_text(IN_PROCESS, encoding="utf-8")
    (folder / "tools" / "worker.py").write_text(WORKER, encoding="utf-8")
    (folder / "jackfield.toml").write_text(config, encoding="utf-8")


@contextmanager
def _running(checkout: Path, folder: Path) -> Generator[Gateway]:
    """The checkout's gateway under the recorder, from when it is ready."""
    reading, writing = os.pipe()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JACKFIELD_")}
    with (folder / "gateway.log").open("wb") as log:
        process = subprocess.Popen(
            [checkout / ".venv" / "bin" / "python", RECORDER, str(writing), "serve"],
            cwd=folder,
            env={**kept, "JACKFIELD_PORT": "0", "JACKFIELD_ADMIN_KEY": KEY, "PYTHONPATH": str(checkout / "src")},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(writing,),
            text=True,
        )
    os.close(writing)
    try:
        with os.fdopen(reading) as recorded:
            yield Gateway(_port(process, folder), process, recorded)
    finally:
        process.terminate()
        process.wait(15)
        assert process.stdin is not None
        process.stdin.close()


def _port(process: "subprocess.Popen[str]", folder: Path) -> int:
    note = folder / ".jackfield" / "gateway.json"

    def found() -> int | None:
        if process.poll() is not None:
            raise BenchError(f"The gateway ended: {(folder / 'gateway.log').read_text(encoding='utf-8')}")
        try:
            port = int(msgspec.json.decode(note.read_bytes())["url"].rpartition(":")[2])
            with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
                connection.request("GET", "/readyz", headers={"x-api-key": KEY})
                ready = connection.getresponse()
                sources = msgspec.json.decode(ready.read()).get("sources", [])
        except (OSError, msgspec.DecodeError):
            return None
        return port if ready.status == 200 and all(source["status"] == "up" for source in sources) else None

    return int(_until(found))
