"""TODO."""

import base64
import re
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.sources.http import Unfillable
from jackfield.sources.openapi.options import credentials_of, parse_options
from jackfield.sources.openapi.requests import OpenApiRequest, request_of
from tests.requirement import requirement
from tests.sources.openapi.scene import URL, document, json_body, offered, operation, parameter, service, tools_of
from tests.sources.upstream import Received, json_reply

LIST = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200}


def request(made: dict[str, Any], arguments: dict[str, Any], **options: Any) -> OpenApiRequest:
    parsed = parse_options({"url": URL, **options}, where="sources.shop")
    (found,) = offered(made, **options).operations.values()
    return request_of(found, arguments, credentials_of(parsed.auth, parsed.headers))


def with_parameter(value: Any, place: str, **more: Any) -> OpenApiRequest:
    path = "/x/{color}" if place == "path" else "/x"
    made = document({path: {"get": operation("x", parameters=[parameter("color", place, **more)])}})
    return request(made, {"color": value})


@pytest.mark.parametrize(
    ("style", "explode", "value", "written"),
    [
        ("simple", False, "blue", "blue"),
        ("simple", False, LIST, "blue,black,brown"),
        ("simple", True, LIST, "blue,black,brown"),
        ("simple", False, OBJECT, "R,100,G,200"),
        ("simple", True, OBJECT, "R=100,G=200"),
        ("label", False, "blue", ".blue"),
        ("label", False, LIST, ".blue,black,brown"),
        ("label", True, LIST, ".blue.black.brown"),
        ("label", True, OBJECT, ".R=100.G=200"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, LIST, ";color=blue,black,brown"),
        ("matrix", True, LIST, ";color=blue;color=black;color=brown"),
        ("matrix", False, OBJECT, ";color=R,100,G,200"),
        ("matrix", True, OBJECT, ";R=100;G=200"),
    ],
)
def test_a_path_parameter_is_written_in_its_style(style: str, explode: bool, value: Any, written: str) -> None:  # noqa: FBT001 - a table
    assert with_parameter(value, "path", style=style, explode=explode).url == f"https://service.example/x/{written}"


@pytest.mark.parametrize(
    ("more", "value", "written"),
    [
        ({}, "a b&c", "?color=a%20b%26c"),
        ({}, True, "?color=true"),
        ({}, 7, "?color=7"),
        ({}, "", "?color="),
        ({}, None, ""),
        ({}, [], ""),
        ({}, LIST, "?color=blue&color=black&color=brown"),
        ({"explode": False}, LIST, "?color=blue,black,brown"),
        ({}, OBJECT, "?R=100&G=200"),
        ({"explode": False}, OBJECT, "?color=R,100,G,200"),
        ({"style": "spaceDelimited"}, LIST, "?color=blue%20black%20brown"),
        ({"style": "pipeDelimited"}, LIST, "?color=blue%7Cblack%7Cbrown"),
        (
            {"style": "deepObject"},
            {"R": 100, "x": {"y": [1, 2]}},
            "?color%5BR%5D=100&color%5Bx%5D%5By%5D=1&color%5Bx%5D%5By%5D=2",
        ),
        ({"content": {"application/json": {"schema": {}}}}, {"a": [1]}, "?color=%7B%22a%22%3A%5B1%5D%7D"),
    ],
)
def test_a_query_parameter_is_written_in_its_style(more: dict[str, Any], value: Any, written: str) -> None:
    assert with_parameter(value, "query", **more).url == f"https://service.example/x{written}"


@pytest.mark.parametrize(
    ("explode", "value", "written"),
    [
        (False, "blue", "blue"),
        (False, LIST, "blue,black,brown"),
        (False, OBJECT, "R,100,G,200"),
        (True, OBJECT, "R=100,G=200"),
    ],
)
def test_a_header_is_written_simply(explode: bool, value: Any, written: str) -> None:  # noqa: FBT001 - a table
    assert with_parameter(value, "header", explode=explode).headers == {"color": written}


def test_cookies_are_one_header() -> None:
    parameters = [parameter("a", "cookie"), parameter("b", "cookie")]
    made = document({"/x": {"get": operation("x", parameters=parameters)}})
    assert request(made, {"a": "x;y", "b": 2}).headers == {"Cookie": "a=x%3By; b=2"}


@pytest.mark.parametrize("value", ["..", ".", "a/../b", "..\\x", "", None, [], ["a", ".."]])
def test_an_argument_cannot_change_the_shape_of_the_path(value: Any) -> None:
    with pytest.raises(Unfillable, match="'color'"):
        with_parameter(value, "path")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "ü", "\x00"])
def test_an_argument_cannot_add_a_header(value: str) -> None:
    with pytest.raises(Unfillable, match="'color' is sent as a header"):
        with_parameter(value, "header")


@given(st.text(min_size=1))
def test_whatever_text_a_path_argument_has_it_stays_within_its_place(text: str) -> None:
    try:
        url = with_parameter(text, "path").url
    except Unfillable:
        assert any(part in ("", ".", "..") for part in re.split(r"[/\\]", text))
        return
    except UnicodeEncodeError:
        return
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("https", "service.example", "", "")
    assert parts.path.count("/") == 2
    assert unquote(parts.path) == f"/x/{text}"


def test_the_body_is_json_of_the_fields_or_of_the_whole() -> None:
    fields = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}}
    by_field = document({"/x": {"post": operation("x", requestBody=json_body(fields))}})
    whole = document({"/x": {"post": operation("x", requestBody=json_body({"type": "array"}))}})

    sent = request(by_field, {"a": 1, "b": None})
    assert (sent.content, sent.headers) == (b'{"a":1,"b":null}', {"Content-Type": "application/json"})
    assert request(by_field, {}).content == b"{}"
    assert request(whole, {"body": [1, "x"]}).content == b'[1,"x"]'
    assert request(whole, {"body": None}).content == b"null"


def test_an_optional_body_of_which_nothing_is_given_is_not_sent() -> None:
    fields = {"type": "object", "properties": {"a": {"type": "integer"}}}
    made = document({"/x": {"post": operation("x", requestBody=json_body(fields, required=False))}})
    assert request(made, {}) == OpenApiRequest(url="https://service.example/x", headers={}, content=None)


def test_a_form_is_written_as_a_form() -> None:
    fields = {"type": "object", "properties": {"a b": {}, "list": {}, "deep": {}}}
    body = json_body(fields, media="application/x-www-form-urlencoded")
    sent = request(
        document({"/x": {"post": operation("x", requestBody=body)}}), {"a_b": "c&d", "list": [1, 2], "deep": {"x": 1}}
    )

    assert sent.content == b"a%20b=c%26d&list=1&list=2&deep=%7B%22x%22%3A1%7D"
    assert sent.headers == {"Content-Type": "application/x-www-form-urlencoded"}


def test_objects_in_a_form_are_written_deep_where_the_document_says_so() -> None:
    fields = {"type": "object", "properties": {"card": {"type": "object"}, "note": {"type": "object"}}}
    body = {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": fields,
                "encoding": {"card": {"style": "deepObject", "explode": True}},
            }
        },
    }
    made = document({"/x": {"post": operation("x", requestBody=body)}})
    sent = request(made, {"card": {"number": 42, "owner": {"name": "A B"}}, "note": {"a": 1}})
    assert sent.content == b"card%5Bnumber%5D=42&card%5Bowner%5D%5Bname%5D=A%20B&note=%7B%22a%22%3A1%7D"


@pytest.mark.parametrize(
    ("auth", "headers", "query"),
    [
        ({"type": "bearer", "token": "t-0001"}, {"Authorization": "Bearer t-0001"}, ""),
        ({"type": "basic", "user": "me", "password": "pw"}, {"Authorization": "Basic bWU6cHc="}, ""),
        ({"type": "api_key", "name": "X-Key", "value": "k-0001"}, {"X-Key": "k-0001"}, ""),
        ({"type": "api_key", "name": "key", "value": "k&1", "place": "query"}, {}, "?key=k%261"),
    ],
)
def test_configured_credentials_are_sent_with_every_request(
    auth: dict[str, str], headers: dict[str, str], query: str
) -> None:
    sent = request(document({"/x": {"get": operation("x")}}), {}, auth=auth, headers={"X-More": "m"})
    assert sent.url == f"https://service.example/x{query}"
    assert sent.headers == {"X-More": "m", **headers}


def test_a_number_that_json_cannot_hold_exactly_goes_on_as_it_is_written() -> None:
    assert with_parameter(msgspec.json.decode(b"12345678901234567890123"), "query").url.endswith(
        "=12345678901234567890123"
    )


def test_the_names_within_an_argument_cannot_leave_the_path_nor_set_what_the_config_sets() -> None:
    for value in ({"/../admin": 1}, {"..": 1}):
        with pytest.raises(Unfillable):
            with_parameter(value, "path", style="simple", explode=True)
    with pytest.raises(Unfillable):
        with_parameter("/../admin", "path", content={"application/json": {"schema": {}}})
    made = document(
        {"/x": {"get": operation("x", parameters=[parameter("more", "query", style="form", explode=True)])}}
    )
    auth = {"type": "api_key", "name": "api_key", "value": "the-operators", "place": "query"}
    with pytest.raises(Unfillable, match="'api_key' is set by the gateway's config"):
        request(made, {"more": {"api_key": "mine"}}, auth=auth)
    assert request(made, {"more": {"a": "b"}}, auth=auth).url.endswith("?a=b&api_key=the-operators")


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
