"""Converts a large document in a process of its own, because doing it here would hold up every call.

A thread is not enough: decoding 30 MB is one step of the interpreter, and so is a garbage collection among the millions
of values that it makes. `python -m jackfield.sources.openapi.reader_process` is the child: options and document on its
stdin, one line per tool on its stdout. Schemas that tools share have lines of their own and are shared again here.
"""

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from jackfield.model.tool import Category, Tool
from jackfield.sources.base import Listing
from jackfield.sources.openapi.document import Unreadable
from jackfield.sources.openapi.operations import OpenApiListing, OpenApiOperation, openapi_listing
from jackfield.sources.openapi.options import Credentials, OpenApiOptions, credentials_of

LARGE_JSON = 1024 * 1024
LARGE_YAML = 64 * 1024
SECONDS = 180.0
MEMORY_FOR_EACH_BYTE = 60
LEAST_MEMORY = 2 * 1024**3
_HEAD = 8
_KEPT_ENVIRONMENT = ("PATH", "PYTHONPATH", "HOME", "LANG")


class _Task(Struct, frozen=True, kw_only=True):
    source: str
    options: OpenApiOptions


class _Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of: a shared schema, a tool, the end, a document that cannot be used."""

    part: dict[str, Any] | None = None
    tool: Tool | None = None
    operation: OpenApiOperation | None = None
    definition: Raw = Raw(b"null")
    """What the tool is pinned by, to the byte."""
    parts: dict[str, int] = {}
    """The tool's `$defs`: which of the shared schemas each is."""
    categories: tuple[Category, ...] = ()
    faults: tuple[str, ...] = ()
    unreadable: str | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


async def listing_from(
    content: bytes, *, source: str, options: OpenApiOptions, credentials: Credentials
) -> OpenApiListing:
    """As `openapi_listing`, without blocking the event loop."""
    if len(content) <= (LARGE_JSON if content.lstrip()[:1] in (b"{", b"[") else LARGE_YAML):
        return await asyncio.to_thread(
            openapi_listing, content, source=source, options=options, credentials=credentials
        )
    written = await _ask(_encode(_Task(source=source, options=options)), content)
    return await asyncio.to_thread(_joined, written)


async def _ask(task: bytes, content: bytes) -> bytes:
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(SECONDS):
            written, _ = await process.communicate(len(task).to_bytes(_HEAD) + task + content)
    except TimeoutError:
        raise Unreadable(f"was not read within {SECONDS:g} s. Choose fewer operations with 'include'.") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise Unreadable("could not be read: it takes more memory than is allowed for its size.")
    return written


def _joined(written: bytes) -> OpenApiListing:
    parts: list[dict[str, Any]] = []
    tools: list[Tool] = []
    operations: dict[str, OpenApiOperation] = {}
    for text in written.splitlines():
        line = _decode(text)
        if line.part is not None:
            parts.append(line.part)
        elif line.tool is not None and line.operation is not None:
            tool, definition = line.tool, line.definition.copy()  # a view would keep its whole line
            if line.parts:
                definitions = {name: parts[index] for name, index in line.parts.items()}
                tool = msgspec.structs.replace(tool, input_schema={**tool.input_schema, "$defs": definitions})
            tools.append(msgspec.structs.replace(tool, definition=definition))
            operations[tool.name] = msgspec.structs.replace(line.operation, definition=definition)
        elif line.unreadable is not None:
            raise Unreadable(line.unreadable)
        else:
            listing = Listing(tools=tuple(tools), categories=line.categories, faults=line.faults)
            return OpenApiListing(listing=listing, operations=operations)
    raise Unreadable("could not be read: its reader ended early.")


def _lines(offer: OpenApiListing) -> Iterator[_Line]:
    numbers: dict[int, int] = {}
    """By the identity of a shared schema."""
    for tool in offer.listing.tools:
        definitions: dict[str, Any] = tool.input_schema.get("$defs", {})
        for schema in definitions.values():
            if id(schema) not in numbers:
                numbers[id(schema)] = len(numbers)
                yield _Line(part=schema)
        operation = offer.operations[tool.name]
        inputs = msgspec.structs.replace(operation.inputs, schema={})
        schema = {key: value for key, value in tool.input_schema.items() if key != "$defs"}
        yield _Line(
            tool=msgspec.structs.replace(tool, input_schema=schema, definition=None),
            definition=tool.definition or Raw(b"null"),
            operation=msgspec.structs.replace(operation, inputs=inputs, definition=None),
            parts={name: numbers[id(schema)] for name, schema in definitions.items()},
        )
    yield _Line(categories=offer.listing.categories, faults=offer.listing.faults)


def main() -> None:
    """The child's side."""
    given = sys.stdin.buffer
    task = msgspec.json.decode(given.read(int.from_bytes(given.read(_HEAD))), type=_Task)
    content = given.read()
    most = LEAST_MEMORY + MEMORY_FOR_EACH_BYTE * len(content)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    lent = credentials_of(task.options.auth, task.options.headers)
    try:
        lines = _lines(openapi_listing(content, source=task.source, options=task.options, credentials=lent))
        for line in lines:
            sys.stdout.buffer.write(_encode(line) + b"\n")
    except Unreadable as fault:
        sys.stdout.buffer.write(_encode(_Line(unreadable=str(fault))) + b"\n")


if __name__ == "__main__":
    main()
