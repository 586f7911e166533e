"""Large documents are read in a process of their own, with the same outcome as here."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.openapi_document import large_document
from jackfield.sources.openapi import reader_process
from jackfield.sources.openapi.document import Unreadable
from jackfield.sources.openapi.operations import OpenApiListing
from jackfield.sources.openapi.options import credentials_of, parse_options
from tests.requirement import requirement
from tests.sources.openapi.scene import URL, document, offered, operation
from tests.sources.openapi.test_requests import uploading
from tests.sources.openapi.test_swagger import PETS as SWAGGER
from tests.sources.openapi.test_yaml import BOMB, PETS
from tests.sources.workers import children, is_alive, until

KEY = {"type": "api_key", "name": "key", "value": "a-secret-key", "place": "query"}


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its size, a document counts as large, and reading it in this process is a fault."""

    def read_here(*_: Any, **__: Any) -> OpenApiListing:
        raise AssertionError("it was read in this process")

    monkeypatch.setattr(reader_process, "LARGE_JSON", 0)
    monkeypatch.setattr(reader_process, "LARGE_YAML", 0)
    monkeypatch.setattr(reader_process, "openapi_listing", read_here)


async def read(content: bytes, **options: Any) -> OpenApiListing:
    parsed = parse_options({"url": URL, **options}, where="sources.shop")
    lent = credentials_of(parsed.auth, parsed.headers)
    return await reader_process.listing_from(content, source="shop", options=parsed, credentials=lent)


@requirement("CON-openapi-formats")
@pytest.mark.usefixtures("nothing_here")
@pytest.mark.parametrize(
    "content",
    [
        large_document(60),
        PETS,
        msgspec.json.encode(SWAGGER),
        msgspec.json.encode(uploading()),
        msgspec.json.encode(document({"/a": {"get": operation("a", parameters=[{"$ref": "x"}])}})),
    ],
    ids=["large", "yaml", "swagger", "files", "faults"],
)
async def test_what_is_read_there_is_what_would_be_read_here(content: bytes) -> None:
    options: dict[str, Any] = {"auth": KEY, "select": {"get_pet": ["name"]}, "call_timeout": 5}
    here, there = offered(content, **options), await read(content, **options)
    assert there.listing == here.listing
    assert there.operations.keys() == here.operations.keys()
    for name, found in here.operations.items():
        bare = msgspec.structs.replace(found, inputs=msgspec.structs.replace(found.inputs, schema={}))
        assert there.operations[name] == bare


@pytest.mark.usefixtures("nothing_here")
async def test_schemas_that_tools_share_are_shared_again() -> None:
    tools = {tool.name: tool for tool in (await read(large_document(60))).listing.tools}
    one, other = (tools[name].input_schema["$defs"]["Owner"] for name in ("create_ticket5", "replace_ticket5"))
    assert one is other


@pytest.mark.usefixtures("nothing_here")
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "is not valid JSON"),
        (f"openapi: 3.0.0\n{BOMB}".encode(), "with its aliases written out it would be many times its size"),
    ],
)
async def test_a_document_that_cannot_be_used_is_said_in_the_same_words(content: bytes, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        await read(content)


@pytest.mark.usefixtures("nothing_here")
async def test_a_reader_that_dies_or_lasts_too_long_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_process, "SECONDS", 0.001)
    with pytest.raises(Unreadable, match=r"was not read within 0.001 s"):
        await read(large_document(60))
    monkeypatch.setattr(reader_process, "SECONDS", 60)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Unreadable, match="could not be read"):
        await read(large_document(60))


@pytest.mark.usefixtures("nothing_here")
async def test_a_source_that_is_closed_meanwhile_leaves_no_reader_behind() -> None:
    before = children()
    reading = asyncio.create_task(read(large_document(2000)))
    await until(lambda: bool(children() - before))
    started = children() - before
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    await until(lambda: not any(is_alive(pid) for pid in started))
    assert os.getpid() not in started
