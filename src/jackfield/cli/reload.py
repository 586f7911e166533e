"""`jackfield reload`: have a running gateway read its config anew."""

from argparse import Namespace
from collections.abc import Iterator

from jackfield.cli.options import GATEWAY, JSON, command
from jackfield.cli.output import print_either
from jackfield.cli.target import connect
from jackfield.sdk.config import ConfigChanges


@command(
    """\
Have the running gateway read its config file and secrets.toml anew. Needs an admin key.

The file is checked, then applied as a whole; one with a fault changes nothing. What did not change is not touched:
connections stay. What is in force only after a restart is listed. Other gateways of the same database read their own
files, each when it is told to.""",
    JSON,
    *GATEWAY,
    examples="""\
  jackfield reload
  jackfield reload --json""",
)
async def reload(options: Namespace) -> int:
    async with connect(options) as client:
        changes = await client.config.reload()
    print_either(options, changes, lines_of(changes))
    return 0


def lines_of(changes: ConfigChanges) -> Iterator[str]:
    for said, names in (("added", changes.added), ("removed", changes.removed), ("changed", changes.changed)):
        yield from (f"{said:<8}  {name}" for name in names)
    if not (changes.added or changes.removed or changes.changed):
        yield "Nothing is different."
    if changes.restart_needed:
        yield f"In force only after a restart: {', '.join(changes.restart_needed)}."
