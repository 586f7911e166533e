"""`jackfield connect CLIENT`: this gateway becomes an MCP server of an editor or a coding agent.

Above: `main.py`. Below: that program's own config file, `files.py` and `consent.py`.
"""

import asyncio
import json
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from msgspec import Struct

from jackfield.cli.consent import add_consent_argument, agreed, put_change
from jackfield.cli.files import json_object, read_text, replace_file
from jackfield.cli.reach import PROBE_WITHIN, find_road
from jackfield.cli.show import harmless, note, paint, put
from jackfield.cli.usage import UsageError, add_gateway_arguments
from jackfield.errors import JackfieldError, Unauthenticated
from jackfield.sdk import Client
from jackfield.sdk.address import Address, find_address, read_key
from jackfield.settings import load_local

DESCRIPTION = """\
Write this gateway into the config of an MCP client, with its url and key. The change is shown first; other servers in
the file stay. Without --user it is the file of the project in this folder.

The key is the one that the config has under the client's name, as [auth.keys.claude-code]; give another with --key, or
keep it out of the file with --key-variable. An administrator's key is written only with --admin: with it an agent could
allow its own calls.

exit codes: 0 written or nothing to write, 1 you said no, 2 not written"""
EXAMPLES = """\
  jackfield connect claude-code --key "$AGENT_KEY"
  jackfield connect cursor --user
  jackfield connect vscode --key-variable JACKFIELD_KEY"""
_BEARER = re.compile(r"(Bearer )(?!\$\{)[^\"\\\s]+")
_INDENT = re.compile(r"\{\s*\n([ \t]+)\"")


class McpClient(Struct, frozen=True, kw_only=True):
    """A program that keeps its MCP servers in a JSON file."""

    title: str
    file: str
    """In the project's folder."""
    user_file: Path
    servers: str
    """The key in the file that holds the servers by name."""
    has_type: bool = True
    """Whether an entry says that it is an http server; where not, its url says so."""
    variable: str = "${env:%s}"
    """How it writes a variable of the environment."""


def clients() -> dict[str, McpClient]:
    """Those we know, by the name used here."""
    home = Path.home()
    return {
        "claude-code": McpClient(
            title="Claude Code",
            file=".mcp.json",
            user_file=home / ".claude.json",
            servers="mcpServers",
            variable="${%s}",
        ),
        "cursor": McpClient(
            title="Cursor",
            file=".cursor/mcp.json",
            user_file=home / ".cursor/mcp.json",
            servers="mcpServers",
            has_type=False,
        ),
        "vscode": McpClient(
            title="VS Code", file=".vscode/mcp.json", user_file=_vscode_folder(home) / "mcp.json", servers="servers"
        ),
    }


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("client", choices=sorted(clients()), help="which program")
    parser.add_argument("--user", action="store_true", help="for all projects of this user, not only the one here")
    parser.add_argument("--name", default="jackfield", help="what the gateway is called there (jackfield)")
    parser.add_argument(
        "--key-variable", metavar="NAME", help="write the name of this variable, from which the client reads the key"
    )
    parser.add_argument("--admin", action="store_true", help="write the key even if it is an administrator's")
    parser.add_argument("--config", metavar="FILE", help="the gateway that this config describes")
    add_consent_argument(parser)
    add_gateway_arguments(parser)


def run(options: Namespace) -> int:
    client = clients()[options.client]
    path = client.user_file if options.user else Path(client.file)
    address = _address(options)
    before = read_text(path) if path.exists() else None
    entry = entry_for(client, address, key_variable=options.key_variable)
    after = with_server(before, path, client=client, name=options.name, entry=entry)
    if after == before:
        put(f"{path} has this gateway already.")
        return 0
    put_change(_masked(before or ""), _masked(after), name=str(path))
    if not agreed(f"Write this to {path}?", yes=options.yes):
        put("Nothing was written.")
        return 1
    replace_file(path, after, before=before, private=options.key_variable is None)
    put(f"{paint('Written', 'green')}: {client.title} finds this gateway as '{harmless(options.name)}' in {path}.")
    if options.key_variable:
        put(f"Set {options.key_variable} to the gateway's key where {client.title} is started.")
    elif not options.user:
        note(f"{path} holds a key now: keep it out of version control, or use --key-variable.")
    return 0


def entry_for(client: McpClient, address: Address, *, key_variable: str | None) -> dict[str, Any]:
    """This gateway in the client's words."""
    key = client.variable % key_variable if key_variable else address.key
    kind = {"type": "http"} if client.has_type else {}
    return {**kind, "url": f"{address.url}/mcp", "headers": {"Authorization": f"Bearer {key}"}}


def with_server(before: str | None, path: Path, *, client: McpClient, name: str, entry: dict[str, Any]) -> str:
    """The file's text with this server in it; everything else as it was."""
    if before is None or not before.strip():
        return _text({client.servers: {name: entry}}, indent=2)
    document = _document(before, path, name=name, entry=entry)
    servers = document.setdefault(client.servers, {})
    if not isinstance(servers, dict):
        raise UsageError(f"'{client.servers}' in {path} is no object of servers. Correct it; nothing was changed.")
    if servers.get(name) == entry:
        return before
    servers[name] = entry
    found = _INDENT.search(before)
    return _text(document, indent=found[1] if found else 2)


def _document(before: str, path: Path, *, name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """What is in the file. One with comments is the owner's to edit: written anew it would lose them."""
    try:
        return json_object(before, path, comments=False)
    except UsageError:
        json_object(before, path, comments=True)
        by_hand = _masked(json.dumps({name: entry}, ensure_ascii=False)[1:-1])
        raise UsageError(
            f"{path} has comments, which would be lost. Nothing was changed; add this server to it by hand: {by_hand}"
        ) from None


def _address(options: Namespace) -> Address:
    road = asyncio.run(find_road(options, may_run_inside=False))
    address = find_address(road.url, options.key or _key_for_client(options) or road.key)
    if options.key_variable:
        return address
    if address.key is None:
        raise UsageError(
            f"There is no key for the gateway at {address.url} yet. "
            "Start it once with 'jackfield serve', or give --key."
        )
    if not options.admin and asyncio.run(_is_admins(address, options)):
        raise UsageError(_how_to_narrow(options.client))
    return address


def _key_for_client(options: Namespace) -> str | None:
    """The key that the config of the local gateway has under the client's name."""
    if options.url or os.environ.get("JACKFIELD_URL") or os.environ.get("JACKFIELD_KEY"):
        return None
    local = load_local(options.config)
    if options.client in local.unset and not (options.key_variable or options.admin):
        raise UsageError(
            f"The key of [auth.keys.{options.client}] is not known here: the variable that it names is not set. "
            "Set it, or write it in secrets.toml in the data folder, and run this again; or give the key with --key."
        )
    found = local.keys.get(options.client)
    return None if found is None else found.key


async def _is_admins(address: Address, options: Namespace) -> bool:
    """Whether the key is an administrator's: as its gateway says, else as far as this folder knows."""
    try:
        async with Client(address.url, address.key, timeout=PROBE_WITHIN, retries=0) as client:
            return (await client.identity()).is_admin
    except Unauthenticated:
        note(f"The gateway that runs at {address.url} does not know this key. If it is new in the config, restart it.")
    except JackfieldError:
        pass  # none runs
    local = load_local(options.config)
    admins = {key.key for key in local.keys.values() if "admin" in key.scopes}
    return address.key in admins | {os.environ.get("JACKFIELD_ADMIN_KEY"), read_key(local.data)}


def _how_to_narrow(client: str) -> str:
    variable = f"{client.upper().replace('-', '_')}_KEY"
    return (
        "The key that would be written is an administrator's: with it an agent could allow its own calls. Give it a "
        f'key of its own: add [auth.keys.{client}] with key = "${{{variable}}}" and scopes = ["call"] to '
        "jackfield.toml, perhaps with tools = [...] to limit it, restart the gateway and run this again. "
        "Or write this key all the same with --admin."
    )


def _text(document: dict[str, Any], *, indent: str | int) -> str:
    return json.dumps(document, indent=indent, ensure_ascii=False) + "\n"


def _masked(text: str) -> str:
    """The same without keys, for the screen."""
    return _BEARER.sub(r"\1…", text)


def _vscode_folder(home: Path) -> Path:
    if sys.platform == "darwin":
        return home / "Library/Application Support/Code/User"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", home / "AppData/Roaming")) / "Code/User"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "Code/User"
