"""`jackfield groups`: list, show, make and remove groups of tools."""

from argparse import Namespace
from collections.abc import Iterator, Sequence

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, first_line, print_either, style, table
from jackfield.cli.target import connect
from jackfield.sdk import Client
from jackfield.sdk.groups import GroupInfo


@command(
    """\
List the groups of tools that your key may use, show one, or, with an admin key, set or remove one. A group is a named
part of the catalog with an MCP endpoint of its own, /mcp/NAME.

'set' replaces the whole group: its patterns, description and instructions. Patterns are names, globs or SOURCE:*.
Groups of the config are changed there.""",
    argument(
        "action",
        nargs="?",
        choices=("list", "show", "set", "remove"),
        default="list",
        metavar="ACTION",
        help="list (default), show, set or remove",
    ),
    argument("name", nargs="?", metavar="NAME", help="the group"),
    argument("patterns", nargs="*", metavar="PATTERN", help="for set: what is in it"),
    argument("--description", default="", metavar="TEXT", help="for set: what the group is for"),
    argument("--instructions", default="", metavar="TEXT", help="for set: what its MCP clients are told"),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield groups
  jackfield groups show docs
  jackfield groups set docs 'wiki:*' search_docs --description 'What the team has written'
  jackfield groups remove docs""",
)
async def groups(options: Namespace) -> int:
    _check(options)
    async with connect(options) as client:
        if options.action == "list":
            found = await client.groups.list()
            print_either(options, {"groups": found}, list_lines(found))
        elif options.action == "remove":
            await client.groups.delete(options.name)
            print_either(options, {"removed": options.name}, [f"Removed the group '{escape(options.name)}'."])
        else:
            group = await _shown_or_set(options, client)
            print_either(options, {"group": group}, group_lines(group))
    return 0


def _check(options: Namespace) -> None:
    if options.action == "list":
        if options.name is not None:
            raise UsageError(f"'list' takes no name. See 'jackfield groups show {options.name}'.")
    elif options.name is None:
        raise UsageError(f"'{options.action}' needs the name of a group. Add it.")
    elif options.action == "set" and not options.patterns:
        raise UsageError("'set' needs at least one pattern: a tool's name, a glob or SOURCE:*. Add one.")
    if options.action != "set" and (options.patterns or options.description or options.instructions):
        raise UsageError(f"'{options.action}' takes no patterns, description or instructions. Leave them out.")


async def _shown_or_set(options: Namespace, client: Client) -> GroupInfo:
    if options.action == "show":
        return await client.groups.get(options.name)
    return await client.groups.put(
        options.name, options.patterns, description=options.description, instructions=options.instructions
    )


def list_lines(groups: Sequence[GroupInfo]) -> list[str]:
    """Name, number of tools, origin, description."""
    if not groups:
        return ["No groups. Add one to the config, [groups.NAME], or with 'jackfield groups set'."]
    rows = [
        (escape(group.name), str(group.tool_count), group.origin, first_line(group.description)) for group in groups
    ]
    return table(rows, header=("NAME", "TOOLS", "ORIGIN", "DESCRIPTION"), styles=("bold", "dim", "dim"))


def group_lines(group: GroupInfo) -> Iterator[str]:
    """One group in detail."""
    yield style(escape(group.name), "bold")
    if group.description:
        yield escape(group.description)
    yield ""
    facts = [("endpoint", escape(group.url)), ("tools", str(group.tool_count)), ("origin", group.origin)]
    if group.tools is not None:
        facts.append(("patterns", escape(" ".join(group.tools)) or "none"))
    yield from table(facts, styles=("dim",))
    if group.instructions:
        yield ""
        yield escape(group.instructions)
