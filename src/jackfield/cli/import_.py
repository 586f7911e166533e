"""`jackfield import FILE`: the MCP servers of another program's config become sources of ours.

Above: `main.py`. Below: `mcp_json.py`, which translates; `files.py` and `consent.py`. What is in the config stays as it
is, comments and order too: the new sources are written at its end.
"""

import json
import os
import re
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jackfield.cli.consent import add_consent_argument, agreed, put_change
from jackfield.cli.files import json_object, read_text, replace_file
from jackfield.cli.mcp_json import Import, ImportedSource, read_servers, servers_in
from jackfield.cli.show import harmless, paint, put
from jackfield.cli.usage import UsageError
from jackfield.model.words import counted
from jackfield.settings import ServerSettings, find_config

DESCRIPTION = """\
Read the MCP servers of a file of Claude Code, Claude Desktop, Cursor or VS Code and add them to the config as sources
of kind "mcp". The change is shown first. Values that look like secrets are not copied: ${NAME} stands for them, and
you are told what to set.

exit codes: 0 added or nothing to add, 1 you said no, 2 not added"""
EXAMPLES = """\
  jackfield import .mcp.json
  jackfield import ~/.cursor/mcp.json --config demo/jackfield.toml
  jackfield import .vscode/mcp.json --yes"""
NEW_CONFIG = Path("jackfield.toml")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_EDITORS = frozenset({".vscode", ".cursor"})


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", help="the file with the servers: .mcp.json, .cursor/mcp.json, .vscode/mcp.json …")
    parser.add_argument(
        "--config", metavar="FILE", help="add them to this config (JACKFIELD_CONFIG; else the one here)"
    )
    add_consent_argument(parser)


def run(options: Namespace) -> int:
    given = Path(options.file).expanduser()
    servers = servers_in(json_object(read_text(given), given, comments=True), given)
    path = find_config(options.config) or NEW_CONFIG
    before = read_text(path) if path.exists() else None
    document = _parsed(before or "", path)
    imported = read_servers(
        servers, taken=_names(document, path), folder=_project_of(given), own_urls=_own_urls(document)
    )
    if not imported.sources:
        put(f"{given} has no servers to add.")
        _put_notes(imported)
        return 0
    after = added(before or "", document, imported.sources, path=path, origin=given.name)
    put_change(before or "", after, name=str(path))
    _put_notes(imported)
    if not agreed(f"Add {counted(len(imported.sources), 'source')} to {path}?", yes=options.yes):
        put("Nothing was written.")
        return 1
    replace_file(path, after, before=before)
    names = ", ".join(source.name for source in imported.sources)
    put(f"{paint('Added', 'green')} to {path}: {names}. Start the gateway anew to have them.")
    return 0


def added(
    before: str, document: Mapping[str, Any], sources: Sequence[ImportedSource], *, path: Path, origin: str
) -> str:
    """The config's text with these sources at its end. Whatever it held, it still holds."""
    wanted = {**document, "sources": {**document.get("sources", {}), **{one.name: one.options for one in sources}}}
    if path.suffix == ".json":
        return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    text = f"{before}{gap}# from {_comment(origin)}\n" + "\n".join(toml_of(source) for source in sources)
    try:
        is_as_wanted = tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        is_as_wanted = False
    if not is_as_wanted:
        raise UsageError(
            f"{path} writes its sources in a way that nothing can be added to at its end. "
            "Write each of them as a table of its own, [sources.NAME]; nothing was changed."
        )
    return text


def toml_of(source: ImportedSource) -> str:
    """One `[sources.NAME]`, with a table of its own for what has several keys."""
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
    return name if _BARE.fullmatch(name) else _value(name)


def _comment(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def _parsed(text: str, path: Path) -> dict[str, Any]:
    if path.suffix == ".json":
        return json_object(text, path, comments=False)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise UsageError(f"{path} is not valid TOML: {fault}. Correct that place; nothing was changed.") from None


def _names(document: Mapping[str, Any], path: Path) -> frozenset[str]:
    sources = document.get("sources", {})
    if not isinstance(sources, dict):
        raise UsageError(f"'sources' in {path} is no table. Correct it; nothing was changed.")
    return frozenset(sources)


def _own_urls(document: Mapping[str, Any]) -> frozenset[str]:
    """Where the gateway of this config answers MCP, as far as the config alone can say."""
    server = document.get("server")
    said = server if isinstance(server, dict) else {}
    port = os.environ.get("JACKFIELD_PORT") or said.get("port", ServerSettings().port)
    hosts = {"127.0.0.1", "localhost", "[::1]", str(said.get("host", "127.0.0.1"))}
    bases = {f"http://{host}:{port}" for host in hosts} | {str(said.get("public_url", "")).rstrip("/")}
    return frozenset(f"{base}/mcp" for base in bases if base)


def _project_of(file: Path) -> Path:
    """The folder that the file speaks of: `.vscode` and `.cursor` lie in it."""
    folder = file.resolve().parent
    return folder.parent if folder.name in _EDITORS else folder


def _put_notes(imported: Import) -> None:
    for line in _note_lines(imported):
        put(line)


def _note_lines(imported: Import) -> Iterator[str]:
    if imported.variables:
        yield ""
        yield "Set before the next start, in the environment or in secrets.toml in the data folder (.jackfield):"
        width = max(map(len, imported.variables))
        for name, what in imported.variables.items():
            yield f"  {paint(name.ljust(width), 'bold')}  {harmless(what)}"
    for sentence in imported.notes:
        yield f"{paint('note', 'yellow')}: {harmless(sentence)}"
