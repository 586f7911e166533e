"""System calls that Python does not wrap: prctl, namespaces, mounts, capabilities. Each raises `OSError`.

Above: the other modules here. Below: the C library; Linux only.
"""

import errno
import os
import signal
import sys
from typing import Any

try:
    import ctypes
except ImportError:  # some interpreters are built without it
    ctypes = None  # type: ignore[assignment]

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MNT_DETACH = 2

ATTR_RDONLY = 1
ATTR_NOSUID = 2
ATTR_NODEV = 4
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522
_SYS_MOUNT_SETATTR = 442
"""The same on every architecture; since Linux 5.12."""
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
_SYS_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_KEYCTL_JOIN_SESSION_KEYRING = 1

_libc: Any = ctypes.CDLL(None, use_errno=True) if ctypes and sys.platform == "linux" else None
IS_AVAILABLE = _libc is not None


def become_subreaper() -> None:
    """From now on this process, not init, inherits the orphans among its descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """From now on the kernel kills this process when its parent dies."""
    if IS_AVAILABLE:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def set_process_name(name: str) -> None:
    """This process's name in `ps` and `top`; 15 characters at most."""
    if IS_AVAILABLE:
        _call("prctl", _PR_SET_NAME, name.encode())


def unshare(flags: int) -> None:
    _call("unshare", flags)


def mount(source: str, at: str, *, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    _call("mount", source.encode(), os.fsencode(at), _bytes(kind), ctypes.c_ulong(flags), _bytes(options))


def bind(source: str, at: str) -> None:
    """Bind-mount `source` at `at`, with all mounts below it."""
    _call("mount", os.fsencode(source), os.fsencode(at), None, ctypes.c_ulong(MS_BIND | MS_REC), None)


def restrict_mount(at: str, attributes: int, *, recursive: bool = True) -> None:
    """Add these attributes to a mount and those below it."""
    wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    flags = _AT_RECURSIVE if recursive else 0
    _syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(at), flags, ctypes.byref(wanted), ctypes.sizeof(wanted))


def pivot_root(new: str, old: str) -> None:
    _syscall(_number(_SYS_PIVOT_ROOT), new.encode(), old.encode())


def leave_keyring() -> None:
    """Start an empty session keyring instead of the inherited one."""
    _syscall(_number(_SYS_KEYCTL), _KEYCTL_JOIN_SESSION_KEYRING, None)


def unmount(at: str) -> None:
    """Detach it now; it goes when nothing uses it any more."""
    _call("umount2", at.encode(), MNT_DETACH)


def set_host_name(name: str) -> None:
    _call("sethostname", name.encode(), len(name))


def gain_no_privileges() -> None:
    """Setuid programs no longer give this process or a descendant any privilege."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """All of them, including the bounding set."""
    for number in range(64):
        try:
            _prctl(_PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            break  # the kernel knows no more
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def deny_tracing() -> None:
    """Other processes of the same user cannot trace this one or read its memory."""
    _prctl(_PR_SET_DUMPABLE, 0)


def _number(by_machine: dict[str, int]) -> int:
    try:
        return by_machine[os.uname().machine]
    except KeyError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _syscall(number: int, *arguments: object) -> None:
    _call("syscall", ctypes.c_long(number), *arguments)


def _call(function: str, *arguments: object) -> None:
    if _libc is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if getattr(_libc, function)(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
