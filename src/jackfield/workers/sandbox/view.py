"""What a sandboxed program sees: the list of everything in its file system. Nothing that is not listed is there.

Above: `sandboxes.py`. Below: the file system, which is only read; `supervision/mounts.py` makes it so.
"""

import errno
import os
import shutil
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from msgspec import Struct

from jackfield.workers.supervision.messages import Mount

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


class ViewSpec(Struct, frozen=True, kw_only=True):
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


def build_view(wishes: ViewSpec) -> list[Mount]:
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


MOST_LINKS = 40
LONGEST_FIRST_LINE = 256


def followed(path: Path) -> tuple[dict[str, str], Path]:
    """The symbolic links on the way, each with where it leads, and the real place at the end of the way."""
    links: dict[str, str] = {}
    count = 0
    real = Path("/")
    ahead = deque(path.absolute().parts[1:])
    while ahead:
        part = ahead.popleft()
        if part == "..":
            real = real.parent
        elif not (real / part).is_symlink():
            real /= part
        else:
            target = (real / part).readlink()
            links[str(real / part)] = str(target)
            count += 1
            if count > MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            if target.is_absolute():
                real = Path("/")
            ahead.extendleft(reversed([word for word in target.parts if word != "/"]))
    return links, real


def needs_of(program: str, *, env: Mapping[str, str], folder: Path | None = None) -> tuple[Path, ...]:
    """The paths without which this program would not run. Nothing for one that is not found: the start will tell."""
    if "/" in program and folder is not None:
        program = str(folder / program)
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None:
        return ()
    path = Path(found).absolute()
    environment = path.parent.parent
    if (environment / "pyvenv.cfg").is_file():
        return (environment, *python_needs(environment / "bin" / "python"))
    if _is_python(path):
        return python_needs(path)
    interpreter = _interpreter(path)
    if interpreter is None or interpreter == program:
        return (path,)
    return (path, *needs_of(interpreter, env=env))


def python_needs(python: Path) -> tuple[Path, ...]:
    """An interpreter, also one of a virtual environment, with its standard library."""
    environment = python.parent.parent
    own = (environment,) if (environment / "pyvenv.cfg").is_file() else (python,)
    prefix = followed(python)[1].parent.parent
    is_home = prefix != Path("/") and any(prefix.glob("lib*/python3*/os.py"))
    return (*own, python, prefix) if is_home else (*own, python)


def own_needs() -> tuple[Path, ...]:
    """This gateway's Python and this package: what it takes to run `jackfield`."""
    package = Path(__file__).parents[2]
    return (*python_needs(Path(sys.executable)), package)


def _is_python(path: Path) -> bool:
    return followed(path)[1].name.startswith("python")


def _interpreter(script: Path) -> str | None:
    """The program that a script's first line names."""
    try:
        with script.open("rb") as file:
            first = file.readline(LONGEST_FIRST_LINE)
    except OSError:
        return None
    words = first.removeprefix(b"#!").decode(errors="surrogateescape").split()
    if not first.startswith(b"#!") or not words:
        return None
    if Path(words[0]).name != "env":
        return words[0]
    return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), None)
