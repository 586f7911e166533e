"""Starts a worker process: takes over stdin and stdout, imports the tool file, serves until the gateway goes."""

from __future__ import annotations

import asyncio
import faulthandler
import fcntl
import gc
import importlib.util
import json
import os
import pathlib
import re
import runpy
import select
import signal
import socket
import stat
import sys
import threading
import types
import typing
from collections.abc import Callable
from typing import Any

from .call import write_traceback
from .channel import READ_BYTES, GatewayChannel
from .dispatcher import Dispatcher
from .encoding import describe_error, json_string

PROTOCOL = 1
"""Sent in the READY line; another number means that gateway and worker do not fit."""
DEFAULT_THREADS = 16
SWITCH_SECONDS = 0.001
"""How long a busy thread may keep the loop waiting; Python's own five milliseconds are felt in every call."""


_state = types.SimpleNamespace(serving=False)


def worker_main() -> None:
    """Serve the calling file's public functions on stdin and stdout. Does nothing when the gateway imports the file."""
    if _state.serving:
        return
    _serve_namespace(sys._getframe(1).f_globals)  # noqa: SLF001 - the only way to the caller's functions


def _serve(path: str, options: dict[str, Any]) -> None:
    """Import the file, say READY, answer calls until the gateway goes."""
    _state.serving = True
    channel = _take_channel()
    asyncio.set_event_loop(channel.loop)
    dispatcher = Dispatcher(channel, threads=options.get("threads", DEFAULT_THREADS))
    _close_in_children(channel, dispatcher)
    try:
        dispatcher.namespace = _import_file(path, options).__dict__
    except BaseException as error:  # noqa: BLE001 - the border to a tool file
        write_traceback(f"{pathlib.PurePath(path).name} could not be loaded", error)
        channel.send_now(f'{{"ready":false,"error":{json_string(_load_error(error, path))}}}\n'.encode())
        os._exit(1)
    gc.freeze()
    channel.send(f'{{"ready":true,"protocol":{PROTOCOL},"pid":{os.getpid()}}}\n'.encode())
    channel.open(dispatcher.handle, exit_now)
    _run_forever(dispatcher)


def _load_error(error: BaseException, path: str) -> str:
    """What went wrong while the file was loaded, and in which of its lines."""
    line, trace = None, error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == path else line
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == path:
        line = error.lineno
    said = describe_error(error)
    return said if line is None else f"line {line}: {said}"


def _serve_namespace(namespace: dict[str, Any]) -> None:
    """On the gateway's socket as `_serve`; on pipes, answer every request, then return."""
    if _is_channel():
        channel = _take_channel()
        dispatcher = Dispatcher(channel, threads=DEFAULT_THREADS)
        dispatcher.namespace = namespace
        _close_in_children(channel, dispatcher)
        channel.open(dispatcher.handle, exit_now)
        _run_forever(dispatcher)
    ours, theirs = socket.socketpair()
    channel = GatewayChannel(ours, on_lost=exit_now)
    dispatcher = Dispatcher(channel, threads=DEFAULT_THREADS)
    dispatcher.namespace = namespace
    requests, out = _take_streams()
    answers = _pump(theirs, requests, out)
    channel.open(dispatcher.handle, dispatcher.end_when_idle)
    dispatcher.run()
    channel.send_now(b"")
    channel.shut()
    answers.join()
    os.dup2(out, 1)


def _run_forever(dispatcher: Dispatcher) -> typing.NoReturn:
    while True:
        try:
            dispatcher.run()
        except KeyboardInterrupt:
            continue  # a task of the tool; the gateway ends a worker by other means
        except BaseException as error:  # noqa: BLE001 - a loop that is broken (its descriptors closed) must end
            write_traceback("The worker's loop failed", error)
            os._exit(1)


def _is_channel() -> bool:
    """Whether fd 0 and fd 1 are one socket, as the gateway passes them."""
    first, second = os.fstat(0), os.fstat(1)
    return stat.S_ISSOCK(first.st_mode) and first.st_ino == second.st_ino


def _take_streams() -> tuple[int, int]:
    """Move stdin and stdout to private descriptors. From then on stdin is empty, and stdout is the log: for `print`,
    for C code and for child processes.
    """
    ours = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    for stream in (sys.stdout, sys.stderr):
        typing.cast("Any", stream).reconfigure(line_buffering=True, errors="backslashreplace")
    return ours


def _take_channel() -> GatewayChannel:
    descriptor, same = _take_streams()
    os.close(same)
    connection = socket.socket(fileno=descriptor)
    faulthandler.enable()
    sys.setswitchinterval(SWITCH_SECONDS)
    threading.Thread(
        target=_exit_with_gateway, args=(connection.fileno(),), name="jackfield-lifeline", daemon=True
    ).start()
    return GatewayChannel(connection, on_lost=exit_now)


def _exit_with_gateway(descriptor: int) -> None:
    """Wait in a thread for the gateway's end to close: a tool that blocks the loop must not outlive it."""
    lifeline = select.poll()
    lifeline.register(descriptor, 0)
    lifeline.poll()
    exit_now()


def exit_now() -> None:
    """The gateway is gone or has closed the channel: end this process and its group."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def _close_in_children(channel: GatewayChannel, dispatcher: Dispatcher) -> None:
    def in_child() -> None:
        dispatcher.is_forked = True
        channel.abandon()

    os.register_at_fork(after_in_child=in_child)


def _pump(connection: socket.socket, requests: int, out: int) -> threading.Thread:
    """Copy stdin to the socket and the socket to stdout. Returns the thread that ends with the last answer."""

    def forward_requests() -> None:
        while data := os.read(requests, READ_BYTES):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)

    def forward_answers() -> None:
        while data := connection.recv(READ_BYTES):
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(out, rest) :]

    answers = threading.Thread(target=forward_answers, daemon=True)
    threading.Thread(target=forward_requests, daemon=True).start()
    answers.start()
    return answers


def _import_file(path: str, options: dict[str, Any]) -> types.ModuleType:
    stem = pathlib.PurePath(path).stem
    name = stem if _is_free(stem) else f"jackfield_tool_file_{re.sub(r'[^a-zA-Z0-9_]', '_', stem)}"
    _extend_path(options)
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{pathlib.PurePath(path).name} is not a Python file. Give it the extension .py.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    sys.argv = [path]
    specification.loader.exec_module(module)
    return module


def _is_free(stem: str) -> bool:
    """Whether the file's name is free as a module name: `email.py` must not become Python's `email`."""
    return stem.isidentifier() and stem not in sys.modules and importlib.util.find_spec(stem) is None


def _extend_path(options: dict[str, Any]) -> None:
    """The file's own folder and this package's come last, so that no file in them shadows a package."""
    here = str(pathlib.Path(__file__).resolve().parents[1])
    last = [here, str(options["folder"])] if options.get("folder") else [here]
    sys.path[:] = [entry for entry in sys.path if entry and str(pathlib.Path(entry).resolve()) not in last] + last


def _run_script(path: str, options: dict[str, Any]) -> None:
    _extend_path(options)
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")


def start(arguments: list[str]) -> None:
    """What the command line asks for: `serve` or `script`."""
    sys.modules["ot_sdk"] = sys.modules["jackfield_tool"]
    usage = "Usage: jackfield_tool serve|script FILE [--options JSON]"
    modes: dict[str, Callable[[str, dict[str, Any]], None]] = {"serve": _serve, "script": _run_script}
    if len(arguments) not in (2, 4) or arguments[0] not in modes or arguments[2:3] not in ([], ["--options"]):
        raise SystemExit(usage)
    options = json.loads(arguments[3]) if len(arguments) > 2 else {}  # noqa: PLR2004 - the options' place
    modes[arguments[0]](arguments[1], options)
