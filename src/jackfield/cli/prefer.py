"""`jackfield prefer TOOL`: whether a tool is on, and whether it asks first, for this key.

Above: `main.py`. Below: the SDK.
"""

import asyncio
from argparse import ArgumentParser, Namespace

from jackfield.cli.reach import gateway
from jackfield.cli.show import harmless, paint, put, put_json
from jackfield.cli.usage import UsageError, add_gateway_arguments
from jackfield.sdk import Client
from jackfield.sdk.tools import ApprovalOverride
from jackfield.sdk.types import EffectiveTool

DESCRIPTION = """\
Show or change what your key prefers of a tool, everywhere or in one chat. A chat's preference goes before the one for
everywhere, that before the tool's own metadata; on and approval are apart from each other."""
EXAMPLES = """\
  jackfield prefer spawn_coding_agent
  jackfield prefer spawn_coding_agent --off --chat c1
  jackfield prefer spawn_coding_agent --approval require
  jackfield prefer spawn_coding_agent --reset"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="the tool")
    switch = parser.add_mutually_exclusive_group()
    switch.add_argument("--on", action="store_true", help="switch it on")
    switch.add_argument("--off", action="store_true", help="switch it off")
    switch.add_argument("--reset", action="store_true", help="forget both preferences")
    parser.add_argument(
        "--approval", choices=("require", "skip", "default"), help="ask a person first, never, or as the tool says"
    )
    parser.add_argument("--chat", metavar="ID", help="in this chat only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    if options.reset and options.approval is not None:
        raise UsageError("--reset forgets the approval too. Leave --approval out.")
    tool = asyncio.run(_prefer(options))
    if options.json:
        put_json(tool)
    else:
        put(standing_line(tool))
    return 0


async def _prefer(options: Namespace) -> EffectiveTool:
    async with gateway(options) as client:
        if options.reset:
            return await client.tools.reset_preferences(options.name, chat_id=options.chat)
        if options.approval is not None:
            override: ApprovalOverride = "" if options.approval == "default" else options.approval
            changed = await client.tools.set_approval(options.name, override, chat_id=options.chat)
            if not (options.on or options.off):
                return changed
        if options.on or options.off:
            return await client.tools.set_enabled(options.name, options.on, chat_id=options.chat)
        return await _standing(client, options.name, options.chat)


async def _standing(client: Client, name: str, chat_id: str | None) -> EffectiveTool:
    tool = await client.tools.get(name)
    found = [one for one in await client.tools.effective(chat_id) if one.tool.name == tool.name]
    return found[0]


def standing_line(tool: EffectiveTool) -> str:
    """How the tool stands, and whose word that is."""
    state = paint("on", "green") if tool.enabled else paint("off", "yellow")
    asks = "asks a person first" if tool.requires_approval else "asks nobody"
    return (
        f"{paint(harmless(tool.tool.name), 'bold')} is {state}{_by(tool.source)} and {asks}{_by(tool.approval_source)}."
    )


def _by(origin: str) -> str:
    return {"": "", "global": " (your preference)", "chat": " (this chat's preference)"}.get(origin, "")
