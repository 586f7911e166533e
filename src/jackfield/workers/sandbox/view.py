"""What a sandboxed program sees: the list of everything in its file system. Nothing that is not listed is there.

Above: `sandboxes.py`. Below: the file system, which is only read; `supervision/mounts.py` makes it so.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from jackfield.workers.sandbox.programs import followed
from jackfield.workers.supervision.wire import Mount

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
SETTINGS = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
"""What programs read in /etc without being told to, and nothing that is anybody's secret."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/dev/ptmx": "pts/ptmx",
}
TEMPORARY = "/tmp"  # noqa: S108 - a private one
NOT_A_HOME = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/run", "/nix")


class Wishes(Struct, frozen=True, kw_only=True):
    """What a program is to see besides the system."""

    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    hidden: tuple[Path, ...]
    """Not seen, also where it lies in a folder that is; what is wished for by a longer path is seen in it."""
    sockets: Mapping[str, Path]
    """By where they are inside."""
    home: str
    user: int
    group: int


def home_of(env: Mapping[str, str]) -> str:
    """Where the private home is: at the path that the program would look for it, if that is a place for one."""
    home = PurePosixPath(env.get("HOME", TEMPORARY))
    taken = not home.is_absolute() or len(home.parts) == 1 or ".." in home.parts
    return TEMPORARY if taken or any(home.is_relative_to(place) for place in NOT_A_HOME) else str(home)


def view_of(wishes: Wishes) -> list[Mount]:
    """In an order in which each can be made: what lies in another comes after it, links come last."""
    mounts: dict[str, Mount] = {}
    links: dict[str, str] = {}
    _show(map(Path, (*SYSTEM, *SETTINGS)), "read", mounts, links)
    _add(mounts, "private", _real(wishes.home, links))
    _show(wishes.readable, "read", mounts, links)
    _show(wishes.writable, "write", mounts, links)
    for path in (followed(path)[1] for path in wishes.hidden):
        if path.exists() and _is_shown(path, mounts):
            _add(mounts, "empty" if path.is_dir() else "device", str(path), "" if path.is_dir() else "/dev/null")
    for at, path in wishes.sockets.items():
        _add(mounts, "write", at, str(followed(path)[1]))
    _add_machine(mounts, links)
    _add(mounts, "text", "/etc/passwd", f"user:x:{wishes.user}:{wishes.group}::{wishes.home}:/bin/sh\n")
    _add(mounts, "text", "/etc/group", f"user:x:{wishes.group}:\n")
    made = sorted(mounts.values(), key=lambda mount: PurePosixPath(mount["at"]).parts)
    needed = [mount for mount in made if not _comes_along(mount, mounts)]
    missing = {at: target for at, target in sorted(links.items()) if not _is_shown(Path(at).parent, mounts)}
    return [*needed, *(Mount(kind="link", at=at, source=target) for at, target in missing.items())]


def _show(paths: Iterable[Path], kind: str, mounts: dict[str, Mount], links: dict[str, str]) -> None:
    for path in paths:
        ways, real = followed(path)
        if real.exists():
            links |= ways
            _add(mounts, kind, str(real), str(real))


def _real(path: str, links: dict[str, str]) -> str:
    ways, real = followed(Path(path))
    links |= ways
    return str(real)


def _add(mounts: dict[str, Mount], kind: str, at: str, source: str = "") -> None:
    mounts[at] = Mount(kind=kind, at=at, source=source)  # type: ignore[typeddict-item] # the kinds above


def _comes_along(mount: Mount, mounts: Mapping[str, Mount]) -> bool:
    """Whether the folder that holds it shows the same."""
    holder = _holder(Path(mount["at"]).parent, mounts)
    return mount["kind"] == "read" and holder is not None and holder["kind"] == "read"


def _is_shown(path: Path, mounts: Mapping[str, Mount]) -> bool:
    """Whether it comes with a folder that is shown as it is."""
    holder = _holder(path, mounts)
    return holder is not None and holder["kind"] in ("read", "write")


def _holder(path: Path, mounts: Mapping[str, Mount]) -> Mount | None:
    return next((mounts[str(place)] for place in (path, *path.parents) if str(place) in mounts), None)


def _add_machine(mounts: dict[str, Mount], links: dict[str, str]) -> None:
    _add(mounts, "private", TEMPORARY)
    _add(mounts, "proc", "/proc")
    _add(mounts, "pts", "/dev/pts")
    _add(mounts, "private", "/dev/shm")  # noqa: S108 - a private one
    for name in DEVICES:
        if Path("/dev", name).exists():
            _add(mounts, "device", f"/dev/{name}", f"/dev/{name}")
    links |= DEVICE_LINKS
