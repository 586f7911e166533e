"""`jackfield connect CLIENT`: add this gateway to an editor or coding agent as an MCP server."""

import json
import os
import re
import sys
from argparse import Namespace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct

from jackfield.cli.files import json_document, read_text, replace_file
from jackfield.cli.options import GATEWAY, YES, UsageError, argument, command
from jackfield.cli.output import confirm, escape, print_file_diff, print_stderr, style
from jackfield.cli.target import PROBE_TIMEOUT, find_target
from jackfield.errors import JackfieldError, Unauthenticated
from jackfield.sdk import Client
from jackfield.sdk.address import Address, find_address, read_key
from jackfield.sdk.keys import KeyInfo
from jackfield.settings import load_local

NEW_KEY = "a-new-key"
"""In the entry that is shown, for a key that is created once the change is agreed to."""
_BEARER = re.compile(r"(Bearer )(?!\$\{)[^\"\\\s]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INDENT = re.compile(r"\{\s*\n([ \t]+)\"")


class McpClient(Struct, frozen=True, kw_only=True):
    """A program that keeps its MCP servers in a JSON file."""

    title: str
    file: str
    """Relative to the project."""
    user_file: Path
    servers: str
    """The key that has the servers by name."""
    has_type: bool = True
    """Whether an entry has a `type`."""
    variable: str = "${env:%s}"
    """Its syntax for an environment variable."""


def clients() -> dict[str, McpClient]:
    """The supported clients."""
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


@command(
    """\
Add this gateway, with its URL and key, to the config of an MCP client. The change is shown first; other servers in the
file stay. Without --user, the file of the project in this folder is changed.

The key is the one that the config has under the client's name, as [auth.keys.claude-code]; pass another with --key, or
keep it out of the file with --key-variable. With an admin key and a running gateway, a key of the client's own is
created, with the scope 'call'; 'jackfield keys revoke NAME' ends it. An admin key itself is written only with --admin:
with it, an agent could approve its own calls.

With --oauth only the URL is written: the client opens a browser, and a person signs in and allows it; 'jackfield
grants' lists that. It is also what happens where there is no key and the gateway takes OAuth.

Other clients take the URL by hand: docs/identity.md has Claude, ChatGPT, Codex and programs that speak stdio only.

exit codes: 0 written or nothing to write, 1 declined, 2 not written""",
    argument("client", choices=("claude-code", "cursor", "vscode"), help="the program"),
    argument("--user", action="store_true", help="for all projects of this user, not only this one"),
    argument("--name", default="jackfield", help="the server's name in the client (jackfield)"),
    argument("--group", metavar="NAME", help="offer only this group of tools: /mcp/NAME"),
    argument("--key-variable", metavar="NAME", help="let the client read the key from this environment variable"),
    argument("--oauth", action="store_true", help="write no key: the client logs in by itself, in a browser"),
    argument("--admin", action="store_true", help="write the key even if it is an admin key"),
    argument("--config", metavar="FILE", help="the config of the gateway"),
    YES,
    *GATEWAY,
    examples="""\
  jackfield connect claude-code --key "$AGENT_KEY"
  jackfield connect cursor --user --group docs
  jackfield connect claude-code --oauth --url https://tools.example.org
  jackfield connect vscode --key-variable JACKFIELD_KEY""",
)
async def connect(options: Namespace) -> int:
    client = clients()[options.client]
    _check(options)
    path = client.user_file if options.user else Path(client.file)
    address, makes_key = await _address(options)
    before = read_text(path) if path.exists() else None
    if makes_key and (kept := await _working_key(before, client, options, address)) is not None:
        address, makes_key = Address(url=address.url, key=kept), False
    maker = address
    if makes_key:
        address = Address(url=address.url, key=NEW_KEY)
    entry = entry_for(client, address, key_variable=options.key_variable, group=options.group)
    after = with_server(before, path, client=client, name=options.name, entry=entry)
    if after == before:
        print(f"{path} already has this gateway.")
        return 0
    print_file_diff(_masked(before or ""), _masked(after), name=str(path))
    if not confirm(f"Write this to {path}?", yes=options.yes):
        print("Nothing was written.")
        return 1
    if makes_key:
        made = await _make_key(maker, options)
        after = after.replace(NEW_KEY, made.key or "")
        print(f"Created the key '{escape(made.name)}'. To end it: jackfield keys revoke {escape(made.name)}")
    has_key = address.key is not None and options.key_variable is None
    replace_file(path, after, before=before, private=has_key)
    print(f"{style('Written', 'green')}: {client.title} has this gateway as '{escape(options.name)}' in {path}.")
    _say_what_is_left(client, address, path, options)
    return 0


def _check(options: Namespace) -> None:
    if options.key_variable and not _VARIABLE.fullmatch(options.key_variable):
        raise UsageError(
            f"'{options.key_variable}' cannot be the name of an environment variable. "
            "Use letters, digits and '_', for example JACKFIELD_KEY."
        )
    if options.oauth and (options.key_variable or options.admin or options.key):
        raise UsageError("--oauth writes no key. Leave --key, --key-variable and --admin out.")


def _say_what_is_left(client: McpClient, address: Address, path: Path, options: Namespace) -> None:
    if options.key_variable:
        print(f"Set {options.key_variable} to the gateway's key in the environment of {client.title}.")
    elif address.key is None:
        print(f"{client.title} opens a browser to log in when it first connects.")
    elif not options.user:
        print_stderr(f"{path} now contains a key: keep it out of version control, or use --key-variable.")


async def _make_key(maker: Address, options: Namespace) -> KeyInfo:
    """A key of the client's own, with a number after its name where that is taken."""
    groups = None if options.group is None else [options.group]
    async with Client(maker.url, maker.key) as client:
        taken = {key.name for key in await client.keys.list()}
        names = (options.client, *(f"{options.client}-{number}" for number in range(2, 1_000)))
        name = next(name for name in names if name not in taken)
        return await client.keys.create(name, scopes=["call"], groups=groups)


async def _working_key(before: str | None, mcp_client: McpClient, options: Namespace, address: Address) -> str | None:
    """The key that the file has for this gateway already, if the gateway still takes it and it is no admin key."""
    try:
        entry = json.loads(before or "{}")[mcp_client.servers][options.name]
        key = str(entry["headers"]["Authorization"]).removeprefix("Bearer ")
        if entry["url"] != f"{address.url}{mcp_path(options.group)}":
            return None
        async with Client(address.url, key, timeout=PROBE_TIMEOUT, retries=0) as client:
            return None if (await client.identity()).is_admin else key
    except (JackfieldError, ValueError, KeyError, TypeError):
        return None


def mcp_path(group: str | None) -> str:
    return "/mcp" if group is None else f"/mcp/{group}"


def entry_for(
    client: McpClient, address: Address, *, key_variable: str | None, group: str | None = None
) -> dict[str, Any]:
    """The client's entry for this gateway. Without a key, the client logs in by itself."""
    key = client.variable % key_variable if key_variable else address.key
    kind = {"type": "http"} if client.has_type else {}
    headers = {} if key is None else {"headers": {"Authorization": f"Bearer {key}"}}
    return {**kind, "url": f"{address.url}{mcp_path(group)}", **headers}


def with_server(before: str | None, path: Path, *, client: McpClient, name: str, entry: dict[str, Any]) -> str:
    """The file with this server added."""
    if before is None or not before.strip():
        return _text({client.servers: {name: entry}}, indent=2)
    document = _document(before, path, name=name, entry=entry)
    servers = document.setdefault(client.servers, {})
    if not isinstance(servers, dict):
        raise UsageError(f"'{client.servers}' in {path} must be an object of servers. Correct it; nothing was changed.")
    if servers.get(name) == entry:
        return before
    servers[name] = entry
    found = _INDENT.search(before)
    return _text(document, indent=found[1] if found else 2)


def _document(before: str, path: Path, *, name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """The parsed file. One with comments is not rewritten, because it would lose them."""
    try:
        return json_document(before, path, comments=False)
    except UsageError:
        json_document(before, path, comments=True)
        by_hand = _masked(json.dumps({name: entry}, ensure_ascii=False)[1:-1])
        raise UsageError(
            f"{path} has comments, which would be lost. Nothing was changed; add this server by hand: {by_hand}"
        ) from None


async def _address(options: Namespace) -> tuple[Address, bool]:
    """The gateway and a key for it; True: the key is an administrator's, so one is to be made with it."""
    target = await find_target(options, in_process=False)
    if options.oauth:
        address = Address(url=find_address(target.url, None).url, key=None)
        if await _takes_oauth(address) is False:
            raise UsageError(
                f'The gateway at {address.url} takes keys only: [auth.oauth] mode is "off". Leave --oauth out.'
            )
        return address, False
    address = find_address(target.url, options.key or _key_for_client(options) or target.key)
    if options.key_variable:
        return address, False
    if address.key is None and await _takes_oauth(address):
        return address, False
    if address.key is None:
        raise UsageError(
            f"The gateway at {address.url} has no key yet. Start it once with 'jackfield serve', or pass --key."
        )
    if options.admin:
        return address, False
    is_admin, is_running = await _is_admin_key(address, options)
    if is_admin and not is_running:
        raise UsageError(_advice(options.client))
    return address, is_admin


async def _takes_oauth(address: Address) -> bool | None:
    """Whether the gateway lets clients log in; None: it cannot be asked."""
    url = f"{address.url}/.well-known/oauth-protected-resource/mcp"
    try:
        async with httpx2.AsyncClient(timeout=PROBE_TIMEOUT) as http:
            status = (await http.get(url)).status_code
    except httpx2.HTTPError:
        return None
    if status == HTTPStatus.OK:
        return True
    return False if status == HTTPStatus.NOT_FOUND else None


def _key_for_client(options: Namespace) -> str | None:
    """The key under the client's name in the config."""
    if options.url or os.environ.get("JACKFIELD_URL") or os.environ.get("JACKFIELD_KEY"):
        return None
    local = load_local(options.config)
    if options.client in local.unset and not (options.key_variable or options.admin):
        raise UsageError(
            f"The key of [auth.keys.{options.client}] is not available: its variable is not set. "
            "Set it in the environment or in secrets.toml in the data folder, or pass the key with --key."
        )
    found = local.keys.get(options.client)
    return None if found is None else found.key


async def _is_admin_key(address: Address, options: Namespace) -> tuple[bool, bool]:
    """Whether it is an admin key, and whether the gateway itself says so; else the config does."""
    try:
        async with Client(address.url, address.key, timeout=PROBE_TIMEOUT, retries=0) as client:
            return (await client.identity()).is_admin, True
    except Unauthenticated:
        print_stderr(
            f"The gateway at {address.url} does not accept this key. If it is new in the config, restart the gateway."
        )
    except JackfieldError:
        pass  # It is not running.
    local = load_local(options.config)
    admins = {key.key for key in local.keys.values() if "admin" in key.scopes}
    return address.key in admins | {os.environ.get("JACKFIELD_ADMIN_KEY"), read_key(local.data)}, False


def _advice(client: str) -> str:
    variable = f"{client.upper().replace('-', '_')}_KEY"
    return (
        "This is an admin key: with it, an agent could approve its own calls. Give the client its own key: start the "
        f"gateway and try again, and one is created; or "
        f'add [auth.keys.{client}] with key = "${{{variable}}}" and scopes = ["call"] to jackfield.toml '
        "(tools = [...] limits it further), restart the gateway and try again. Or write the admin key with --admin."
    )


def _text(document: dict[str, Any], *, indent: str | int) -> str:
    return json.dumps(document, indent=indent, ensure_ascii=False) + "\n"


def _masked(text: str) -> str:
    """The text without keys."""
    return _BEARER.sub(r"\1…", text)


def _vscode_folder(home: Path) -> Path:
    if sys.platform == "darwin":
        return home / "Library/Application Support/Code/User"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", home / "AppData/Roaming")) / "Code/User"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "Code/User"
