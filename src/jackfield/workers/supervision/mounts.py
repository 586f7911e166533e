"""The file system of a sandbox: built in an empty one from a list, then taken as the root; the machine's is left.

Above: `namespaces.py`, in a mount namespace of its own. Below: `kernel.py`.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from . import kernel
from .wire import Mount, Namespaces

STAGE = "/tmp"  # noqa: S108 - only mounted over, and only where nobody else sees it
OLD, NEW, SCRATCH = "/old", "/new", "/scratch"
EMPTY_SIZE = "64k"
KEPT_FROM_WRITING = ("sys", "sysrq-trigger", "irq", "bus", "fs")
"""Parts of /proc that are the machine's; root's files in it obey root, also a root without any capability."""
KEPT_FROM_READING = ("kcore", "keys", "timer_list", "sched_debug")
PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV


class Refusal(Exception):
    """The kernel did not allow a step: what was tried, and its errno."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(what)
        self.what = what
        self.number = number


@contextmanager
def trying(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refusal(what, error.errno or 0) from error


def take_root(wanted: Namespaces) -> None:
    """Make this file system and stand in its root."""
    with trying("making a file system of its own"):
        _go_on_stage(wanted["scratch"])
    closing = [NEW]
    for number, item in enumerate(wanted["mounts"]):
        with trying(f"showing its part of the machine: {item['at']}"):
            _place(item, number=number)
        if item["kind"] == "empty":
            closing.append(NEW + item["at"])
    with trying("closing its file system"):
        _forbid_user_namespaces()
        for at in closing:
            kernel.restrict_mount(at, kernel.ATTR_RDONLY, recursive=False)
        kernel.unmount(OLD)
        os.chdir(NEW)
        kernel.pivot_root(".", ".")
        kernel.unmount(".")
        os.chdir("/")


def _go_on_stage(scratch: int) -> None:
    """A root that holds the machine's in `OLD`, so that nothing of it is covered while the new one is built."""
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", STAGE, kind="tmpfs", flags=PLAIN, options="mode=755")
    for folder in (OLD, NEW, SCRATCH):
        Path(STAGE + folder).mkdir()
    kernel.mount("tmpfs", STAGE + NEW, kind="tmpfs", flags=PLAIN, options="mode=755")
    kernel.mount("tmpfs", STAGE + SCRATCH, kind="tmpfs", flags=PLAIN, options=f"mode=755,size={scratch}")
    kernel.pivot_root(STAGE, STAGE + OLD)
    os.chdir("/")


def _place(item: Mount, *, number: int) -> None:
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
            with suppress(OSError):  # terminals are nice to have
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
    """One that is there already came with the folder that holds it, which cannot be written."""
    if not Path(at).is_symlink() and not Path(at).exists():
        Path(at).parent.mkdir(parents=True, exist_ok=True)
        Path(at).symlink_to(target)


def _mount_proc(at: str) -> None:
    """Of this process namespace. A machine that hides parts of its own /proc allows no other: then there is none."""
    Path(at).mkdir(parents=True, exist_ok=True)
    try:
        kernel.mount("proc", at, kind="proc", flags=PLAIN | kernel.MS_NOEXEC)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        return
    for name in KEPT_FROM_WRITING:
        if Path(at, name).exists():
            kernel.bind(f"{at}/{name}", f"{at}/{name}")
            kernel.restrict_mount(f"{at}/{name}", kernel.ATTR_RDONLY)
    for name in KEPT_FROM_READING:
        if Path(at, name).exists():
            kernel.bind(f"{OLD}/dev/null", f"{at}/{name}")


def _forbid_user_namespaces() -> None:
    """In one of its own a program would have capabilities again, and more of the kernel to try them on."""
    with suppress(OSError):
        Path(OLD, "proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")
