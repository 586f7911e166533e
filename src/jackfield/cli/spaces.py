"""`jackfield spaces`: where people and agents meet, and who is there.

Above: `main.py`. Below: the SDK.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

from jackfield.cli.reach import gateway
from jackfield.cli.show import columns, harmless, put, put_json
from jackfield.cli.usage import add_gateway_arguments
from jackfield.sdk import SpaceInfo, SpaceMember

DESCRIPTION = "List the spaces and who is in them."
EXAMPLES = """\
  jackfield spaces
  jackfield chat lobby                   (go into one)
  jackfield spaces --json"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    asyncio.run(_list(options))
    return 0


async def _list(options: Namespace) -> None:
    async with gateway(options) as client:
        spaces = await client.spaces.list()
        members = {space.id: await client.spaces.members(space.id) for space in spaces}
    if options.json:
        put_json({"spaces": spaces, "members": members})
        return
    for line in space_lines(spaces, members):
        put(line)


def space_lines(spaces: Sequence[SpaceInfo], members: Mapping[str, Sequence[SpaceMember]]) -> list[str]:
    """One line a space."""
    if not spaces:
        return ["There is no space. 'spaces' of an agent in the config makes some, or POST /api/spaces."]
    rows = [
        (
            harmless(space.id),
            harmless(space.name if space.name != space.id else ""),
            harmless(", ".join(f"{member.name} ({member.kind})" for member in members[space.id]) or "nobody"),
        )
        for space in spaces
    ]
    return columns(rows, styles=("bold",))
