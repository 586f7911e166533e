import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from jackfield.errors import ConfigError
from jackfield.outgoing import (
    Outgoing,
    OutgoingBadAnswer,
    OutgoingBadUrl,
    OutgoingFailed,
    OutgoingRefused,
    OutgoingTimedOut,
    OutgoingUnreachable,
)
from tests.outgoing.names import Names
from tests.sources.upstream import Received, Upstream, json_reply, never, redirect, reply

CERTIFICATE = Path(__file__).parent / "weather_example.pem"
NAMES = {
    "open.example": "127.0.0.1",
    "closed.example": "127.0.0.1",
    "db.internal": "127.0.0.1",
    "weather.example": "127.0.0.1",
}


@pytest.fixture
async def server() -> AsyncIterator[Upstream]:
    async with Upstream() as upstream:
        upstream.answers["/ok"] = json_reply({"ok": True})
        yield upstream


@pytest.fixture
async def outgoing() -> AsyncIterator[Outgoing]:
    """`open.example` stands for a public host; every other name on loopback is closed."""
    async with Outgoing(("open.example",), resolve=Names(NAMES)) as client:
        yield client


async def test_an_answer_has_status_headers_body_and_url(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/teapot"] = reply(418, b"short and stout", x_kind="pot")

    answer = await outgoing.request("get", server.at("open.example") + "/teapot", params=(("a", "1"),))

    assert (answer.status, answer.content, answer.headers["x-kind"]) == (418, b"short and stout", "pot")
    assert answer.url == server.at("open.example") + "/teapot?a=1"
    (received,) = server.received
    assert (received.method, received.target) == ("GET", "/teapot?a=1")
    assert received.headers["host"] == f"open.example:{server.port}"
    assert received.headers["user-agent"].startswith("jackfield/")


async def test_a_json_body_says_that_it_is_json(server: Upstream, outgoing: Outgoing) -> None:
    await outgoing.request("POST", server.at("open.example") + "/ok", json={"é": [1, None]})

    (received,) = server.received
    assert received.headers["content-type"] == "application/json"
    assert received.json == {"é": [1, None]}


async def test_given_headers_replace_ours_whatever_their_case(server: Upstream, outgoing: Outgoing) -> None:
    headers = {"Accept": "text/plain", "CONTENT-TYPE": "application/x+json"}
    await outgoing.request("POST", server.at("open.example") + "/ok", headers=headers, json={})

    (received,) = server.received
    assert received.headers["accept"] == "text/plain"
    assert received.headers["content-type"] == "application/x+json"


async def test_a_foreign_url_to_loopback_is_refused_and_nothing_is_sent(server: Upstream, outgoing: Outgoing) -> None:
    with pytest.raises(OutgoingRefused, match=r"'closed\.example' was refused"):
        await outgoing.request("GET", server.at("closed.example") + "/ok")

    assert server.connections == 0


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1.", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "0"]
)
async def test_no_spelling_of_loopback_gets_around_the_guard(server: Upstream, outgoing: Outgoing, host: str) -> None:
    with pytest.raises(OutgoingRefused):
        await outgoing.request("GET", server.at(host) + "/ok")

    assert server.connections == 0


async def test_a_config_url_names_its_own_host(server: Upstream, outgoing: Outgoing) -> None:
    answer = await outgoing.request("GET", server.url + "/ok", named_by=server.url + "/elsewhere")

    assert answer.content == b'{"ok":true}'


async def test_a_config_url_names_no_other_port_of_its_host(server: Upstream, outgoing: Outgoing) -> None:
    with pytest.raises(OutgoingRefused):
        await outgoing.request("GET", server.url + "/ok", named_by="http://127.0.0.1:1/")


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/secret",
        "http://closed.example:{port}/secret",
        "http://2130706433:{port}/secret",
        "//[::ffff:7f00:1]:{port}/secret",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://10.0.0.1/",
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_a_closed_address_is_refused(
    server: Upstream, outgoing: Outgoing, target: str, status: int
) -> None:
    server.answers["/go"] = redirect(target.format(port=server.port), status)

    with pytest.raises(OutgoingRefused, match=r"under \[outgoing\] in the config"):
        await outgoing.request("GET", server.at("open.example") + "/go")

    assert server.targets == ["/go"]


async def test_a_redirect_off_a_named_origin_is_foreign(server: Upstream, outgoing: Outgoing) -> None:
    async with Upstream() as neighbour:
        server.answers["/go"] = redirect(neighbour.url + "/secret")

        with pytest.raises(OutgoingRefused):
            await outgoing.request("GET", server.url + "/go", named_by=server.url)

        assert neighbour.connections == 0


async def test_a_redirect_on_a_named_origin_is_followed(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/go"] = redirect("/ok")

    answer = await outgoing.request("GET", server.url + "/go", named_by=server.url)

    assert (answer.url, answer.content) == (server.url + "/ok", b'{"ok":true}')


async def test_a_foreign_host_cannot_send_a_request_back_to_the_named_one(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/out"] = redirect(server.at("open.example") + "/back")
    server.answers["/back"] = redirect(server.url + "/admin")

    with pytest.raises(OutgoingRefused):
        await outgoing.request("GET", server.url + "/out", named_by=server.url)

    assert server.targets == ["/out", "/back"]


async def test_configured_headers_do_not_leave_their_origin(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/go"] = redirect(server.at("open.example") + "/ok", 307)
    secrets = {"Authorization": "Bearer k", "X-Api-Key": "k", "Cookie": "k"}

    await outgoing.request("POST", server.url + "/go", headers=secrets, json={"a": 1}, named_by=server.url)

    first, second = server.received
    assert {name.lower() for name in secrets} <= first.headers.keys()
    assert {name.lower() for name in secrets}.isdisjoint(second.headers)
    assert second.json == {"a": 1}


async def test_five_redirects_are_followed_and_six_are_not(server: Upstream, outgoing: Outgoing) -> None:
    for number in range(6):
        server.answers[f"/{number}"] = redirect(f"/{number + 1}")
    server.answers["/6"] = json_reply("there")

    assert (await outgoing.request("GET", server.at("open.example") + "/1")).content == b'"there"'
    with pytest.raises(OutgoingBadAnswer, match="redirected more than 5 times"):
        await outgoing.request("GET", server.at("open.example") + "/0")


async def test_a_redirect_without_a_place_is_an_answer(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/go"] = reply(302, b"where?")

    assert (await outgoing.request("GET", server.at("open.example") + "/go")).status == 302


@pytest.mark.parametrize(
    "entry", ["127.0.0.1", "127.0.0.0/8", "closed.example", "closed.example:{port}", "127.0.0.1:{port}"]
)
async def test_every_form_of_the_allow_list_opens_its_host(server: Upstream, entry: str) -> None:
    async with Outgoing((entry.format(port=server.port),), resolve=Names(NAMES)) as outgoing:
        assert (await outgoing.request("GET", server.at("closed.example") + "/ok")).status == 200


@pytest.mark.parametrize("entry", ["127.0.0.2", "10.0.0.0/8", "open.example", "closed.example:1", "127.0.0.1:1"])
async def test_an_allow_list_opens_nothing_else(server: Upstream, entry: str) -> None:
    async with Outgoing((entry,), resolve=Names(NAMES)) as outgoing:
        with pytest.raises(OutgoingRefused):
            await outgoing.request("GET", server.at("closed.example") + "/ok")


def test_an_allow_list_that_cannot_be_read_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"\[outgoing\] allow has 'http://x'"):
        Outgoing(("http://x",))


async def test_a_name_that_turns_private_between_requests_is_refused_then(server: Upstream) -> None:
    names = Names({"rebind.example": [["127.0.0.1"], ["127.0.0.2"]]})
    server.answers["/ok"] = reply(200, b"1", connection="close")
    async with Outgoing(("127.0.0.1",), resolve=names) as outgoing:
        assert (await outgoing.request("GET", server.at("rebind.example") + "/ok")).content == b"1"
        with pytest.raises(OutgoingRefused, match=r"'rebind\.example' was refused"):
            await outgoing.request("GET", server.at("rebind.example") + "/ok")


async def test_a_connection_is_used_again_by_the_same_permission(server: Upstream, outgoing: Outgoing) -> None:
    for _ in range(3):
        await outgoing.request("GET", server.at("open.example") + "/ok")
    for _ in range(3):
        await outgoing.request("GET", server.url + "/ok", named_by=server.url)

    assert [request.connection for request in server.received] == [1, 1, 1, 2, 2, 2]


async def test_a_foreign_url_does_not_ride_on_a_named_hosts_open_connection(
    server: Upstream, outgoing: Outgoing
) -> None:
    await outgoing.request("GET", server.url + "/ok", named_by=server.url)

    with pytest.raises(OutgoingRefused):
        await outgoing.request("GET", server.url + "/ok")
    with pytest.raises(OutgoingRefused):
        await outgoing.request("GET", server.url + "/ok", named_by=server.at("open.example"))
    server.answers["/go"] = redirect(server.url + "/ok")
    with pytest.raises(OutgoingRefused):
        await outgoing.request("GET", server.at("open.example") + "/go")

    assert server.targets == ["/ok", "/go"]


async def test_an_answer_at_the_limit_is_taken_and_one_byte_more_is_not(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/large"] = reply(200, b"x" * 1000)
    url = server.at("open.example") + "/large"

    assert len((await outgoing.request("GET", url, max_bytes=1000)).content) == 1000
    with pytest.raises(OutgoingBadAnswer, match="answered with more than the 999 bytes allowed"):
        await outgoing.request("GET", url, max_bytes=999)


async def test_an_endless_answer_is_cut_off_at_the_limit(server: Upstream, outgoing: Outgoing) -> None:
    def endless(_: Received) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n"
        while True:
            yield b"1000\r\n" + b"x" * 0x1000 + b"\r\n"

    server.answers["/endless"] = endless

    with pytest.raises(OutgoingBadAnswer, match="10,485,760 bytes"):
        await outgoing.request("GET", server.at("open.example") + "/endless", timeout=30)


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_bomb_counts_as_what_it_unpacks_to(
    server: Upstream, outgoing: Outgoing, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    packed = compress(b"\0" * 20_000_000)
    assert len(packed) < 50_000
    server.answers["/bomb"] = reply(200, packed, content_encoding=encoding)

    with pytest.raises(OutgoingBadAnswer, match="10,485,760 bytes"):
        await outgoing.request("GET", server.at("open.example") + "/bomb")


async def test_a_compressed_answer_is_unpacked(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/packed"] = reply(200, gzip.compress(b"[1]"), content_encoding="gzip")

    assert (await outgoing.request("GET", server.at("open.example") + "/packed")).content == b"[1]"


async def test_a_body_that_does_not_unpack_is_a_bad_answer(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/packed"] = reply(200, b"no gzip", content_encoding="gzip")

    with pytest.raises(OutgoingBadAnswer, match="cannot be decompressed"):
        await outgoing.request("GET", server.at("open.example") + "/packed")


async def test_a_server_that_says_nothing_is_given_up_at_the_timeout(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/never"] = never

    with pytest.raises(OutgoingTimedOut) as late:
        async with asyncio.timeout(2):
            await outgoing.request("GET", server.at("open.example") + "/never", timeout=0.05)

    assert str(late.value) == f"{server.at('open.example')} did not answer within 0.05 s."


async def test_the_timeout_bounds_the_body_too(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/stuck"] = b"HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nxx"

    with pytest.raises(OutgoingTimedOut):
        async with asyncio.timeout(2):
            await outgoing.request("GET", server.at("open.example") + "/stuck", timeout=0.05)


async def test_the_timeout_bounds_all_redirects_together(server: Upstream, outgoing: Outgoing) -> None:
    async def slow(_: Received) -> bytes:
        await asyncio.sleep(0.1)
        return redirect("/slow")

    server.answers["/slow"] = slow

    with pytest.raises(OutgoingTimedOut):
        await outgoing.request("GET", server.at("open.example") + "/slow", timeout=0.25)


async def test_a_cancelled_request_lets_go_of_its_connection(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/never"] = never
    task = asyncio.create_task(outgoing.request("GET", server.at("open.example") + "/never"))
    await asyncio.wait_for(server.arrived.wait(), 5)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await outgoing.request("GET", server.at("open.example") + "/ok")).status == 200


async def test_the_environments_proxies_are_not_used(
    server: Upstream, outgoing: Outgoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert (await outgoing.request("GET", server.url + "/ok", named_by=server.url)).status == 200


async def test_cookies_are_not_kept(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/ok"] = reply(200, b"", set_cookie="id=1; Path=/")
    for _ in range(2):
        await outgoing.request("GET", server.url + "/ok", named_by=server.url)

    assert ["cookie" in request.headers for request in server.received] == [False] * 2


async def test_a_user_in_a_url_is_sent_as_basic_auth_and_shown_nowhere(server: Upstream, outgoing: Outgoing) -> None:
    url = server.at("open.example").replace("http://", "http://me:hunter22@") + "/ok"

    answer = await outgoing.request("GET", url)

    assert server.received[0].headers["authorization"] == "Basic bWU6aHVudGVyMjI="
    assert answer.url == server.at("open.example") + "/ok"


@pytest.mark.parametrize("url", ["ftp://open.example/", "http://open.example:0/", "open.example", "http://"])
async def test_an_unusable_url_is_a_clean_error(outgoing: Outgoing, url: str) -> None:
    with pytest.raises(OutgoingBadUrl):
        await outgoing.request("GET", url)


async def test_a_request_that_is_not_http_is_a_clean_error_without_its_secrets(
    server: Upstream, outgoing: Outgoing
) -> None:
    for method, headers in (
        ("GET", {"x": "hunter22\r\ny: z"}),
        ("GET", {"x": "hunter22é"}),
        ("G E", {"x": "hunter22"}),
    ):
        with pytest.raises(OutgoingFailed) as failed:
            await outgoing.request(method, server.at("open.example") + "/ok", headers=headers)
        assert "hunter22" not in str(failed.value)
    assert server.received == []


async def test_an_answer_that_is_not_http_is_a_bad_answer(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/smtp"] = b"220 mail.example ESMTP\r\n\r\n"

    with pytest.raises(OutgoingBadAnswer, match="did not answer in HTTP"):
        await outgoing.request("GET", server.at("open.example") + "/smtp")


async def test_a_host_that_is_gone_is_unreachable(server: Upstream, outgoing: Outgoing) -> None:
    with pytest.raises(
        OutgoingUnreachable, match=r"could not be reached at port 1: 127\.0\.0\.1 \(Connection refused\)"
    ):
        await outgoing.request("GET", "http://db.internal:1/", named_by="http://db.internal:1/")
    with pytest.raises(OutgoingUnreachable, match=r"'nowhere\.example' was not found"):
        await outgoing.request("GET", "http://nowhere.example/", named_by="http://nowhere.example/")


def server_side() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


async def test_a_certificate_that_nobody_vouches_for_is_not_taken() -> None:
    async with Upstream(tls=server_side()) as server, Outgoing(resolve=Names(NAMES)) as outgoing:
        url = server.at("weather.example") + "/ok"

        with pytest.raises(OutgoingUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await outgoing.request("GET", url, named_by=url)

        assert server.received == []


async def test_a_certificate_must_be_for_the_urls_host_not_for_the_address() -> None:
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    async with Upstream(tls=server_side()) as server, Outgoing(resolve=Names(NAMES), tls=trusting) as outgoing:
        server.answers["/ok"] = json_reply("safe")
        right, wrong = server.at("weather.example") + "/ok", server.at("db.internal") + "/ok"

        assert (await outgoing.request("GET", right, named_by=right)).content == b'"safe"'
        with pytest.raises(OutgoingUnreachable, match="Hostname mismatch"):
            await outgoing.request("GET", wrong, named_by=wrong)


async def test_a_streamed_request_is_guarded_in_the_same_way(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/go"] = redirect("/ok")
    server.answers["/out"] = redirect("http://169.254.169.254/")

    async def sent(url: str) -> bytes:
        response = await outgoing.send("GET", url, headers={"X-Api-Key": "k"}, named_by=server.url)
        try:
            return b"".join([part async for part in response.aiter_bytes()])
        finally:
            await response.aclose()

    assert await sent(server.url + "/go") == b'{"ok":true}'
    with pytest.raises(OutgoingRefused, match=r"169\.254\.169\.254"):
        await sent(server.url + "/out")
    with pytest.raises(OutgoingRefused):
        await sent(server.at("closed.example") + "/ok")

    assert server.targets == ["/go", "/ok", "/out"]
    assert all(request.headers["x-api-key"] == "k" for request in server.received)


async def test_streamed_and_whole_requests_share_their_connections(server: Upstream, outgoing: Outgoing) -> None:
    for _ in range(2):
        response = await outgoing.send("GET", server.url + "/ok", headers={}, named_by=server.url)
        await response.drain(within=5)
    await outgoing.request("GET", server.url + "/ok", named_by=server.url)

    assert server.connections == 1


async def test_a_streamed_body_is_read_as_it_comes_in(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/stuck"] = b"HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\nxx"
    response = await outgoing.send("GET", server.url + "/stuck", headers={}, named_by=server.url)
    assert await anext(response.aiter_bytes()) == b"xx"
    await response.aclose()


@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", b"HTTP/1.1 200 X\r\ncontent-length: 10\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 X\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 X\r\ncontent-length: 10\r\netag: x\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 X\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 X\r\n\r\n"),
    ],
)
async def test_a_response_that_has_no_body_is_not_waited_for(
    server: Upstream, outgoing: Outgoing, method: str, head: bytes
) -> None:
    server.answers["/bare"] = head
    for _ in range(2):
        answer = await outgoing.request(method, server.at("open.example") + "/bare", timeout=5)
        assert (str(answer.status).encode(), answer.content) == (head[9:12], b"")


async def test_deflate_may_come_without_its_header(server: Upstream, outgoing: Outgoing) -> None:
    bare = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    server.answers["/bare"] = reply(200, bare.compress(b"[1]") + bare.flush(), content_encoding="deflate")
    server.answers["/both"] = reply(200, gzip.compress(zlib.compress(b"[2]")), content_encoding="deflate, gzip")

    assert (await outgoing.request("GET", server.at("open.example") + "/bare")).content == b"[1]"
    assert (await outgoing.request("GET", server.at("open.example") + "/both")).content == b"[2]"


async def test_a_configured_host_header_takes_the_place_of_ours(server: Upstream, outgoing: Outgoing) -> None:
    await outgoing.request("POST", server.at("open.example") + "/ok", headers={"Host": "other.example"})

    (received,) = server.received
    assert (received.headers["host"], received.headers["content-length"]) == ("other.example", "0")


async def test_headers_of_one_name_are_joined(server: Upstream, outgoing: Outgoing) -> None:
    server.answers["/two"] = b"HTTP/1.1 200 X\r\nvary: a\r\nVary: b\r\ncontent-length: 0\r\n\r\n"

    assert (await outgoing.request("GET", server.at("open.example") + "/two")).headers["vary"] == "a, b"
