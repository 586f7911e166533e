"""`jackfield accept SOURCE|TOOL`: a person looks at the changed definition of foreign tools and takes it.

Above: `main.py`. Below: the SDK, and `consent.py` for the question.
"""

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from jackfield.cli.consent import add_consent_argument, agreed, put_diff
from jackfield.cli.reach import gateway
from jackfield.cli.show import harmless, paint, put
from jackfield.cli.usage import add_gateway_arguments
from jackfield.model.words import counted
from jackfield.sdk import Client, DefinitionDiff

DESCRIPTION = """\
Show how the definition of foreign tools changed since it was pinned, and accept it. Until then they are held: no agent
sees them and calls get 403 'definition_changed'.

NAME is a source, for all its held tools, or one tool. A source goes before a tool of the same name. A server of an
agent's own is called 'server@agent'.

exit codes: 0 accepted or nothing to accept, 1 you said no, 2 not accepted (unknown, changed again, nobody to ask)"""
EXAMPLES = """\
  jackfield accept github
  jackfield accept gh_create_issue
  jackfield accept github --yes          (the changes are shown all the same)"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="a source or a tool")
    parser.add_argument(
        "--config", metavar="FILE", help="use this config; without a running gateway, run it in process"
    )
    add_consent_argument(parser)
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    return asyncio.run(_accept(options))


async def _accept(options: Namespace) -> int:
    async with gateway(options) as client:
        is_source = await _is_source(client, options.name)
        changes = await _changes(client, options.name, is_source=is_source)
        if not changes:
            put(f"Nothing of '{harmless(options.name)}' is held.")
            return 0
        _put_changes(changes)
        if not agreed(f"Accept {_what(changes)} as shown?", yes=options.yes):
            put("Nothing was accepted.")
            return 1
        if is_source:
            await client.sources.accept(options.name, {change.name: change.digest for change in changes})
        else:
            await client.tools.accept(options.name, changes[0].digest)
    put(f"{paint('Accepted', 'green')}: {', '.join(harmless(change.name) for change in changes)}.")
    return 0


async def _is_source(client: Client, name: str) -> bool:
    """An agent's own server (`server@agent`) is a source that no list of sources has."""
    return "@" in name or name in {source.name for source in (await client.ready()).sources}


async def _changes(client: Client, name: str, *, is_source: bool) -> Sequence[DefinitionDiff]:
    if is_source:
        return await client.sources.diff(name)
    change = await client.tools.diff(name)
    return [change] if change.held else []


def _put_changes(changes: Sequence[DefinitionDiff]) -> None:
    for change in changes:
        put(f"{paint(harmless(change.name), 'bold')} of {harmless(change.source)}")
        put_diff(change.diff or "(no pin is known; the gateway cannot read its store)")
        put()


def _what(changes: Sequence[DefinitionDiff]) -> str:
    return f"'{harmless(changes[0].name)}'" if len(changes) == 1 else counted(len(changes), "definition")
