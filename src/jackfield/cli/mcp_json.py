"""The MCP servers in other programs' config files, in our words. Pure.

Claude Desktop, Claude Code and Cursor write `mcpServers`, VS Code `servers` (in its settings `mcp.servers`). A server
is `command`, `args` and `env`, or `url` and `headers`. Values that look like secrets are not copied: `${NAME}` stands
for them, and the reader is told which names to set. Above: `import_.py`. Below: `secret_values.py`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from jackfield.cli.secret_values import Vault
from jackfield.cli.usage import UsageError
from jackfield.settings import RESERVED_SOURCES, is_source_name

_TRANSPORTS = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamablehttp": "http",
    "streamable_http": "http",
    "remote": "http",
    "sse": "sse",
}
_READ = frozenset(
    {"type", "transport", "transportType", "command", "args", "env", "cwd", "url", "serverUrl", "headers"}
)
_NO_MATTER = frozenset({"disabled", "enabled", "name", "description"})
_LONGEST_NAME = 32


class ImportedSource(Struct, frozen=True, kw_only=True):
    """One server as a source of our config."""

    name: str
    options: dict[str, Any]
    """The keys of `[sources.NAME]`, in the order to write them."""


class Import(Struct, frozen=True, kw_only=True):
    """What a file comes to."""

    sources: tuple[ImportedSource, ...]
    variables: dict[str, str]
    """Names that must be set before the next start, and what each is for."""
    notes: tuple[str, ...]
    """What could not be taken over, a sentence each."""


def servers_in(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The servers of a config file, whichever program's it is."""
    inner = document.get("mcp")
    for holder, key in ((document, "mcpServers"), (document, "servers"), (inner, "servers")):
        found = holder.get(key) if isinstance(holder, Mapping) else None
        if isinstance(found, dict):
            return found
    raise UsageError(
        f"{path} has no MCP servers: neither 'mcpServers' nor 'servers' is an object in it. Give another file."
    )


def read_servers(
    servers: Mapping[str, Any], *, taken: frozenset[str], folder: Path, own_urls: frozenset[str] = frozenset()
) -> Import:
    """All servers as sources.

    `taken` are the config's names, `folder` is the project that the file belongs to, `own_urls` are this gateway's: a
    gateway that is its own source would have every tool twice, and then again.
    """
    vault = Vault(folder=folder)
    sources: list[ImportedSource] = []
    notes: list[str] = []
    names: dict[str, str] = {}
    for given, server in servers.items():
        if not isinstance(server, dict):
            raise UsageError(f"Server '{given}' is no object. Correct the file; nothing was changed.")
        if server.get("disabled") is True or server.get("enabled") is False:
            notes.append(f"'{given}' is switched off there and was left out.")
            continue
        if _is_this_gateway(server, own_urls):
            notes.append(f"'{given}' is this gateway itself and was left out.")
            continue
        name = _source_name(given)
        if name in taken or name in names:
            other = "the config has" if name in taken else f"'{names[name]}' would be"
            raise UsageError(
                f"{other[0].upper()}{other[1:]} a source '{name}' already. Rename the server '{given}' in the file, or "
                "the source; nothing was changed."
            )
        names[name] = given
        sources.append(ImportedSource(name=name, options=_options(given, name, server, vault)))
        unread = sorted(server.keys() - _READ - _NO_MATTER)
        if unread:
            notes.append(f"'{given}': {', '.join(unread)} means nothing here and was left out.")
    return Import(sources=tuple(sources), variables=vault.variables, notes=(*notes, *vault.notes))


def _is_this_gateway(server: Mapping[str, Any], own_urls: frozenset[str]) -> bool:
    arguments = server.get("args")
    is_bridge = isinstance(arguments, list) and arguments[:1] == ["mcp"]
    if is_bridge and Path(str(server.get("command"))).name == "jackfield":
        return True
    return (_url(server) or "").partition("?")[0].rstrip("/") in own_urls


def _source_name(given: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", given).strip("-")[:_LONGEST_NAME]
    if not is_source_name(name) or name in RESERVED_SOURCES:
        raise UsageError(f"A source cannot be called '{given}'. Rename that server in the file; nothing was changed.")
    return name


def _options(given: str, name: str, server: Mapping[str, Any], vault: Vault) -> dict[str, Any]:
    url, transport = _url(server), _transport(given, server)
    options: dict[str, Any] = {"kind": "mcp"}
    if transport == "stdio":
        options["command"] = vault.arguments(name, _command(given, server))
        if "cwd" in server:
            options["cwd"] = vault.plain(_text(given, "cwd", server["cwd"]))
        if env := _texts(given, "env", server.get("env")):
            options["env"] = {key: vault.variable(name, key, value) for key, value in env.items()}
        return options
    if url is None:
        raise UsageError(f"Server '{given}' has neither a command nor a url. Correct the file; nothing was changed.")
    options["url"] = vault.url(name, url)
    options["transport"] = transport
    if headers := _texts(given, "headers", server.get("headers")):
        options["headers"] = {key: vault.header(name, key, value) for key, value in headers.items()}
    return options


def _url(server: Mapping[str, Any]) -> str | None:
    url = server.get("url", server.get("serverUrl"))
    return url if isinstance(url, str) and url else None


def _transport(given: str, server: Mapping[str, Any]) -> str:
    said = server.get("type") or server.get("transport") or server.get("transportType")
    if said is None:
        if "command" in server:
            return "stdio"
        return "sse" if (_url(server) or "").partition("?")[0].rstrip("/").endswith("/sse") else "http"
    known = _TRANSPORTS.get(said.lower()) if isinstance(said, str) else None
    if known is None:
        raise UsageError(f"Server '{given}' is of type {said!r}, not stdio, http or sse. Nothing was changed.")
    return known


def _command(given: str, server: Mapping[str, Any]) -> list[str]:
    command = server.get("command")
    words = command if isinstance(command, list) else [command]
    arguments = server.get("args") or []
    if not command or not isinstance(arguments, list):
        raise UsageError(f"Server '{given}' has no command to start. Correct the file; nothing was changed.")
    return [_text(given, "command", word) for word in (*words, *arguments)]


def _texts(given: str, key: str, value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(f"'{key}' of server '{given}' is no object of texts. Correct the file; nothing was changed.")
    return {name: _text(given, f"{key}.{name}", inner) for name, inner in value.items() if inner is not None}


def _text(given: str, key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"'{key}' of server '{given}' is no text. Correct the file; nothing was changed.")
