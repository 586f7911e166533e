"""What a program needs to be seen to run: itself, the links that lead to it, and the Python that it is or belongs to.

Above: `sandboxes.py`. Below: the file system, which is only read.
"""

import errno
import os
import shutil
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path

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
