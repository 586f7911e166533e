"""`jackfield init [DIR]`: create a small working project."""

import shlex
from argparse import Namespace
from pathlib import Path

from jackfield.cli.options import JSON, UsageError, argument, command
from jackfield.cli.output import print_json, style

CONFIG = """\
# A Jackfield project. `jackfield serve` runs it; `jackfield doctor` checks it.

[scenario]
name = "hello"
description = "A first Jackfield project"

[[categories]]
id = "words"
name = "Words"

[sources.local]
kind = "files"                # every public function in these files is a tool
path = "tools/*.py"

[sources.local.tools.greet]   # overrides for one tool
category = "words"

# A tool that is an HTTP request. Uncomment it and try: jackfield call zen
# [[tools]]
# name = "zen"
# description = "A short piece of wisdom from GitHub"
# inputSchema = { type = "object", properties = {} }
# executionType = "gateway"
# execution = { url = "https://api.github.com/zen", method = "GET" }
"""

TOOLS = '''\
"""Your first tools. The running gateway reloads this file when you save it."""

import asyncio
import random


def greet(name: str, excited: bool = False) -> str:
    """Greet somebody by name."""
    return f"Hello, {name}{'!' if excited else '.'}"


def roll(sides: int = 6, times: int = 1) -> dict:
    """Roll dice and add them up."""
    rolls = [random.randint(1, sides) for _ in range(times)]
    return {"rolls": rolls, "total": sum(rolls)}


async def countdown(seconds: int = 3) -> str:
    """Count down. Other calls run meanwhile."""
    await asyncio.sleep(seconds)
    return f"{seconds} seconds later: lift-off"


def inventory(ctx) -> list[str]:
    """List the tools of this gateway. The gateway passes `ctx`; the caller does not."""
    return sorted(tool["name"] for tool in ctx.registry)
'''

README = """\
# hello: a Jackfield project

    jackfield serve                        # the gateway, at http://127.0.0.1:8420

and in another terminal, in this folder:

    jackfield tools                        # list the tools
    jackfield tools greet                  # one tool in detail
    jackfield call greet name=Ada          # → Hello, Ada.
    jackfield call roll sides=20 times=2
    jackfield tail                         # follow calls live

The same over HTTP:

    curl -s http://127.0.0.1:8420/api/v1/tools/greet/execute \\
      -H "Authorization: Bearer $(cat .jackfield/admin.key)" \\
      -H 'Content-Type: application/json' -d '{"arguments": {"name": "Ada"}}'

and from Python:

    from jackfield.sdk import SyncClient

    with SyncClient() as client:
        print(client.tools.call("greet", name="Ada"))

Every function in `tools/hello.py` is a tool: its type hints are the schema, its docstring the description.
`jackfield doctor` finds problems and says how to fix them.
"""

GITIGNORE = """\
.jackfield/
__pycache__/
"""

FILES = {
    "jackfield.toml": CONFIG,
    "tools/hello.py": TOOLS,
    "README.md": README,
    ".gitignore": GITIGNORE,
}
"""Path in the project to text."""
PURPOSES = {
    "jackfield.toml": "the config: where tools come from",
    "tools/hello.py": "four tools, plain Python functions; the running gateway reloads them when you save",
    "README.md": "commands to try",
    ".gitignore": "keeps .jackfield, with the admin key and the database, out of git",
}


@command(
    """\
Create a small working project: jackfield.toml, tools/hello.py, README.md and .gitignore. Asks nothing, and overwrites
nothing.""",
    argument("folder", nargs="?", default=".", metavar="DIR", help="where (default: this folder)"),
    JSON,
    examples="""\
  jackfield init
  jackfield init my-tools""",
)
def init(options: Namespace) -> int:
    folder = Path(options.folder)
    written = write_project(folder)
    if options.json:
        print_json({"folder": str(folder.resolve()), "written": written})
        return 0
    paths = {name: str(folder / name) for name in written}
    width = max(map(len, paths.values()))
    for name, path in paths.items():
        print(f"  wrote {path.ljust(width)}  {PURPOSES[name]}")
    cd = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    serve, call = f"{cd}jackfield serve", f"{cd}jackfield call greet name=Ada"
    print("\nNext:")
    already = "" if cd else "   (or 'jackfield reload', if a gateway runs in this folder)"
    print(f"  {style(serve.ljust(len(call)) if already else serve, 'bold')}{already}")
    print(f"  {style(call, 'bold')}   (in another terminal)")
    return 0


def write_project(folder: Path) -> list[str]:
    """Write the files, unless one of them exists."""
    taken = [name for name in FILES if (folder / name).exists() or (folder / name).is_symlink()]
    if taken:
        raise UsageError(
            f"{folder / taken[0]} already exists; nothing was written. "
            "Choose an empty folder: 'jackfield init NAME' creates one."
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
