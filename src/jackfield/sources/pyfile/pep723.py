"""Inline script metadata (PEP 723): the comment block of a file that runs in a worker, and the packages it asks for.

For a sandboxed file, installing happens outside the sandbox, so nothing that its author wrote may run or be read there:
uv gets only the package names and versions that are read here, never the file.
Above: `reader.py`, `files.py`. Below: tokenize, which tells comments from strings that look like one.
"""

import io
import re
import tokenize
import tomllib
from typing import Any

from msgspec import Struct

from jackfield.workers.environments import Wheels

OPENING = "# /// script"
CLOSING = "# ///"
_CONTENT = re.compile(r"#( .*)?")
_PACKAGE = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[A-Za-z0-9._, -]*\])?\s*"
    r"(?:\(?[<>=!~][<>=!~A-Za-z0-9.*+_, -]*\)?)?\s*(?:;[\x20-\x7e]*)?"
)
"""PEP 508 without `name @ URL`."""
_PYTHON = re.compile(r"[<>=!~][<>=!~0-9A-Za-z.*, ]*")
ANY_PYTHON = ">=3.11"
_WHEELS_ONLY = "its source has a sandbox, so only wheels of the package index are installed"


class Header(Struct, frozen=True, kw_only=True):
    """A `# /// script` block. `metadata` is None if it cannot be parsed; `fault` then says why."""

    line: int
    metadata: dict[str, Any] | None = None
    fault: str | None = None


def find_header(source: str) -> Header | None:
    """The file's script block, valid or not; None if it has none."""
    if OPENING not in source:
        return None
    comments = _whole_line_comments(source)
    openings = [line for line, text in comments.items() if text == OPENING]
    if not openings:
        return None
    first = openings[0]
    content = _content_after(first, comments)
    if content is None:
        fault = f"the block has no closing line '{CLOSING}', or a line in it does not start with '#'"
        return Header(line=first, fault=fault)
    if any(line > first + len(content) for line in openings):
        return Header(line=first, fault=f"there is more than one '{OPENING}' block")
    try:
        return Header(line=first, metadata=tomllib.loads("\n".join(content)))
    except tomllib.TOMLDecodeError as error:
        return Header(line=first, fault=f"the block is not valid TOML: {error}")


def read_metadata(source: str) -> dict[str, Any] | None:
    """The script block as a dictionary; None if there is none or it is malformed (`find_header` tells which)."""
    header = find_header(source)
    return header.metadata if header else None


def _whole_line_comments(source: str) -> dict[int, str]:
    """Comments that start a line, by line number, as far as the text can be tokenized."""
    comments: dict[int, str] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and token.start[1] == 0:
                comments[token.start[0]] = token.string
    except (tokenize.TokenError, SyntaxError):
        pass  # the reader reports the syntax error; what was found before it still counts
    return comments


def _content_after(opening: int, comments: dict[int, str]) -> list[str] | None:
    """The block's lines without their prefix, up to the last closing line of the run of comments."""
    run: list[str] = []
    line = opening + 1
    while line in comments and _CONTENT.fullmatch(comments[line]):
        run.append(comments[line])
        line += 1
    if CLOSING not in run:
        return None
    end = len(run) - 1 - run[::-1].index(CLOSING)
    return [text.removeprefix("#").removeprefix(" ") for text in run[:end]]


class NotWheels(Exception):
    """The file needs more than wheels; the message follows the file's name and a colon."""


def wheels_of(metadata: dict[str, Any]) -> Wheels:
    """What to install for this `# /// script` block. Raises `NotWheels`."""
    tools = metadata.get("tool")
    if isinstance(tools, dict) and "uv" in tools:
        raise NotWheels(f"it has [tool.uv] settings, and {_WHEELS_ONLY}, with the gateway's settings. Remove them.")
    dependencies = metadata.get("dependencies", [])
    if not isinstance(dependencies, list):
        raise NotWheels("dependencies must be a list of packages. Correct it.")
    python = metadata.get("requires-python", ANY_PYTHON)
    if not isinstance(python, str) or not _PYTHON.fullmatch(python.strip()):
        raise NotWheels(f"requires-python is {python!r}, which is not a version range. Write '>=3.11'.")
    return Wheels(python=python.strip(), packages=tuple(_package(dependency) for dependency in dependencies))


def _package(dependency: Any) -> str:
    if not isinstance(dependency, str) or not _PACKAGE.fullmatch(dependency.strip()):
        said = f"it depends on {dependency!r}, and {_WHEELS_ONLY}: nothing from a path, an address or a repository"
        raise NotWheels(f"{said}. Name a package of the index, or move the file to a source without sandbox.")
    return dependency.strip()
