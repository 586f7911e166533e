"""What a sandboxed program sees: the list of all mounts in its file system, and the files that a program needs to run.

Above: `sandboxes.py`. Below: the file system, which is only read; `supervision/namespaces.py` or bubblewrap mounts it.
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
"""What programs read in /etc by default; nothing secret."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/dev/ptmx": "pts/ptmx",
}
TEMPORARY = "/tmp"  # noqa: S108 - a private one
MAX_LINKS = 40
MAX_SHEBANG = 256
NOT_A_HOME = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev", "/proc", "/run", "/nix")


class ViewSpec(Struct, frozen=True, kw_only=True):
    """What a program sees besides the system."""

    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    hidden: tuple[Path, ...]
    """Not seen, even inside a folder that is; paths inside it that are listed themselves are seen."""
    sockets: Mapping[str, Path]
    """By their path inside."""
    home: str
    user: int
    group: int


def private_home(env: Mapping[str, str]) -> str:
    """Where the private home is: at the path in `HOME`, if that is a safe place."""
    home = PurePosixPath(env.get("HOME", TEMPORARY))
    taken = not home.is_absolute() or len(home.parts) == 1 or ".." in home.parts
    return TEMPORARY if taken or any(home.is_relative_to(place) for place in NOT_A_HOME) else str(home)


def build_view(spec: ViewSpec) -> list[Mount]:
    """In mount order: outer paths before inner ones, links last."""
    mounts: dict[str, Mount] = {}
    links: dict[str, str] = {}
    _show(map(Path, (*SYSTEM, *SETTINGS)), "read", mounts, links)
    _add(mounts, "private", _real(spec.home, links))
    _show(spec.readable, "read", mounts, links)
    _show(spec.writable, "write", mounts, links)
    for path in (resolve_links(path)[1] for path in spec.hidden):
        if path.exists() and _is_shown(path, mounts):
            _add(mounts, "empty" if path.is_dir() else "device", str(path), "" if path.is_dir() else "/dev/null")
    for at, path in spec.sockets.items():
        _add(mounts, "write", at, str(resolve_links(path)[1]))
    _add_machine(mounts, links)
    _add(mounts, "text", "/etc/passwd", f"user:x:{spec.user}:{spec.group}::{spec.home}:/bin/sh\n")
    _add(mounts, "text", "/etc/group", f"user:x:{spec.group}:\n")
    made = sorted(mounts.values(), key=lambda mount: PurePosixPath(mount["at"]).parts)
    needed = [mount for mount in made if not _is_redundant(mount, mounts)]
    missing = {at: target for at, target in sorted(links.items()) if not _is_shown(Path(at).parent, mounts)}
    return [*needed, *(Mount(kind="link", at=at, source=target) for at, target in missing.items())]


def _show(paths: Iterable[Path], kind: str, mounts: dict[str, Mount], links: dict[str, str]) -> None:
    for path in paths:
        found, real = resolve_links(path)
        if real.exists():
            links |= found
            _add(mounts, kind, str(real), str(real))


def _real(path: str, links: dict[str, str]) -> str:
    found, real = resolve_links(Path(path))
    links |= found
    return str(real)


def _add(mounts: dict[str, Mount], kind: str, at: str, source: str = "") -> None:
    mounts[at] = Mount(kind=kind, at=at, source=source)  # type: ignore[typeddict-item] # the kinds above


def _is_redundant(mount: Mount, mounts: Mapping[str, Mount]) -> bool:
    """Whether its parent folder shows the same."""
    holder = _holder(Path(mount["at"]).parent, mounts)
    return mount["kind"] == "read" and holder is not None and holder["kind"] == "read"


def _is_shown(path: Path, mounts: Mapping[str, Mount]) -> bool:
    """Whether it is inside a folder that is shown."""
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


def resolve_links(path: Path) -> tuple[dict[str, str], Path]:
    """The symbolic links on the path, each with its target, and the real path."""
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
            if count > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            if target.is_absolute():
                real = Path("/")
            ahead.extendleft(reversed([word for word in target.parts if word != "/"]))
    return links, real


def program_files(program: str, *, env: Mapping[str, str], folder: Path | None = None) -> tuple[Path, ...]:
    """The paths that this program needs to run. None for one that is not found: its start will fail."""
    if "/" in program and folder is not None:
        program = str(folder / program)
    found = shutil.which(program, path=env.get("PATH", os.defpath))
    if found is None:
        return ()
    path = Path(found).absolute()
    environment = path.parent.parent
    if (environment / "pyvenv.cfg").is_file():
        return (environment, *python_files(environment / "bin" / "python"))
    if _is_python(path):
        return python_files(path)
    interpreter = _interpreter(path)
    if interpreter is None or interpreter == program:
        return (path,)
    return (path, *program_files(interpreter, env=env))


def python_files(python: Path) -> tuple[Path, ...]:
    """An interpreter, or one of a virtual environment, with its standard library."""
    environment = python.parent.parent
    own = (environment,) if (environment / "pyvenv.cfg").is_file() else (python,)
    prefix = resolve_links(python)[1].parent.parent
    is_home = prefix != Path("/") and any(prefix.glob("lib*/python3*/os.py"))
    return (*own, python, prefix) if is_home else (*own, python)


def jackfield_files() -> tuple[Path, ...]:
    """This gateway's Python and this package, to run `jackfield` inside."""
    package = Path(__file__).parents[2]
    return (*python_files(Path(sys.executable)), package)


def _is_python(path: Path) -> bool:
    return resolve_links(path)[1].name.startswith("python")


def _interpreter(script: Path) -> str | None:
    """The program in a script's shebang line."""
    try:
        with script.open("rb") as file:
            first = file.readline(MAX_SHEBANG)
    except OSError:
        return None
    words = first.removeprefix(b"#!").decode(errors="surrogateescape").split()
    if not first.startswith(b"#!") or not words:
        return None
    if Path(words[0]).name != "env":
        return words[0]
    return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), None)
