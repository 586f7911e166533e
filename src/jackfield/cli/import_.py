"""`jackfield import FILE`: add the MCP servers of another program's config as sources.

Claude Desktop, Claude Code and Cursor have `mcpServers`, VS Code `servers` (in its settings `mcp.servers`). Secrets are
replaced by `${NAME}`. The sources are appended to the config; the rest of the file stays as it is, comments included.
"""

import json
import os
import re
import tomllib
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from jackfield.cli.files import json_document, read_text, replace_file
from jackfield.cli.options import YES, UsageError, argument, command
from jackfield.cli.output import confirm, escape, print_file_diff, print_lines, style
from jackfield.cli.secret_values import SecretReplacer
from jackfield.model.text import counted
from jackfield.settings import RESERVED_SOURCES, ServerSettings, find_config, is_source_name

NEW_CONFIG = Path("jackfield.toml")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_EDITOR_FOLDERS = frozenset({".vscode", ".cursor"})
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
_KEYS = frozenset(
    {"type", "transport", "transportType", "command", "args", "env", "cwd", "url", "serverUrl", "headers"}
)
_IGNORED = frozenset({"disabled", "enabled", "name", "description"})
_MAX_NAME = 32


@command(
    """\
Add the MCP servers in a file of Claude Code, Claude Desktop, Cursor or VS Code to the config as sources of kind "mcp".
The change is shown first. Values that look like secrets are not copied: ${NAME} replaces them, and the names to set
are listed.

exit codes: 0 added or nothing to add, 1 declined, 2 not added""",
    argument("file", help="the file with the servers: .mcp.json, .cursor/mcp.json, .vscode/mcp.json …"),
    argument("--config", metavar="FILE", help="add them to this config (default: JACKFIELD_CONFIG, else the one here)"),
    YES,
    examples="""\
  jackfield import .mcp.json
  jackfield import ~/.cursor/mcp.json --config demo/jackfield.toml
  jackfield import .vscode/mcp.json --yes""",
)
def import_(options: Namespace) -> int:
    given = Path(options.file).expanduser()
    servers = servers_in(json_document(read_text(given), given, comments=True), given)
    path = find_config(options.config) or NEW_CONFIG
    before = read_text(path) if path.exists() else None
    document = _parsed(before or "", path)
    imported = read_servers(
        servers, taken=_source_names(document, path), folder=_project_folder(given), own_urls=_own_urls(document)
    )
    if not imported.sources:
        print(f"{given} has no servers to add.")
        print_lines(_note_lines(imported))
        return 0
    after = with_sources(before or "", document, imported.sources, path=path, origin=given.name)
    print_file_diff(before or "", after, name=str(path))
    print_lines(_note_lines(imported))
    if not confirm(f"Add {counted(len(imported.sources), 'source')} to {path}?", yes=options.yes):
        print("Nothing was written.")
        return 1
    replace_file(path, after, before=before)
    names = ", ".join(source.name for source in imported.sources)
    print(f"{style('Added', 'green')} to {path}: {names}. Restart the gateway to use them.")
    return 0


class ImportedSource(Struct, frozen=True, kw_only=True):
    """One server as a source."""

    name: str
    options: dict[str, Any]
    """The keys of `[sources.NAME]`, in file order."""


class Import(Struct, frozen=True, kw_only=True):
    """The result of reading a file."""

    sources: tuple[ImportedSource, ...]
    variables: dict[str, str]
    """Variables to set before the next start, and what each is for."""
    notes: tuple[str, ...]
    """What was not imported."""


def servers_in(document: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The servers in any program's config file."""
    inner = document.get("mcp")
    for holder, key in ((document, "mcpServers"), (document, "servers"), (inner, "servers")):
        found = holder.get(key) if isinstance(holder, Mapping) else None
        if isinstance(found, dict):
            return found
    raise UsageError(f"{path} has no MCP servers: no 'mcpServers' or 'servers' object. Give another file.")


def read_servers(
    servers: Mapping[str, Any], *, taken: frozenset[str], folder: Path, own_urls: frozenset[str] = frozenset()
) -> Import:
    """All servers as sources.

    `taken`: source names in use. `folder`: the project of the file. `own_urls`: this gateway's, which must not become
    its own source.
    """
    secrets = SecretReplacer(folder=folder)
    sources: list[ImportedSource] = []
    notes: list[str] = []
    names: dict[str, str] = {}
    for given, server in servers.items():
        if not isinstance(server, dict):
            raise UsageError(f"Server '{given}' must be an object. Correct the file; nothing was changed.")
        if server.get("disabled") is True or server.get("enabled") is False:
            notes.append(f"'{given}' is disabled and was skipped.")
            continue
        if _is_this_gateway(server, own_urls):
            notes.append(f"'{given}' is this gateway and was skipped.")
            continue
        name = _source_name(given)
        if name in taken or name in names:
            owner = "a source of the config" if name in taken else f"the server '{names[name]}'"
            raise UsageError(
                f"The name '{name}' is taken by {owner}. Rename the server '{given}' in the file, or the other; "
                "nothing was changed."
            )
        names[name] = given
        sources.append(ImportedSource(name=name, options=_options(given, name, server, secrets)))
        unknown = sorted(server.keys() - _KEYS - _IGNORED)
        if unknown:
            notes.append(f"'{given}': {', '.join(unknown)} not supported and skipped.")
    return Import(sources=tuple(sources), variables=secrets.variables, notes=(*notes, *secrets.notes))


def _is_this_gateway(server: Mapping[str, Any], own_urls: frozenset[str]) -> bool:
    arguments = server.get("args")
    is_bridge = isinstance(arguments, list) and arguments[:1] == ["mcp"]
    if is_bridge and Path(str(server.get("command"))).name == "jackfield":
        return True
    return (_url(server) or "").partition("?")[0].rstrip("/") in own_urls


def _source_name(given: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", given).strip("-")[:_MAX_NAME]
    if not is_source_name(name) or name in RESERVED_SOURCES:
        raise UsageError(f"'{given}' cannot be a source's name. Rename that server in the file; nothing was changed.")
    return name


def _options(given: str, name: str, server: Mapping[str, Any], secrets: SecretReplacer) -> dict[str, Any]:
    url, transport = _url(server), _transport(given, server)
    options: dict[str, Any] = {"kind": "mcp"}
    if transport == "stdio":
        options["command"] = secrets.arguments(name, _command(given, server))
        if "cwd" in server:
            options["cwd"] = secrets.plain(_text(given, "cwd", server["cwd"]))
        if env := _texts(given, "env", server.get("env")):
            options["env"] = {key: secrets.variable(name, key, value) for key, value in env.items()}
        return options
    if url is None:
        raise UsageError(f"Server '{given}' has neither a command nor a url. Correct the file; nothing was changed.")
    options["url"] = secrets.url(name, url)
    options["transport"] = transport
    if headers := _texts(given, "headers", server.get("headers")):
        options["headers"] = {key: secrets.header(name, key, value) for key, value in headers.items()}
    return options


def _url(server: Mapping[str, Any]) -> str | None:
    url = server.get("url", server.get("serverUrl"))
    return url if isinstance(url, str) and url else None


def _transport(given: str, server: Mapping[str, Any]) -> str:
    kind = server.get("type") or server.get("transport") or server.get("transportType")
    if kind is None:
        if "command" in server:
            return "stdio"
        return "sse" if (_url(server) or "").partition("?")[0].rstrip("/").endswith("/sse") else "http"
    known = _TRANSPORTS.get(kind.lower()) if isinstance(kind, str) else None
    if known is None:
        raise UsageError(
            f"Server '{given}' has the type {kind!r}; supported are stdio, http and sse. Nothing was changed."
        )
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
        raise UsageError(
            f"'{key}' of server '{given}' must be an object of strings. Correct the file; nothing was changed."
        )
    return {name: _text(given, f"{key}.{name}", inner) for name, inner in value.items() if inner is not None}


def _text(given: str, key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"'{key}' of server '{given}' must be a string. Correct the file; nothing was changed.")


def with_sources(
    before: str, document: Mapping[str, Any], sources: Sequence[ImportedSource], *, path: Path, origin: str
) -> str:
    """The config with these sources appended."""
    wanted = {**document, "sources": {**document.get("sources", {}), **{one.name: one.options for one in sources}}}
    if path.suffix == ".json":
        return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    text = f"{before}{gap}# from {_comment(origin)}\n" + "\n".join(toml_of(source) for source in sources)
    try:
        is_valid = tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        is_valid = False
    if not is_valid:
        raise UsageError(
            f"{path} has its sources in a form that cannot be appended to. "
            "Write each as its own table, [sources.NAME]. Nothing was changed."
        )
    return text


def toml_of(source: ImportedSource) -> str:
    """A `[sources.NAME]` table; objects with several keys become sub-tables."""
    table = f"sources.{source.name}"
    lines = [f"[{table}]"]
    inner: list[str] = []
    for key, value in source.options.items():
        if isinstance(value, dict) and len(value) > 1:
            inner += ["", f"[{table}.{key}]", *(f"{_key(name)} = {_value(text)}" for name, text in value.items())]
        else:
            lines.append(f"{key} = {_value(value)}")
    return "\n".join([*lines, *inner, ""])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {_value(text)}" for name, text in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _comment(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    if path.suffix == ".json":
        return json_document(text, path, comments=False)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise UsageError(f"{path} is not valid TOML: {fault}. Correct it; nothing was changed.") from None


def _source_names(document: Mapping[str, Any], path: Path) -> frozenset[str]:
    sources = document.get("sources", {})
    if not isinstance(sources, dict):
        raise UsageError(f"'sources' in {path} must be a table. Correct it; nothing was changed.")
    return frozenset(sources)


def _own_urls(document: Mapping[str, Any]) -> frozenset[str]:
    """The `/mcp` URLs of this config's gateway, as far as the config says."""
    server = document.get("server")
    section = server if isinstance(server, dict) else {}
    port = os.environ.get("JACKFIELD_PORT") or section.get("port", ServerSettings().port)
    hosts = {"127.0.0.1", "localhost", "[::1]", str(section.get("host", "127.0.0.1"))}
    bases = {f"http://{host}:{port}" for host in hosts} | {str(section.get("public_url", "")).rstrip("/")}
    return frozenset(f"{base}/mcp" for base in bases if base)


def _project_folder(file: Path) -> Path:
    """The project folder; `.vscode` and `.cursor` are inside it."""
    folder = file.resolve().parent
    return folder.parent if folder.name in _EDITOR_FOLDERS else folder


def _note_lines(imported: Import) -> Iterator[str]:
    if imported.variables:
        yield ""
        yield "Set these before the next start, in the environment or in secrets.toml in the data folder (.jackfield):"
        width = max(map(len, imported.variables))
        for name, what in imported.variables.items():
            yield f"  {style(name.ljust(width), 'bold')}  {escape(what)}"
    for sentence in imported.notes:
        yield f"{style('note', 'yellow')}: {escape(sentence)}"
