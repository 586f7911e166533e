"""Inline script metadata (PEP 723): the comment block that says a file wants a process of its own.

Above: `reader.py`. Below: tokenize, which knows a comment from a string that looks like one.
"""

import io
import re
import tokenize
import tomllib
from typing import Any

from msgspec import Struct

OPENING = "# /// script"
CLOSING = "# ///"
_CONTENT = re.compile(r"#( .*)?")


class Header(Struct, frozen=True, kw_only=True):
    """A `# /// script` block. `metadata` is None when it cannot be read, and then `fault` says why."""

    line: int
    metadata: dict[str, Any] | None = None
    fault: str | None = None


def find_header(source: str) -> Header | None:
    """The file's script block, readable or not; None when it has none."""
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
    """The script block as a dictionary; None when there is none or it is malformed (`find_header` tells which)."""
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
    """The block's lines without their prefix. It ends at the last closing line of its run of comments."""
    run: list[str] = []
    line = opening + 1
    while line in comments and _CONTENT.fullmatch(comments[line]):
        run.append(comments[line])
        line += 1
    if CLOSING not in run:
        return None
    end = len(run) - 1 - run[::-1].index(CLOSING)
    return [text.removeprefix("#").removeprefix(" ") for text in run[:end]]
