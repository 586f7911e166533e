"""Reading a body: what arrives late, in pieces, or not at all."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from jackfield.errors import BadRequest, TooLarge, WrongMediaType
from jackfield.http import bodies
from jackfield.http.bodies import BodyReader, ClientGone
from jackfield.http.hosts import Hosts
from jackfield.http.request import Request
from jackfield.http.response import Sanitizer
from jackfield.http.streams import Streams
from jackfield.protocol.errors import TooSlow
from jackfield.protocol.json_bodies import DEEPEST, check_depth, check_media_type
from jackfield.settings import ServerSettings

JSON = [(b"content-type", b"application/json")]


class Note(Struct, forbid_unknown_fields=True):
    text: str = ""
    inner: dict[str, Any] = {}


class Strict(Struct, forbid_unknown_fields=True):
    needed: int


NOTES = BodyReader(Note)


def request_of(*messages: dict[str, Any], headers: list[tuple[bytes, bytes]] = JSON) -> Request:
    """A request whose body comes in these messages and then no more."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    return Request(
        {"type": "http", "headers": headers},
        receive,
        hosts=Hosts(ServerSettings()),
        streams=Streams(),
        sanitizer=Sanitizer(lambda: ()),
        max_body=100,
    )


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_is_one_body() -> None:
    request = request_of(part(b'{"te'), part(b'xt": "h'), part(b'i"}', more=False))
    assert await NOTES.read(request) == Note(text="hi")


async def test_a_client_that_hangs_up_midway_is_gone() -> None:
    with pytest.raises(ClientGone):
        await NOTES.read(request_of(part(b'{"te'), {"type": "http.disconnect"}))
    with pytest.raises(ClientGone):
        await NOTES.read(request_of({"type": "http.disconnect"}))


async def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_WITHIN", 0.01)
    with pytest.raises(TooSlow):
        await NOTES.read(request_of(part(b'{"te')))


async def test_a_body_over_the_limit_is_refused_as_soon_as_that_is_known() -> None:
    with pytest.raises(TooLarge):
        await NOTES.read(request_of(part(b"x" * 60), part(b"x" * 60)))
    with pytest.raises(TooLarge):
        await NOTES.read(request_of(headers=[*JSON, (b"content-length", b"101")]))
    with pytest.raises(TooLarge):
        await NOTES.read(request_of(part(b"x" * 101, more=False)))


async def test_a_missing_body_is_refused_where_one_is_needed() -> None:
    with pytest.raises(BadRequest, match="no body"):
        await NOTES.read(request_of(part(b"", more=False)))
    assert await BodyReader(Note, required=False).read(request_of(part(b"", more=False))) == Note()


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        (b"{}", "needed", "needs the key 'needed'"),
        (b'{"needed": 1, "neded": 2}', "neded", "Did you mean 'needed'?"),
        (b'{"needed": "1"}', "needed", "expected `int`, got `str`"),
        (b'{"' + b"k" * 60 + b'": 1}', "k" * 60, "Known here: needed."),
    ],
)
async def test_what_does_not_fit_is_named(body: bytes, param: str, says: str) -> None:
    with pytest.raises(BadRequest) as refused:
        await BodyReader(Strict).read(request_of(part(body, more=False)))
    assert refused.value.param == param
    assert says in refused.value.message


@pytest.mark.parametrize("media", [b"application/json", b"APPLICATION/JSON;charset=utf-8", b"application/x.y+json"])
def test_json_has_several_names(media: bytes) -> None:
    check_media_type(media)


@pytest.mark.parametrize("media", [None, b"", b"text/json", b"application/xml", b"image/svg+json"])
def test_other_media_are_refused(media: bytes | None) -> None:
    with pytest.raises(WrongMediaType):
        check_media_type(media)


@pytest.mark.parametrize(("depth", "fits"), [(DEEPEST - 2, True), (DEEPEST - 1, False)])
def test_depth_is_counted_from_the_body_down(depth: int, *, fits: bool) -> None:
    inner: Any = {}
    for _ in range(depth):
        inner = {"a": inner}
    body = msgspec.json.encode({"inner": inner})
    note = msgspec.json.decode(body, type=Note)
    assert body.count(b"{") == depth + 2
    if fits:
        check_depth(msgspec.structs.astuple(note))
    else:
        with pytest.raises(BadRequest, match="deep"):
            check_depth(msgspec.structs.astuple(note))
