import re
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.sources.http_requests import Unfillable
from jackfield.sources.openapi.credentials import credentials_of
from jackfield.sources.openapi.messages import Request, request_of
from jackfield.sources.openapi.options import parse_options
from tests.sources.openapi.scene import URL, document, json_body, offered, operation, parameter

LIST = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200}


def request(made: dict[str, Any], arguments: dict[str, Any], **options: Any) -> Request:
    parsed = parse_options({"url": URL, **options}, where="sources.shop")
    (found,) = offered(made, **options).operations.values()
    return request_of(found, arguments, credentials_of(parsed.auth, parsed.headers))


def with_parameter(value: Any, place: str, **more: Any) -> Request:
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
    assert request(made, {}) == Request(url="https://service.example/x", headers={}, content=None)


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
def test_what_the_operator_lends_is_sent_with_every_request(
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
