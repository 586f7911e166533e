"""`jackfield init [DIR]`: a small project that works as it is. Never touches a file that exists.

Above: `main.py`. Below: `starter.py`, which has the texts.
"""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from jackfield.cli.show import paint, put, put_json
from jackfield.cli.starter import FILES
from jackfield.cli.usage import UsageError

DESCRIPTION = "Write a small working project: jackfield.toml, tools/hello.py, README.md and .gitignore."
EXAMPLES = """\
  jackfield init
  jackfield init my-tools"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR", help="where to (this folder)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: Namespace) -> int:
    folder = Path(options.folder)
    written = write_project(folder)
    if options.json:
        put_json({"folder": str(folder.resolve()), "written": written})
        return 0
    for name in written:
        put(f"  wrote {folder / name}")
    move = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    put("\nNext:")
    put(f"  {paint(f'{move}jackfield serve', 'bold')}")
    put(f"  {paint(f'{move}jackfield call greet name=Ada', 'bold')}   (in another terminal)")
    return 0


def write_project(folder: Path) -> list[str]:
    """The files, all or none of them: what exists already is named and left as it is."""
    taken = [name for name in FILES if (folder / name).exists() or (folder / name).is_symlink()]
    if taken:
        raise UsageError(
            f"{folder / taken[0]} exists already; nothing was written. "
            "Choose an empty folder: 'jackfield init NAME' makes one."
        )
    try:
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with (folder / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as fault:
        raise UsageError(
            f"{fault.filename or folder} cannot be written: {fault.strerror}. Choose another folder."
        ) from None
    return list(FILES)
