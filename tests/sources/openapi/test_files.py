"""Bodies that are not JSON: files in forms of many parts, bytes, and text that nobody here reads."""

import base64
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tests.requirement import requirement
from tests.sources.openapi.scene import document, json_body, offered, operation, service, tools_of
from tests.sources.upstream import Received, json_reply

BINARY = {"type": "string", "format": "binary"}
UPLOAD: dict[str, Any] = {
    "type": "object",
    "required": ["photo"],
    "properties": {
        "photo": {"$ref": "#/components/schemas/Photo"},
        "more": {"type": "array", "items": {"contentMediaType": "application/octet-stream"}},
        "title": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "object", "properties": {"x": {"type": "number"}}},
        "notes": {"type": "string"},
    },
}
PNG = b"\x89PNG\r\n\x1a\n\x00"


def uploading(media: str = "multipart/form-data", schema: Any = UPLOAD, **more: Any) -> dict[str, Any]:
    content = {media: {"schema": schema, **more}}
    body = {"required": True, "content": content}
    paths = {"/up": {"post": operation("up", requestBody=body)}}
    return document(paths, components={"schemas": {"Photo": {**BINARY, "description": "The photo."}}})


def parts(request: Received) -> list[Message]:
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    read = message_from_bytes(head + request.body)
    assert not read.defects
    found = read.get_payload()
    assert isinstance(found, list)
    return found  # type: ignore[return-value]


async def sent(folder: Path, content: dict[str, Any], **arguments: Any) -> Received:
    async with service(folder, content) as shop:
        shop.upstream.answers["/up"] = json_reply({"ok": True})
        assert await shop.result("up", **arguments) == {"ok": True}
        [request] = [one for one in shop.upstream.received if one.target == "/up"]
        return request


@requirement("CON-openapi-bodies")
async def test_a_form_of_many_parts_carries_files_texts_lists_and_objects(tmp_path: Path) -> None:
    request = await sent(
        tmp_path,
        uploading(encoding={"notes": {"contentType": "text/markdown"}, "photo": {"contentType": "image/png"}}),
        photo={"base64": base64.b64encode(PNG).decode(), "filename": 'a "b"\n.png', "media_type": "image/png"},
        more=[{"text": "one"}, {"text": "two", "filename": "two.txt"}],
        title="Zürich",
        tags=["a", "b"],
        place={"x": 1.5},
        notes="# Hi",
    )
    told = [
        (part.get_param("name", header="content-disposition"), part["content-type"], part.get_payload(decode=True))
        for part in parts(request)
    ]
    assert told == [
        ("photo", "image/png", PNG),
        ("more", "text/plain; charset=utf-8", b"one"),
        ("more", "text/plain; charset=utf-8", b"two"),
        ("title", None, "Zürich".encode()),
        ("tags", None, b"a"),
        ("tags", None, b"b"),
        ("place", "application/json", b'{"x":1.5}'),
        ("notes", "text/markdown", b"# Hi"),
    ]
    assert b'filename="a %22b%22%0A.png"' in request.body


def test_a_file_is_an_object_with_its_bytes_or_its_text() -> None:
    schema = tools_of(uploading())["up"].input_schema
    photo = schema["properties"]["photo"]
    assert photo["description"] == "The photo. A file: its bytes in base64, or its text."
    assert set(photo["properties"]) == {"base64", "text", "filename", "media_type"}
    assert schema["properties"]["more"]["items"]["oneOf"] == [{"required": ["base64"]}, {"required": ["text"]}]
    assert schema["required"] == ["photo"]


@pytest.mark.parametrize(
    ("photo", "says"),
    [
        ({"base64": "no base64!"}, "has a 'base64' that cannot be decoded"),
        ({"text": "x", "media_type": "image/png\r\nX-Evil: 1"}, "The 'media_type' of the argument 'photo' is none"),
        ("bare", "is a file. Give it as an object with 'base64' or 'text'."),
    ],
)
async def test_a_file_that_is_none_is_said_and_nothing_is_sent(tmp_path: Path, photo: Any, says: str) -> None:
    async with service(tmp_path, uploading()) as shop:
        failure = await shop.failure("up", photo=photo)
        assert failure.code == "invalid_arguments"
        assert says in failure.message
        assert "/up" not in shop.upstream.targets


@requirement("CON-openapi-bodies")
@pytest.mark.parametrize(
    ("media", "argument", "kind", "body"),
    [
        ("application/octet-stream", {"base64": "AAE="}, "application/octet-stream", b"\x00\x01"),
        ("image/*", {"base64": "AAE=", "media_type": "image/gif"}, "image/gif", b"\x00\x01"),
        ("application/pdf", {"text": "%PDF"}, "application/pdf", b"%PDF"),
        ("text/plain", "grüezi", "text/plain; charset=utf-8", "grüezi".encode()),
        ("application/xml", "<a/>", "application/xml; charset=utf-8", b"<a/>"),
    ],
)
async def test_a_body_of_bytes_or_text_is_sent_as_it_is(
    tmp_path: Path, media: str, argument: Any, kind: str, body: bytes
) -> None:
    request = await sent(tmp_path, uploading(media, BINARY), body=argument)
    assert (request.headers["content-type"], request.body) == (kind, body)


async def test_a_form_whose_fields_the_document_does_not_name_is_one_argument(tmp_path: Path) -> None:
    request = await sent(tmp_path, uploading(schema={"type": "object"}), body={"a": 1, "file": {"text": "hello"}})
    assert [part.get_filename() for part in parts(request)] == [None, "file"]


def test_json_is_taken_before_a_form_and_a_form_before_bytes() -> None:
    content = {media: {"schema": {"type": "object", "properties": {"a": {}}}} for media in ("x/y", "text/csv")}
    for media, place in (("multipart/form-data", "a"), ("application/json", "a")):
        content[media] = {"schema": {"type": "object", "properties": {"a": {}}}}
        made = document({"/up": {"post": operation("up", requestBody={"content": content})}})
        offer = offered(made)
        assert offer.operations["up"].inputs.content_type == media
        assert place in offer.listing.tools[0].input_schema["properties"]


def test_what_a_tool_is_pinned_by_is_as_before_where_nothing_new_is_used() -> None:
    made = document({"/a": {"post": operation("a", requestBody=json_body({"properties": {"x": {}}}))}})
    definition = bytes(offered(made).listing.tools[0].definition or b"")
    assert (
        b'"places":[{"argument":"x","where":"field","name":"x","style":"","explode":false,"as_json":false}]'
        in definition
    )
