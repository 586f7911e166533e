"""A command in namespaces of its own: nothing of the machine but what it was given.

Three processes. The *holder*, which the minder knows: it makes the namespaces, waits, and ends as the program ended.
The *first* process inside, whose end ends all others there: it builds the file system and collects the orphans. The
program. Holder and first have no capability left and no descriptor of the program's.
Above: `command.py`. Below: `mounts.py`, `kernel.py`.
"""

import fcntl
import os
import resource
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from . import kernel
from .mounts import take_root, trying
from .tree import be_called, die_with_parent
from .wire import Namespaces

HOST_NAME = "sandbox"
USER_FOR_ROOT = 1000
"""Inside, root is an ordinary user."""
LOST = 127
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def enter_namespaces(wanted: Namespaces, *, told: int) -> None:
    """Returns in the process that is to become the program; the two others end in here. Raises `Refusal`."""
    with trying("making namespaces"):
        _unshare(network=wanted["network"])
    ended, tell_end = os.pipe()
    with trying("beginning a process"):
        first = os.fork()
    if first:
        os.close(tell_end)
        _hold(first, ended=ended, told=told)
    os.close(ended)
    die_with_parent()
    take_root(wanted)
    _make_machine(network=wanted["network"])
    with trying("giving its capabilities away"):
        kernel.gain_no_privileges()
        kernel.drop_capabilities()
        kernel.be_untouchable()  # until the program runs, which is touchable again
    with trying("beginning a process"):
        program = os.fork()
    if program:
        _be_first(program, tell_end=tell_end, told=told)
    os.close(tell_end)
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
    die_with_parent()  # new credentials may have cancelled it
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{user or USER_FOR_ROOT} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{group or USER_FOR_ROOT} {group} 1", encoding="ascii")


def _make_machine(*, network: bool) -> None:
    with suppress(OSError):
        kernel.set_host_name(HOST_NAME)
    if not network:
        # Programs that speak with themselves over 127.0.0.1 may; it leads nowhere else.
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


def _hold(first: int, *, ended: int, told: int) -> NoReturn:
    """Wait until all is over, and end as the program did. Only force ends it sooner: SIGTERM is the program's."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    be_called("jf-sandbox")
    _close(0, 1, 2, told)
    with suppress(OSError):
        kernel.drop_capabilities()
    _, status = os.waitpid(first, 0)
    said = os.read(ended, 16)
    _end_as(os.waitstatus_to_exitcode(int(said) if said else status))


def _end_as(code: int) -> NoReturn:
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError, ValueError):  # SIGKILL and the like have no other way
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else LOST)


def _be_first(program: int, *, tell_end: int, told: int) -> NoReturn:
    """The parent of all orphans in here. When it ends, the kernel ends all others."""
    _close(0, 1, 2, told)
    while True:
        pid, status = os.wait()
        if pid == program:
            os.write(tell_end, str(status).encode())
            os._exit(0)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
