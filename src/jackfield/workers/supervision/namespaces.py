"""Runs a command in Linux namespaces of its own, with a file system built from a list of mounts.

Three processes: the *holder*, child of the monitor, makes the namespaces, waits, and exits as the program did; *init*,
the first process inside, builds the file system and reaps orphans, and its end ends all others there; the program.
Holder and init keep no capability and no descriptor of the program's.
Above: `monitor.py`. Below: `kernel.py`.
"""

import errno
import fcntl
import os
import resource
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from . import kernel
from .messages import Mount, Namespaces

HOST_NAME = "sandbox"
USER_FOR_ROOT = 1000
"""Inside, root is an ordinary user."""
LOST = 127
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
STAGE = "/tmp"  # noqa: S108 - only mounted over, and only where nobody else sees it
OLD, NEW, SCRATCH = "/old", "/new", "/scratch"
EMPTY_SIZE = "64k"
READ_ONLY_IN_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs")
"""Parts of /proc that are the machine's: root may write them even without any capability."""
HIDDEN_IN_PROC = ("kcore", "keys", "timer_list", "sched_debug")
PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV


class SetupFailed(Exception):
    """The kernel refused a step."""

    def __init__(self, step: str, errno: int) -> None:
        super().__init__(step)
        self.step = step
        self.errno = errno


@contextmanager
def _step(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SetupFailed(name, error.errno or 0) from error


def enter_namespaces(wanted: Namespaces, *, error_pipe: int) -> None:
    """Returns in the process that is to become the program; the other two never return. Raises `SetupFailed`."""
    with _step("making namespaces"):
        _unshare(network=wanted["network"])
    status_read, status_write = os.pipe()
    with _step("beginning a process"):
        init = os.fork()
    if init:
        os.close(status_write)
        _hold(init, status_read=status_read, error_pipe=error_pipe)
    os.close(status_read)
    kernel.die_with_parent()
    _build_root(wanted)
    _set_up_machine(network=wanted["network"])
    with _step("giving its capabilities away"):
        kernel.gain_no_privileges()
        kernel.drop_capabilities()
        kernel.deny_tracing()  # until the program is executed
    with _step("beginning a process"):
        program = os.fork()
    if program:
        _run_init(program, status_write=status_write, error_pipe=error_pipe)
    os.close(status_write)
    os.setsid()
    with suppress(OSError):  # not every kernel keeps keys
        kernel.leave_keyring()


def _unshare(*, network: bool) -> None:
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        with suppress(PermissionError):
            os.setgroups([])
    others = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
    kernel.unshare(kernel.CLONE_NEWUSER | others | kernel.CLONE_NEWCGROUP | (0 if network else kernel.CLONE_NEWNET))
    kernel.die_with_parent()  # new credentials may have cancelled it
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user or USER_FOR_ROOT} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group or USER_FOR_ROOT} {group} 1", encoding="ascii")


def _set_up_machine(*, network: bool) -> None:
    with suppress(OSError):
        kernel.set_host_name(HOST_NAME)
    if not network:
        # Programs may talk to themselves over 127.0.0.1; it leads nowhere else.
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


def _hold(init: int, *, status_read: int, error_pipe: int) -> NoReturn:
    """Wait for the end and exit as the program did. SIGTERM is left to the program; only SIGKILL ends this earlier."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    kernel.set_process_name("jf-sandbox")
    _close(0, 1, 2, error_pipe)
    with suppress(OSError):
        kernel.drop_capabilities()
    _, status = os.waitpid(init, 0)
    reported = os.read(status_read, 16)
    _exit_as(os.waitstatus_to_exitcode(int(reported) if reported else status))


def _exit_as(code: int) -> NoReturn:
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):  # SIGKILL cannot be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else LOST)


def _run_init(program: int, *, status_write: int, error_pipe: int) -> NoReturn:
    """The parent of all orphans inside. When it ends, the kernel kills all others."""
    _close(0, 1, 2, error_pipe)
    while True:
        pid, status = os.wait()
        if pid == program:
            os.write(status_write, str(status).encode())
            os._exit(0)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _build_root(wanted: Namespaces) -> None:
    """Build the file system and make it the root."""
    with _step("making a file system of its own"):
        _enter_stage(wanted["scratch"])
    closing = [NEW]
    for number, item in enumerate(wanted["mounts"]):
        with _step(f"showing its part of the machine: {item['at']}"):
            _mount(item, number=number)
        if item["kind"] == "empty":
            closing.append(NEW + item["at"])
    with _step("closing its file system"):
        _forbid_user_namespaces()
        for at in closing:
            kernel.restrict_mount(at, kernel.ATTR_RDONLY, recursive=False)
        kernel.unmount(OLD)
        os.chdir(NEW)
        kernel.pivot_root(".", ".")
        kernel.unmount(".")
        os.chdir("/")


def _enter_stage(scratch: int) -> None:
    """Move to a root with the machine's in `OLD`, so that nothing of it is covered while the new one is built."""
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", STAGE, kind="tmpfs", flags=PLAIN, options="mode=755")
    for folder in (OLD, NEW, SCRATCH):
        Path(STAGE + folder).mkdir()
    kernel.mount("tmpfs", STAGE + NEW, kind="tmpfs", flags=PLAIN, options="mode=755")
    kernel.mount("tmpfs", STAGE + SCRATCH, kind="tmpfs", flags=PLAIN, options=f"mode=755,size={scratch}")
    kernel.pivot_root(STAGE, STAGE + OLD)
    os.chdir("/")


def _mount(item: Mount, *, number: int) -> None:
    at, source = NEW + item["at"], OLD + item["source"]
    match item["kind"]:
        case "read":
            _bind(source, at, kernel.ATTR_RDONLY | kernel.ATTR_NOSUID | kernel.ATTR_NODEV)
        case "write":
            _bind(source, at, kernel.ATTR_NOSUID | kernel.ATTR_NODEV)
        case "device":
            _bind(source, at, kernel.ATTR_NOSUID)
        case "private":
            own = Path(SCRATCH, str(number))
            own.mkdir(mode=0o700)
            _bind(str(own), at, 0)
        case "empty":
            Path(at).mkdir(parents=True, exist_ok=True)
            kernel.mount("tmpfs", at, kind="tmpfs", flags=PLAIN, options=f"mode=755,size={EMPTY_SIZE}")
        case "text":
            Path(at).parent.mkdir(parents=True, exist_ok=True)
            Path(at).write_text(item["source"], encoding="utf-8")
        case "link":
            _link(item["source"], at)
        case "proc":
            _mount_proc(at)
        case "pts":
            Path(at).mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # terminals are optional
                kernel.mount("devpts", at, kind="devpts", options="newinstance,ptmxmode=0666,mode=620")


def _bind(source: str, at: str, attributes: int) -> None:
    if Path(source).is_dir():
        Path(at).mkdir(parents=True, exist_ok=True)
    elif not Path(at).exists():
        Path(at).parent.mkdir(parents=True, exist_ok=True)
        Path(at).touch()
    kernel.bind(source, at)
    if attributes:
        kernel.restrict_mount(at, attributes)


def _link(target: str, at: str) -> None:
    """An existing one came with the folder that holds it, which is read-only."""
    if not Path(at).is_symlink() and not Path(at).exists():
        Path(at).parent.mkdir(parents=True, exist_ok=True)
        Path(at).symlink_to(target)


def _mount_proc(at: str) -> None:
    """Of this PID namespace. A kernel that masks parts of the outer /proc refuses another: then there is none."""
    Path(at).mkdir(parents=True, exist_ok=True)
    try:
        kernel.mount("proc", at, kind="proc", flags=PLAIN | kernel.MS_NOEXEC)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        return
    for name in READ_ONLY_IN_PROC:
        if Path(at, name).exists():
            kernel.bind(f"{at}/{name}", f"{at}/{name}")
            kernel.restrict_mount(f"{at}/{name}", kernel.ATTR_RDONLY)
    for name in HIDDEN_IN_PROC:
        if Path(at, name).exists():
            kernel.bind(f"{OLD}/dev/null", f"{at}/{name}")


def _forbid_user_namespaces() -> None:
    """In a nested user namespace the program would have capabilities again."""
    with suppress(OSError):
        Path(OLD, "proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")
