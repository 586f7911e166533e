"""The parsers at the gateway's borders, each as a function of bytes that may only fail in the way it promises.

A target takes any bytes. It returns, or raises one of its `refuses`; everything else is a finding. Some check more than
that: what is parsed in pieces must be what is parsed whole, and what a parser says again must be what it said.
"""

import contextlib
import itertools
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from jackfield.audit.verification import verify
from jackfield.backup.archive import BackupError, unpack
from jackfield.catalog.globs import check_bounds, compiled
from jackfield.connections.oauth.challenges import parse_challenges
from jackfield.errors import BadRequest, ConfigError
from jackfield.http.request import time_in
from jackfield.llm.chat_stream import BrokenStream, ChatStream, ProviderError
from jackfield.llm.retries import read_fault
from jackfield.model.content import collapse, expand
from jackfield.outgoing.errors import OutgoingError
from jackfield.outgoing.urls import origin_of, parse_url, target_of
from jackfield.protocol import jsonrpc
from jackfield.protocol.json_bodies import UNREADABLE, check_depth, decoded
from jackfield.protocol.lines import LineSplitter
from jackfield.protocol.mcp import header_value
from jackfield.protocol.schemas import ArgumentChecker, fault_in
from jackfield.protocol.sse import EventParser
from jackfield.responses.request import read_request
from jackfield.settings import load_settings
from jackfield.sources.foreign import ListingRules
from jackfield.sources.manifest.parser import BadManifest, manifest_of
from jackfield.sources.mcp.handlers import (
    as_progress,
    log_note,
    opened_id,
    related_task,
    subscription_number,
    updated_uri,
)
from jackfield.sources.mcp.listing import mcp_listing
from jackfield.sources.mcp.results import outcome_of
from jackfield.sources.openapi.document import Unreadable
from jackfield.sources.openapi.operations import openapi_listing
from jackfield.sources.openapi.options import Credentials, OpenApiOptions
from jackfield.sources.openapi.yaml_text import BadYaml, read_yaml
from jackfield.sources.pyfile.pep723 import read_metadata
from jackfield.sources.pyfile.reader import read_file
from jackfield.sources.skills.entries import BadSkill, frontmatter_in
from jackfield.workers.channel import InvalidMessage, decode_message

CORPUS = Path(__file__).parent / "corpus"
RULES = ListingRules(source="far", server="http://far.example")
LINE_LIMIT = 64


class Target:
    """One parser."""

    def __init__(self, run: Callable[[bytes], None], *, refuses: Sequence[type[BaseException]] = ()) -> None:
        self._run = run
        self._refuses = tuple(refuses)

    def __call__(self, data: bytes) -> None:
        with contextlib.suppress(*self._refuses):
            self._run(data)


def json_rpc(data: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError, jsonrpc.RpcError):
        jsonrpc.message_of(msgspec.json.decode(data, type=jsonrpc.UncheckedMessage))
    for message in jsonrpc.parse(data):
        with contextlib.suppress(jsonrpc.RpcError):
            message.unwrap()


def server_sent_events(data: bytes) -> None:
    whole = EventParser().feed(data)
    parser = EventParser()
    assert list(itertools.chain.from_iterable(map(parser.feed, pieces(data)))) == whole


def framed_lines(data: bytes) -> None:
    whole = LineSplitter(limit=LINE_LIMIT).feed(data)
    splitter = LineSplitter(limit=LINE_LIMIT)
    lines = list(itertools.chain.from_iterable(map(splitter.feed, pieces(data))))
    assert lines == whole
    assert len(splitter.partial) <= LINE_LIMIT


def worker_message(data: bytes) -> None:
    decode_message(data)


def chat_stream(data: bytes) -> None:
    stream = ChatStream()
    for piece in pieces(data):
        stream.feed(piece)
    stream.end()


def openapi_document(data: bytes) -> None:
    options = OpenApiOptions(url="http://far.example/openapi.json")
    openapi_listing(data, source="far", options=options, credentials=Credentials())


def yaml_text(data: bytes) -> None:
    read_yaml(data)


def manifest(data: bytes) -> None:
    manifest_of(data, RULES)


def mcp_tools(data: bytes) -> None:
    try:
        definitions = msgspec.json.decode(data, type=list[Raw])
    except UNREADABLE:
        return
    mcp_listing(definitions, RULES)


def mcp_result(data: bytes) -> None:
    outcome_of(Raw(data))


def mcp_notification(data: bytes) -> None:
    for read in (as_progress, log_note, opened_id, related_task, subscription_number, updated_uri):
        read(Raw(data))


def provider_error(data: bytes) -> None:
    read_fault(data)


def content(data: bytes) -> None:
    collapse(expand(Raw(valid_json(data))))


def json_schema(data: bytes) -> None:
    """The first line is a schema, the rest are arguments."""
    first, _, rest = data.partition(b"\n")
    schema = msgspec.json.decode(first, type=dict[str, Any])
    if fault_in(schema, is_foreign=True, brings_values=True) is None:
        arguments = msgspec.json.decode(rest or b"{}")
        checker = ArgumentChecker(schema)
        assert checker.fits(arguments) is not bool(checker.check(arguments))


def globs(data: bytes) -> None:
    """The first line is a name, the rest are patterns."""
    name, *patterns = data.decode("utf-8", "replace").split("\n")
    check_bounds(patterns, param="tools")
    compiled(tuple(patterns)).match(name, source="far", foreign=name)


def oauth_challenge(data: bytes) -> None:
    parse_challenges(data.decode("latin-1"))


def tool_file(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    read_file(text, label="tools/far.py")
    with contextlib.suppress(ValueError):
        read_metadata(text)


def config(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "jackfield.toml"
        path.write_bytes(data)
        load_settings(path, environment={})


def responses_request(data: bytes) -> None:
    read_request(decoded(data, msgspec.json.Decoder(dict[str, Any]).decode, into=dict))


def request_body(data: bytes) -> None:
    check_depth([data])
    decoded(data, msgspec.json.decode, into=dict)


def skill(data: bytes) -> None:
    frontmatter_in(data)


def url(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    target_of(text)
    normal = parse_url(text)
    assert parse_url(str(normal)) == normal
    assert origin_of(normal) == origin_of(parse_url(str(normal)))


def query_time(data: bytes) -> None:
    time_in(data.decode("utf-8", "replace"), param="since")


def param_header(data: bytes) -> None:
    header_value(data)


def backup(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as outer:
        path, folder = Path(outer) / "file", Path(outer) / "restored"
        folder.mkdir()
        path.write_bytes(data)
        try:
            unpack(path, folder)
        finally:
            assert {path.name for path in Path(outer).iterdir()} == {"file", "restored"}


def audit_export(data: bytes) -> None:
    verify(lambda: data.splitlines(keepends=True))


TARGETS: dict[str, Target] = {
    "audit-export": Target(audit_export),
    "backup": Target(backup, refuses=[BackupError]),
    "chat-stream": Target(chat_stream, refuses=[BrokenStream, ProviderError]),
    "config": Target(config, refuses=[ConfigError]),
    "content": Target(content, refuses=[msgspec.MsgspecError, UnicodeDecodeError]),
    "framed-lines": Target(framed_lines),
    "globs": Target(globs, refuses=[BadRequest]),
    "json-rpc": Target(json_rpc, refuses=[jsonrpc.NotAMessage]),
    "json-schema": Target(json_schema, refuses=[msgspec.MsgspecError, UnicodeDecodeError, RecursionError]),
    "manifest": Target(manifest, refuses=[BadManifest]),
    "mcp-notification": Target(mcp_notification),
    "mcp-result": Target(mcp_result),
    "mcp-tools": Target(mcp_tools),
    "oauth-challenge": Target(oauth_challenge),
    "openapi-document": Target(openapi_document, refuses=[Unreadable]),
    "param-header": Target(param_header, refuses=[ValueError]),
    "provider-error": Target(provider_error),
    "query-time": Target(query_time, refuses=[BadRequest]),
    "request-body": Target(request_body, refuses=[BadRequest]),
    "responses-request": Target(responses_request, refuses=[BadRequest]),
    "server-sent-events": Target(server_sent_events),
    "skill": Target(skill, refuses=[BadSkill]),
    "tool-file": Target(tool_file, refuses=[SyntaxError]),
    "url": Target(url, refuses=[OutgoingError]),
    "worker-message": Target(worker_message, refuses=[InvalidMessage]),
    "yaml-text": Target(yaml_text, refuses=[BadYaml]),
}


def pieces(data: bytes) -> list[bytes]:
    """The same bytes in pieces, cut at places that depend on them."""
    sizes = itertools.cycle([1 + byte % 7 for byte in data[:16]] or [1])
    found = []
    start = 0
    while start < len(data):
        size = next(sizes)
        found.append(data[start : start + size])
        start += size
    return found


def valid_json(data: bytes) -> bytes:
    """What the transport has decoded before it hands a part on raw."""
    msgspec.json.decode(data)
    data.decode()
    return data


def seeds(name: str) -> list[bytes]:
    """The inputs that are kept for a target."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def words(name: str) -> list[bytes]:
    """The words of a target's corpus, for a fuzzer to put together."""
    found = {word for seed in seeds(name) for word in re.findall(rb"[\w$/.-]{2,24}|[^\w\s]", seed)}
    return sorted(found)[:256]
