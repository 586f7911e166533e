"""`python -m bench.bfcl [--tasks N] [--wait SECONDS] [--write]`: public tasks, plain calls beside programs.

Above: `make bfcl`. The exit code is 1 if a task could not be run, or ended in one state with plain calls and in another
with programs.
"""

import asyncio
import os
import sys
import time
from argparse import ArgumentParser, Namespace
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.bfcl.answers import tool_name
from bench.bfcl.model import running_model
from bench.bfcl.package import PACKAGES, Package, Task, installed
from bench.bfcl.report import Row, report
from bench.bfcl.sides import Player, Side, config
from bench.bfcl.tool_files import write_tools
from bench.document import write_into
from bench.machine import machine_sentence
from bench.processes import ROOT, BenchError, running_gateway

DOCUMENT = ROOT / "docs" / "programs.md"
SAY_EVERY = 20
WAIT = 0.05
"""Less than any model takes, and more than a gateway needs to make the next sandbox ready."""
OWN_TOOLS = 3
"""`bench_begin`, `bench_state`, `run_program`."""


def main() -> int:
    options = _options()
    try:
        package = Package(installed())
        with TemporaryDirectory(prefix="jackfield-bfcl-") as folder:
            machine, began = machine_sentence(Path(folder)), time.perf_counter()
            rows = asyncio.run(play_all(package, package.tasks(options.tasks), Path(folder), wait=options.wait))
            took = time.perf_counter() - began
    except BenchError as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    said = f"{PACKAGES[0]}, `multi_turn_base`, in {took:.0f} s. Machine: {machine}.\n\n{report(rows)}"
    print(said)
    if options.write:
        write_into(DOCUMENT, said)
    return 0 if all(row.sides_agree for row in rows) else 1


async def play_all(package: Package, tasks: list[Task], folder: Path, *, wait: float) -> list[Row]:
    """Each task directly, with plain calls and with programs, at one gateway with a project in `folder`."""
    backends = sorted({backend for task in tasks for backend in task.question.involved_classes})
    functions = {backend: package.functions(backend) for backend in backends}
    write_tools(folder / "tools", functions)
    async with running_model(wait) as model:
        (folder / "jackfield.toml").write_text(config(model), encoding="utf-8")
        path = {"PYTHONPATH": os.pathsep.join((str(package.folder), str(ROOT)))}
        count = sum(map(len, functions.values())) + OWN_TOOLS
        with running_gateway(folder, tools=count, env=path) as gateway:
            async with aclosing(Player(gateway.port, model)) as player:
                return [await _row(package, task, player, number) for number, task in enumerate(tasks)]


async def _row(package: Package, task: Task, player: Player, number: int) -> Row:
    if number % SAY_EVERY == 0:
        sys.stderr.write(f"{task.id}\n")
    names = [
        tool_name(function.name)
        for backend in task.question.involved_classes
        for function in package.functions(backend)
        if function.name not in task.question.excluded_function
    ]
    sides = {side: await player.play(task, names, side) for side in Side}
    return Row(task=task.id, directly=package.run_directly(task), sides=sides)


def _options() -> Namespace:
    parser = ArgumentParser(prog="python -m bench.bfcl", description="Plain calls and programs, on public tasks.")
    parser.add_argument("--tasks", type=int, metavar="N", help="the first N tasks instead of all")
    parser.add_argument(
        "--wait", type=float, default=WAIT, metavar="SECONDS", help=f"the model's, before each answer; {WAIT:g}"
    )
    parser.add_argument("--write", action="store_true", help=f"also put the table into {DOCUMENT.relative_to(ROOT)}")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
